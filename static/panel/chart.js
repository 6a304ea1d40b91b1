// Requests per minute as stacked bars: served at the bottom, then what callers caused, failures on top.
(() => {
  const holder = document.querySelector("[data-chart]");
  if (!holder) return;
  const note = holder.querySelector("[data-chart-note]");
  const REFRESH_MS = 15000;
  const HEIGHT = 230;
  let chart = null;
  let counts = null;

  const clock = (at) =>
    new Date(at * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  // A canvas knows no variables and no mixed colours: an element has to work them out first.
  const probe = holder.appendChild(document.createElement("i"));
  const colour = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };

  // Drawn from the tallest down, each over the one before.
  const stack = (data) => {
    const middle = data.ok.map((value, i) => value + data.caller[i]);
    return [data.at, middle.map((value, i) => value + data.failed[i]), middle, data.ok];
  };

  const series = (label, name, key) => ({
    label,
    fill: colour(name),
    stroke: colour(name),
    width: 0,
    points: { show: false },
    paths: uPlot.paths.bars({ size: [0.8, 24] }),
    value: (_, __, ___, index) => (index === null ? "–" : counts[key][index]),
  });

  const draw = () => {
    chart?.destroy();
    const axis = { stroke: colour("--tblr-secondary"), grid: { stroke: colour("--tblr-border-color"), width: 1 } };
    const options = {
      width: holder.clientWidth,
      height: HEIGHT,
      series: [
        { label: "Time", value: (_, at) => (at === null ? "–" : clock(at)) },
        series("Failed", "--tblr-red", "failed"),
        series("Caller or limit", "--tblr-yellow", "caller"),
        series("Served", "--tblr-green", "ok"),
      ],
      axes: [
        { ...axis, values: (_, ticks) => ticks.map(clock) },
        { ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] },
      ],
      scales: { x: { range: (_, first, last) => [first - 30, last + 30] }, y: { range: (_, __, top) => [0, Math.max(5, Math.ceil(top * 1.1))] } },
      cursor: { drag: { x: false, y: false } },
    };
    chart = new uPlot(options, stack(counts), holder);
  };

  const refresh = async () => {
    if (document.hidden && counts) return;
    try {
      const response = await fetch(holder.dataset.chart, { headers: { "HX-Request": "true" } });
      if (!response.ok) throw new Error(String(response.status));
      counts = await response.json();
      const empty = [counts.ok, counts.caller, counts.failed].every((values) => values.every((value) => value === 0));
      note.textContent = empty ? "No requests in the last hour." : "";
      if (chart) chart.setData(stack(counts));
      else draw();
    } catch {
      note.textContent = "The chart could not be loaded; trying again.";
    }
  };

  new ResizeObserver(() => chart?.setSize({ width: holder.clientWidth, height: HEIGHT })).observe(holder);
  addEventListener("poolgate:theme", () => counts && draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => counts && draw());
  setInterval(refresh, REFRESH_MS);
  refresh();
})();
