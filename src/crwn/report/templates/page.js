"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const root = document.documentElement;
  const plots = [...document.querySelectorAll(".plot")];
  const drawn = new Set();
  const all = (selector) => [...document.querySelectorAll(selector)];
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  // Storage may be forbidden for files; the page then follows the system.
  const remembered = () => { try { return localStorage.getItem("crwn-theme"); } catch { return null; } };
  const remember = (theme) => { try { localStorage.setItem("crwn-theme", theme); } catch { /* no storage */ } };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const setTheme = (theme) => { root.dataset.theme = theme; drawn.forEach(draw); };

  function axis(given) {
    return { gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--line"), ...given };
  }

  function coloured(value, ink) {
    if (value === "#000000") return ink;
    if (Array.isArray(value)) return value.map((part) => coloured(part, ink));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, coloured(part, ink)]));
    }
    return value;
  }

  // Which lines are on: those the figure starts with, until its legend is clicked.
  const switched = new Map(plots.map((plot) => [plot, new Map()]));
  const group = (trace) => trace.legendgroup || trace.name;
  const SIGNS = {
    circle: "\u25CF", "triangle-up": "\u25B2", "triangle-down": "\u25BC", square: "\u25A0", diamond: "\u25C6", cross: "\u271A",
    "diamond-tall": "\u2666", x: "\u2716", star: "\u2605", hexagon: "\u2B22", "triangle-left": "\u25C0", "triangle-right": "\u25B6",
    pentagon: "\u2B1F",
  };

  // The page's own legend: its entries flow like text, whatever the width; a click switches a line on or off.
  function showLegend(plot, data) {
    const named = data.filter((trace) => trace.name && trace.type !== "heatmap" && trace.showlegend !== false);
    const legend = plot.nextElementSibling;
    const focused = [...legend.children].indexOf(document.activeElement);
    legend.replaceChildren(...(named.length > 1 ? named : []).map((trace) => {
      const entry = document.createElement("button");
      const sign = document.createElement("span");
      sign.textContent = SIGNS[trace.marker.symbol] || "\u25A0";
      sign.style.color = trace.marker.color;
      entry.type = "button";
      entry.append(sign, ` ${trace.name}`);
      entry.setAttribute("aria-pressed", trace.visible);
      entry.addEventListener("click", () => { switched.get(plot).set(group(trace), !trace.visible); draw(plot); });
      return entry;
    }));
    if (focused >= 0) legend.children[focused].focus();
  }

  function draw(plot) {
    const figure = figures[plot.dataset.figure];
    const narrow = plot.clientWidth < 560;
    const chosen = document.getElementById("method").value;
    const data = coloured(figure.data, colour("--ink")).map((trace) => {
      const meta = trace.meta || {};
      if (meta.diverging) {
        return { ...trace, colorscale: [[0, "#0072B2"], [0.5, colour("--line")], [1, "#D55E00"]], xgap: 1, ygap: 1 };
      }
      const filtered = chosen && meta.method;
      const on = switched.get(plot).get(group(trace)) ?? (filtered || trace.visible !== "legendonly");
      return { ...trace, visible: Boolean(on && (!filtered || meta.method === chosen)) };
    });
    showLegend(plot, data);
    const given = figure.layout || {};
    const layout = {
      height: narrow ? 300 : 360, margin: { l: narrow ? 48 : 60, r: 12, t: 12, b: 48 }, showlegend: false,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("--ink"), size: 12 },
      hoverlabel: { bgcolor: colour("--panel"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
      ...given, xaxis: axis(given.xaxis), yaxis: axis(given.yaxis),
    };
    if (narrow && data.some((trace) => trace.type === "heatmap")) {
      layout.yaxis = { ...layout.yaxis, tickfont: { size: 8 } };
      layout.xaxis = { ...layout.xaxis, tickfont: { size: 8 } };
    }
    drawn.add(plot);
    return Plotly.react(plot, data, layout, { responsive: true, displaylogo: false, displayModeBar: narrow ? false : "hover" });
  }

  // A figure is drawn when it comes near the screen: a page of fifty opens at once.
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
    }
  }, { rootMargin: "600px" });

  function filter() {
    const words = document.getElementById("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const scenario = document.getElementById("scenario").value;
    const method = document.getElementById("method").value;
    const fits = (item) => (!scenario || item.dataset.scenario === scenario)
      && (!method || item.dataset.method === method)
      && words.every((word) => item.textContent.toLowerCase().includes(word));
    let shown = 0;
    const rows = all("tbody tr");
    for (const row of rows) { row.hidden = !fits(row); shown += !row.hidden; }
    for (const run of all("#runs details")) {
      const name = run.querySelector("summary").textContent.toLowerCase();
      run.hidden = (scenario && run.dataset.scenario !== scenario) || (method && run.dataset.method !== method)
        || !words.every((word) => name.includes(word));
    }
    for (const card of all(".card[data-scenario]")) card.hidden = scenario && card.dataset.scenario !== scenario;
    document.getElementById("count").textContent = `${shown} of ${rows.length}`;
    drawn.forEach(draw);
  }

  function sort(head) {
    const place = [...head.parentNode.children].indexOf(head);
    const numeric = head.dataset.kind === "number";
    const upwards = head.getAttribute("aria-sort") === (numeric ? "descending" : null)
      || (!numeric && head.getAttribute("aria-sort") !== "ascending");
    const body = document.querySelector("tbody");
    const value = (row) => {
      const cell = row.children[place];
      if (!numeric) return cell.textContent.trim();
      return cell.dataset.value === "" ? null : Number(cell.dataset.value);
    };
    const rows = [...body.children].sort((left, right) => {
      const a = value(left), b = value(right);
      if (a === null || b === null) return (a === null) - (b === null);  // what is not there stands last
      const order = numeric ? a - b : a.localeCompare(b, undefined, { numeric: true });
      return upwards ? order : -order;
    });
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", upwards ? "ascending" : "descending");
    body.append(...rows);
  }

  document.getElementById("theme").addEventListener("click", () => {
    const next = root.dataset.theme === "dark" ? "light" : "dark";
    remember(next);
    setTheme(next);
  });
  system.addEventListener("change", (event) => { if (!remembered()) setTheme(event.matches ? "dark" : "light"); });
  for (const name of ["search", "scenario", "method"]) document.getElementById(name).addEventListener("input", filter);
  for (const head of all("thead th")) head.firstElementChild.addEventListener("click", () => sort(head));
  for (const button of all(".copy")) {
    button.addEventListener("click", async () => {
      const code = button.previousElementSibling;
      try { await navigator.clipboard.writeText(code.textContent); button.textContent = "copied"; } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "selected";
      }
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
  }
  setTheme(remembered() || (system.matches ? "dark" : "light"));
  filter();
  plots.forEach((plot) => seen.observe(plot));
})();
