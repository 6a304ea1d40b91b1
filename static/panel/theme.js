// Runs before the first paint, so that a dark page never flashes white. A choice made by hand wins over the system's.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const theme = localStorage.getItem("poolgate-theme") ?? (dark.matches ? "dark" : "light");
    document.documentElement.setAttribute("data-bs-theme", theme);
  };
  dark.addEventListener("change", apply);
  addEventListener("storage", apply);
  apply();
})();
