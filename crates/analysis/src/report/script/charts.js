// Line charts that zoom, show values and switch series. Without this script, and in print, a figure keeps its static SVG.
// The data are in a JSON block of each figure (report/live.rs).
(() => {
  "use strict";
  const LOOKS = 6;
  // Drawings grow with the text of the page, which is larger in wide windows.
  const UNIT = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
  const HEIGHT = 260 * UNIT;
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const digits = value => String(Number(value.toPrecision(4)));
  const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  // The shapes of report/curves.rs, so that lines do not differ only in colour.
  const shape = (context, place, x, y, size) => {
    const corners = [
      null,
      [[-1, -1], [1, -1], [1, 1], [-1, 1]],
      [[0, -1.2], [1.2, 0.9], [-1.2, 0.9]],
      [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
      [[0, 1.2], [1.2, -0.9], [-1.2, -0.9]],
      [[-1.2, -0.4], [1.2, -0.4], [1.2, 0.4], [-1.2, 0.4]],
    ][place % LOOKS];
    context.beginPath();
    if (corners) {
      corners.forEach(([dx, dy]) => context.lineTo(x + dx * size, y + dy * size));
      context.closePath();
    } else {
      context.arc(x, y, size, 0, 2 * Math.PI);
    }
    context.fill();
  };

  // The positions of all series, each once. A series without a point at a position has `undefined` there, which does not
  // break its line; a point without a value has `null`, which breaks the line.
  const align = series => {
    const xs = [...new Set(series.flatMap(line => line.points.map(point => point[0])))].sort((a, b) => a - b);
    const columns = series.flatMap(line => {
      const at = new Map(line.points.map(point => [point[0], point]));
      return [1, 2, 3].map(part => xs.map(x => at.get(x)?.[part]));
    });
    return [xs, ...columns];
  };

  const lookup = panel => panel.series.map(line => new Map(line.points.map(point => [point[0], point])));

  // Drawings in addition to the lines: marks, knees, fitted lines, published levels, the line y = x.
  const extras = panel => chart => {
    const context = chart.ctx;
    const ratio = devicePixelRatio;
    const at = (x, y) => [chart.valToPos(x, "x", true), chart.valToPos(y, "y", true)];
    const line = (x1, y1, x2, y2) => {
      context.beginPath();
      context.moveTo(...at(x1, y1));
      context.lineTo(...at(x2, y2));
      context.stroke();
    };
    const { left, top, width, height } = chart.bbox;
    context.save();
    context.beginPath();
    context.rect(left - 6 * ratio, top - 6 * ratio, width + 12 * ratio, height + 12 * ratio);
    context.clip();
    context.lineWidth = ratio;
    context.strokeStyle = context.fillStyle = colour("--soft");
    context.font = `${10 * UNIT * ratio}px sans-serif`;
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    panel.published.forEach(([x, names], index) => {
      const [place] = at(x, 0);
      context.setLineDash([4 * ratio, 3 * ratio]);
      context.beginPath();
      context.moveTo(place, top);
      context.lineTo(place, top + height);
      context.stroke();
      context.fillText(names, place + 3 * ratio, top + height - (15 + 11 * index) * UNIT * ratio);
    });
    const { min, max } = chart.scales.x;
    if (panel.identity) {
      context.setLineDash([ratio, 3 * ratio]);
      line(min, min, max, max);
    }
    if (panel.errors.length > 0) {
      context.setLineDash([]);
      context.fillStyle = colour("--instrument");
      context.beginPath();
      context.moveTo(...at(panel.errors[0][0], 0));
      panel.errors.forEach(([x, error]) => context.lineTo(...at(x, error)));
      context.lineTo(...at(panel.errors[panel.errors.length - 1][0], 0));
      context.fill();
    }
    panel.series.forEach((series, index) => {
      if (!chart.series[1 + 3 * index].show) return;
      context.strokeStyle = context.fillStyle = colour(`--series${series.place % LOOKS}`);
      context.setLineDash([]);
      for (const [x, y] of series.points) {
        if (y !== null && x >= min && x <= max) shape(context, series.place, ...at(x, y), 3 * ratio);
      }
      if (series.fit) {
        context.setLineDash([5 * ratio, 3 * ratio]);
        line(...series.fit);
        context.setLineDash([]);
      }
      if (series.knee) {
        context.beginPath();
        context.arc(...at(...series.knee), 6.5 * ratio, 0, 2 * Math.PI);
        context.stroke();
      }
    });
    context.restore();
  };

  // The values at the cursor.
  const tip = (panel, maps, box) => chart => {
    const index = chart.cursor.idx;
    const x = index === null || index === undefined ? undefined : chart.data[0][index];
    const rows = x === undefined ? [] : panel.series.flatMap((line, place) => {
      const point = maps[place].get(x);
      if (!point || !chart.series[1 + 3 * place].show) return [];
      const [, value, low, high, n] = point;
      const text = value === null ? "INVALID" :
        `${digits(value)}${low === null ? "" : ` [${digits(low)}, ${digits(high)}]`} n = ${n}`;
      const name = element("span", { className: `mark series${line.place % LOOKS}` }, line.name);
      return [element("div", {}, name, ` ${text}`)];
    });
    const error = panel.errors.find(([place]) => place === x);
    if (error && rows.length > 0) rows.push(element("div", {}, `instrument's error ${digits(error[1])}`));
    box.hidden = rows.length === 0;
    if (rows.length === 0) return;
    box.replaceChildren(element("b", {}, `${panel.axis} ${digits(x)}`), ...rows);
    const left = chart.valToPos(x, "x") + chart.over.offsetLeft;
    const room = chart.root.clientWidth - box.offsetWidth;
    box.style.left = `${Math.max(0, Math.min(left + 12, room))}px`;
  };

  const draw = (panel, holder) => {
    const box = element("div", { className: "tip", hidden: true });
    box.setAttribute("role", "status");
    const maps = lookup(panel);
    const data = align(panel.series);
    const positions = data[0];
    const axis = { stroke: () => colour("--soft"), grid: { stroke: () => colour("--line"), width: 1 },
      ticks: { stroke: () => colour("--line"), width: 1 }, font: `${11 * UNIT}px sans-serif` };
    const few = panel.logarithmic && positions.length <= 8;
    const options = {
      width: Math.max(240, holder.clientWidth), height: HEIGHT, legend: { show: false },
      scales: {
        x: { time: false, distr: panel.logarithmic ? 3 : 1, range: (_, low, high) =>
          low < high ? [low, high] : [low * 0.9, low * 1.1 + 1e-9] },
        y: { range: (_, low, high) => [Math.min(0, low), high > Math.min(0, low) ? high + 0.06 * (high - Math.min(0, low)) : 1] },
      },
      axes: [
        { ...axis, label: panel.axis, labelSize: 18 * UNIT, labelFont: `${11 * UNIT}px sans-serif`, size: 34 * UNIT,
          ...(few ? { splits: () => positions, filter: (_, splits) => splits } : {}) },
        { ...axis, size: 58 * UNIT, values: (_, splits) => splits.map(split => digits(split)) },
      ],
      cursor: { drag: { x: true, y: false }, points: { show: false }, y: false },
      series: [{}, ...panel.series.flatMap(line => {
        const stroke = () => colour(`--series${line.place % LOOKS}`);
        const plain = { stroke: "transparent", width: 0, points: { show: false } };
        return [
          { label: line.name, stroke, width: 1.6, points: { show: false }, ...(line.fit ? { paths: () => null } : {}) },
          { ...plain, label: `${line.name} low` },
          { ...plain, label: `${line.name} high` },
        ];
      })],
      bands: panel.series.map((line, index) => line.fit ? null : {
        series: [3 + 3 * index, 2 + 3 * index], fill: () => `${colour(`--series${line.place % LOOKS}`)}29`,
      }).filter(Boolean),
      hooks: { draw: [extras(panel)], setCursor: [tip(panel, maps, box)] },
    };
    const chart = new uPlot(options, data, holder);
    chart.root.append(box);
    return chart;
  };

  // The cell of the point at the cursor that is nearest to the pointer; without a pointer, of the first series.
  const cell = (panel, maps, chart) => {
    const index = chart.cursor.idx;
    if (index === null || index === undefined) return undefined;
    const x = chart.data[0][index];
    const far = point => Math.abs(chart.valToPos(point[1] ?? 0, "y") - chart.cursor.top);
    return maps
      .filter((_, place) => chart.series[1 + 3 * place].show)
      .flatMap(map => map.has(x) ? [map.get(x)] : [])
      .sort((a, b) => far(a) - far(b))[0]?.[5];
  };

  const zoom = (chart, factor) => {
    const { min, max } = chart.scales.x;
    const logarithmic = chart.scales.x.distr === 3;
    const [low, high] = logarithmic ? [Math.log(min), Math.log(max)] : [min, max];
    const cursor = chart.cursor.idx;
    const focus = cursor === null || cursor === undefined ? undefined : chart.data[0][cursor];
    const middle = focus === undefined ? (low + high) / 2 : logarithmic ? Math.log(focus) : focus;
    const half = (high - low) / 2 * factor;
    const ends = logarithmic ? [Math.exp(middle - half), Math.exp(middle + half)] : [middle - half, middle + half];
    const xs = chart.data[0];
    const range = { min: Math.max(ends[0], xs[0]), max: Math.min(ends[1], xs[xs.length - 1]) };
    if (range.max > range.min) chart.setScale("x", range);
  };
  const whole = chart => {
    const xs = chart.data[0];
    chart.setScale("x", { min: xs[0], max: xs[xs.length - 1] });
  };

  // Arrow keys move along the points, plus and minus zoom, zero shows everything, Enter goes to the cell.
  const keys = (chart, follow) => event => {
    const xs = chart.data[0];
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      const from = chart.cursor.idx ?? (step > 0 ? -1 : xs.length);
      const to = Math.max(0, Math.min(xs.length - 1, from + step));
      chart.setCursor({ left: chart.valToPos(xs[to], "x"), top: 10 });
    } else if (event.key === "+" || event.key === "=") {
      zoom(chart, 0.5);
    } else if (event.key === "-") {
      zoom(chart, 2);
    } else if (event.key === "0") {
      whole(chart);
    } else if (event.key === "Enter") {
      follow();
    } else if (event.key === "Escape") {
      chart.setCursor({ left: -10, top: -10 });
    } else {
      return;
    }
    event.preventDefault();
  };

  const switches = (legend, charts, panels) => {
    for (const entry of legend.querySelectorAll("[data-series]")) {
      const name = entry.dataset.series;
      const button = element("button", { type: "button", className: "switch" });
      button.append(...entry.childNodes);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const show = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(show));
        charts.forEach((chart, place) => panels[place].series.forEach((line, index) => {
          if (line.name !== name) return;
          [1, 2, 3].forEach(part => chart.setSeries(part + 3 * index, { show }));
        }));
      });
      entry.replaceChildren(button);
    }
  };

  const enliven = figure => {
    const panels = JSON.parse(figure.querySelector("script.data").textContent);
    const live = element("div", { className: "live" });
    figure.querySelector(".scroll").before(live);
    figure.classList.add("is-live");
    const charts = panels.map(panel => {
      const holder = element("div", { className: "panel", tabIndex: 0 });
      holder.setAttribute("role", "group");
      holder.setAttribute("aria-label", `${panel.title}, ${panel.unit}. Arrow keys move along the points, plus and minus zoom, 0 shows all, Enter goes to the cell of a point.`);
      const act = (label, title, action) => element("button", { type: "button", title, onclick: () => action(chart) }, label);
      const heading = element("div", { className: "heading" }, element("b", {}, panel.title), `, ${panel.unit}`);
      live.append(element("div", { className: "frame" }, heading, holder));
      const chart = draw(panel, holder);
      heading.append(act("+", "Zoom in", it => zoom(it, 0.5)), act("−", "Zoom out", it => zoom(it, 2)), act("all", "Show all points", whole));
      const maps = lookup(panel);
      const follow = () => {
        const target = cell(panel, maps, chart);
        if (target) location.hash = target;
      };
      holder.addEventListener("keydown", keys(chart, follow));
      // A drag zooms; a click without a drag goes to the cell.
      let pressed = 0;
      chart.over.addEventListener("mousedown", event => { pressed = event.clientX; });
      chart.over.addEventListener("click", event => { if (Math.abs(event.clientX - pressed) < 3) follow(); });
      new ResizeObserver(() => {
        const width = Math.max(240, holder.clientWidth);
        if (width !== chart.width) chart.setSize({ width, height: HEIGHT });
      }).observe(holder);
      return chart;
    });
    const legend = figure.querySelector(".legend");
    if (legend) switches(legend, charts, panels);
    return charts;
  };

  // Figures near the window become interactive first, and the others one by one after the page has opened. So a
  // long report opens at once.
  const charts = [];
  const waiting = new Set([...document.querySelectorAll("figure.curve")].filter(figure => figure.querySelector("script.data")));
  const start = figure => {
    if (waiting.delete(figure)) charts.push(...enliven(figure));
  };
  const near = new IntersectionObserver(entries => {
    entries.filter(entry => entry.isIntersecting).forEach(({ target }) => {
      near.unobserve(target);
      start(target);
    });
  }, { rootMargin: "600px" });
  waiting.forEach(figure => near.observe(figure));
  const rest = () => {
    const [next] = waiting;
    if (!next) return;
    start(next);
    setTimeout(rest, 20);
  };
  addEventListener("load", () => setTimeout(rest, 200));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(chart => chart.redraw(false, true)));
})();
