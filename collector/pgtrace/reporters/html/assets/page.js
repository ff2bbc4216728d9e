// Draws the charts of the page from its JSON. Every number that is read as text comes out of the
// tables, which Python made: nothing is formatted or computed here but places on the screen.
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("data").textContent);
  const drawn = [];
  const make = (name, parent, attributes = {}, content = "") => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = content;
    parent?.append(element);
    return element;
  };
  const FONT = "12px system-ui, sans-serif";

  const decades = (from, upto) => {
    const found = [];
    for (let at = Math.floor(Math.log10(from)); at <= Math.ceil(Math.log10(upto)); at++) {
      found.push(10 ** at);
    }
    return found.filter((value) => value >= from && value <= upto);
  };
  // Within a decade or two, powers of ten are too few to read a place by.
  const ticks = (from, upto) => {
    const found = decades(from / 10, upto).flatMap((n) => [n, 2 * n, 5 * n])
      .filter((n) => n >= from && n <= upto);
    return found.length > 9 ? decades(from, upto) : found;
  };
  const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const time = (ns) => {
    const [size, unit] = TIMES.find(([least]) => ns >= least) ?? TIMES[3];
    return `${ns / size} ${unit}`;
  };
  const axis = (more) => ({
    stroke: () => colour("dim"), grid: { stroke: () => colour("grid"), width: 1 },
    ticks: { show: false }, font: FONT, labelFont: FONT, labelSize: 18, filter: (_, splits) => splits, ...more,
  });
  // Those whose names, of some 7 pixels a character, do not reach into the one before.
  const apart = (u, values, name) => {
    let end = -Infinity;
    return values.filter((value) => {
      const at = u.valToPos(value, "x"), half = 3.5 * name(value).length;
      if (at - half < end + 4) return false;
      end = at + half;
      return true;
    });
  };
  // Only marks that have room for their name, the rarer ones first.
  const roomy = (u, marks) => marks.filter((mark, at) => mark % 1 === 0 || (u.valToPos(1, "x") > 190
    && at > 0)).filter((mark) => mark !== 0 || u.valToPos(1, "x") > 60);
  const steps = (u, labels) => Math.max(1, Math.ceil((labels * 58) / u.bbox.width * devicePixelRatio));

  // What is drawn of each kind of chart: its panels, and where the rows of its table are in x.
  const KINDS = {
    latencies(chart) {
      const buckets = chart.edges.length - 1;
      const most = Math.max(...chart.layers.flatMap((layer) => layer.counts));
      const groups = 1 + Math.max(...chart.layers.map((layer) => layer.group));
      const sums = Array.from({ length: buckets * groups }, (_, at) => chart.layers
        .filter((layer) => layer.group === at % groups)
        .reduce((sum, layer) => sum + layer.shares[Math.floor(at / groups)], 0));
      const x = (label) => axis({
        label, splits: (u) => chart.edges.map((_, k) => k).filter((k) => k % steps(u, buckets) === 0),
        values: (_, splits) => splits.map((k) => chart.edges[k]),
      });
      return {
        rows: chart.edges.slice(1).map((_, k) => k + 0.5), range: [0, buckets],
        panels: [
          { height: 230, draw: counts, y: [0.7, Math.max(10, most * 1.6)], distr: 3,
            axes: [x(""), axis({ label: chart.what, splits: (u, _, min, max) => decades(min, max),
              values: (_, splits) => splits.map((n) => n.toLocaleString("en-US")) })] },
          { height: 160, draw: shares, y: [0, Math.max(...sums) * 1.08 || 1], distr: 1,
            axes: [x(`latency of a ${chart.what.slice(0, -1)}`), axis({ label: "share of the time",
              values: (_, splits) => splits.map((n) => `${n} %`) })] },
        ],
      };
    },
    percentiles(chart) {
      const values = chart.layers.flatMap((layer) => layer.points.map(([, ns]) => Math.max(ns, 1)));
      const end = Math.max(...chart.rows);
      const marks = [0, Math.log10(2), Math.log10(4), 1, 2, 3, 4, 5, 6, 7, 8, 9];
      const names = ["0 %", "50 %", "75 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %",
        "99.9999 %", "99.99999 %", "99.999999 %", "99.9999999 %"];
      return {
        rows: chart.rows, range: [0, end * 1.01],
        panels: [{
          height: 270, draw: curves, distr: 3,
          y: [Math.min(...values) / 1.5, Math.max(...values) * 1.5],
          axes: [
            axis({ label: "percentile of the reads",
              splits: (u) => apart(u, roomy(u, marks.filter((m) => m <= end)), (m) => names[marks.indexOf(m)]),
              values: (_, splits) => splits.map((m) => names[marks.indexOf(m)]) }),
            axis({ label: "latency", splits: (u, _, min, max) => ticks(min, max),
              values: (_, splits) => splits.map(time) }),
          ],
        }],
      };
    },
  };

  const UNITS = { time, percent: (n) => `${+n.toPrecision(3)} %`, number: (n) => n.toLocaleString("en-US") };
  KINDS.lines = (chart) => {
    const rows = chart.layers[0].points.map(([x]) => x);
    const x = (label) => axis({ label,
      splits: (u, _, min, max) => apart(u, ticks(min, max), UNITS[chart.unit]),
      values: (_, splits) => splits.map(UNITS[chart.unit]) });
    return {
      rows, range: [rows[0] / 1.15, rows.at(-1) * 1.15], log: true,
      panels: chart.panels.map((of, number) => {
        const values = chart.layers.filter((l) => l.panel === number)
          .flatMap((l) => [...l.points.map(([, y]) => y), ...l.intervals.flatMap((each) => each ?? [])]);
        const linear = of.unit === "percent";
        return {
          height: 240, draw: (u, c, layers) => lines(u, c, layers, number), distr: linear ? 1 : 3,
          y: linear ? [0, Math.max(...values) * 1.1 || 1] : [Math.min(...values) / 1.4, Math.max(...values) * 1.4],
          axes: [x(number === chart.panels.length - 1 ? chart.x : ""), axis({ label: of.name,
            ...(linear ? {} : { splits: (u, _, min, max) => ticks(min, max) }),
            values: (_, splits) => splits.map(UNITS[of.unit]) })],
        };
      }),
    };
  };

  function panel(chart, shown, place, state, of, width) {
    const options = {
      width, height: of.height, padding: [8, 28, 0, 0], legend: { show: false },
      scales: { x: { time: false, range: shown.range, distr: shown.log ? 3 : 1, log: 10 }, y: { distr: of.distr, log: 10, range: of.y } },
      axes: of.axes.map((each, at) => ({ ...each, size: at ? 62 : 26 })),
      series: [{}, { show: true, stroke: "transparent", paths: () => null, points: { show: false } }],
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      hooks: {
        draw: [(u) => {
          const visible = chart.layers.filter((l) => !l.keys.some((key) => state.hidden.has(key)));
          of.drawn = of.draw(u, chart, visible);
          state.figure.dataset.drawn = state.panels.reduce((sum, each) => sum + (each.drawn ?? 0), 0);
        }],
        setCursor: [(u) => state.point(u.cursor.left >= 0 ? u.cursor.idx : null, u)],
      },
    };
    return new uPlot(options, [shown.rows, shown.rows.map(() => 1)], place);
  }

  // Buttons that hide and show what is drawn under a name: a source, a pattern, a storage.
  function legend(chart, place, state) {
    const names = new Map();
    for (const layer of chart.layers) {
      layer.keys.forEach((key, at) => names.set(key, [layer, at]));
    }
    for (const [key, [layer, at]] of [...names].sort(([, [, a]], [, [, b]]) => a - b)) {
      const button = make("button", place, { type: "button", "aria-pressed": "true" });
      const swatch = make("canvas", button, { width: 14, height: 12, "aria-hidden": "true" });
      state.swatches.push(() => {
        const ctx = swatch.getContext("2d");
        ctx.clearRect(0, 0, 14, 12);
        const draw = chart.kind === "latencies" ? bar : stroke;
        draw(ctx, { colour: at ? "dim" : layer.colour, outlined: layer.outlined && at === layer.keys.length - 1 }, 1, 1, 12, 10);
      });
      make("span", button, {}, key);
      button.addEventListener("click", () => {
        const hide = !state.hidden.delete(key);
        if (hide) state.hidden.add(key);
        button.setAttribute("aria-pressed", String(!hide));
        state.plots.forEach((plot) => plot.redraw(false));
      });
    }
  }

  function build(figure) {
    const chart = charts[figure.dataset.chart];
    const shown = KINDS[chart.kind](chart);
    const rows = [...figure.querySelectorAll("tbody tr")];
    const state = { figure, hidden: new Set(), panels: shown.panels, plots: [], swatches: [], at: null };
    const bar = make("div", null, { class: "legend", role: "group", "aria-label": `Shown in the chart: ${chart.title}` });
    const place = make("div", null, { class: "plot", tabindex: "0", role: "group",
      "aria-label": `Chart: ${chart.title}. Arrow keys go through its numbers; they stand in the table below, too.` });
    const readout = make("p", null, { class: "readout", "aria-live": "polite" });
    figure.querySelector("details").before(bar, place, readout);
    legend(chart, bar, state);

    // The row of the table that belongs to the place that is pointed at.
    state.point = (row, from) => {
      if (row === state.at) return;
      rows[state.at]?.classList.remove("at");
      state.at = row;
      rows[row]?.classList.add("at");
      const cells = row == null ? [] : [...rows[row].querySelectorAll("td")];
      const told = cells.map((cell, at) => cell.className === "zero" ? "" : `${chart.columns[at]} ${cell.textContent}`);
      readout.textContent = row == null ? "" :
        `${rows[row].querySelector("th").textContent}:  ${told.filter(Boolean).join("   ") || "nothing"}`;
      for (const plot of state.plots.filter((each) => each !== from)) {
        plot.setCursor({ left: row == null ? -10 : plot.valToPos(shown.rows[row], "x"), top: 0 }, false);
      }
    };
    const move = (by) => {
      const row = Math.min(rows.length - 1, Math.max(0, state.at == null ? 0 : state.at + by));
      state.point(row, null);
    };
    place.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9 }[event.key];
      if (by) { event.preventDefault(); move(by); }
      if (event.key === "Escape") state.point(null, null);
    });
    const size = () => {
      const width = Math.floor(place.clientWidth);
      if (!width) return;
      if (!state.plots.length) {
        state.plots = shown.panels.map((of) => panel(chart, shown, place, state, of, width));
        state.swatches.forEach((draw) => draw());
        drawn.push(state);
      } else {
        state.plots.forEach((plot) => plot.width !== width && plot.setSize({ width, height: plot.height }));
      }
    };
    // A frame later: a chart that changes the layout while it is observed is called a loop.
    new ResizeObserver(() => requestAnimationFrame(size)).observe(place);
    state.resize = size;
  }

  document.querySelectorAll("figure[data-chart]").forEach(build);
  const redraw = () => drawn.forEach((state) => {
    state.resize();
    state.swatches.forEach((draw) => draw());
    state.plots.forEach((plot) => plot.redraw(false, true));
  });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(query).addEventListener("change", redraw);
  }
})();
