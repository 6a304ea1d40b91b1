// What every page needs: times in the reader's zone, copy buttons, the theme switch, and live parts that say when
// they no longer are.
(() => {
  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  const formats = {
    clock,
    full: { month: "short", day: "2-digit", ...clock },
    until: { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  };

  const showLocalTimes = (root) => {
    for (const element of root.querySelectorAll("time[data-time]")) {
      element.textContent = new Date(element.dateTime).toLocaleString(undefined, formats[element.dataset.time]);
    }
  };

  const copy = async (button) => {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent.trim());
      button.classList.add("copied");
      setTimeout(() => button.classList.remove("copied"), 1500);
    } catch {
      getSelection().selectAllChildren(source); // no clipboard without https: at least mark it
    }
  };

  const switchTheme = () => {
    const next = document.documentElement.getAttribute("data-bs-theme") === "dark" ? "light" : "dark";
    localStorage.setItem("poolgate-theme", next);
    document.documentElement.setAttribute("data-bs-theme", next);
    dispatchEvent(new Event("poolgate:theme"));
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-theme-toggle]");
    if (!button) return;
    if (button.dataset.copy) copy(button);
    else switchTheme();
  });

  const parts = () => [...document.querySelectorAll("[data-live]")];
  const liveFailed = (failed) => {
    document.querySelector("[data-live-failed]")?.classList.toggle("d-none", !failed);
    for (const part of parts()) part.classList.toggle("stale", failed);
  };
  // Not while nobody looks, nor under the hand of somebody who is marking text.
  const wait = () => {
    const selection = getSelection();
    return document.hidden || (!selection.isCollapsed && parts().some((part) => part.contains(selection.anchorNode)));
  };
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.matches("[data-live]") && wait()) event.preventDefault();
  });
  document.addEventListener("htmx:sendError", () => liveFailed(true));
  document.addEventListener("htmx:responseError", () => liveFailed(true));
  document.addEventListener("htmx:afterSwap", (event) => {
    liveFailed(false);
    showLocalTimes(event.target);
  });
  document.addEventListener("htmx:oobAfterSwap", (event) => showLocalTimes(event.target));

  showLocalTimes(document);
})();
