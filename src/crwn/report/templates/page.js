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

  function draw(plot) {
    const figure = figures[plot.dataset.figure];
    const narrow = plot.clientWidth < 560;
    const chosen = document.getElementById("method").value;
    const data = coloured(figure.data, colour("--ink")).map((trace) => {
      const meta = trace.meta || {};
      if (meta.diverging) {
        return { ...trace, colorscale: [[0, "#0072B2"], [0.5, colour("--panel")], [1, "#D55E00"]], xgap: 1, ygap: 1 };
      }
      return chosen && meta.method && meta.method !== chosen ? { ...trace, visible: false } : trace;
    });
    const named = data.filter((trace) => trace.type !== "heatmap" && trace.showlegend !== false && trace.visible !== false);
    const below = narrow || named.length > 6;
    let rows = 1, used = 0;  // of a legend below, whose entries flow like words
    for (const trace of named) {
      const width = 45 + 6 * (trace.name || "").length;
      if (used && used + width > plot.clientWidth - 72) { rows += 1; used = 0; }
      used += width;
    }
    const row = named.some((trace) => trace.legendgroup) ? 29 : 21;
    const legend = below && named.length > 1 ? 14 + row * rows : 0;
    const given = figure.layout || {};
    const layout = {
      height: (narrow ? 300 : 360) + legend, margin: { l: narrow ? 48 : 60, r: 12, t: 12, b: 48 + legend },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("--ink"), size: 12 },
      legend: below ? { orientation: "h", yref: "container", yanchor: "bottom", y: 0, font: { size: 11 } } : {},
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
