// Time-sequence graphs that zoom and describe the point under the pointer. Without this script, and in print, a figure
// keeps its static SVG. The data are in a JSON block of each figure (fathometer-packets, plot/data.rs).
(() => {
  "use strict";
  // Drawings grow with the text of the page, which is larger in wide windows.
  const UNIT = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
  const HEIGHTS = [320 * UNIT, 140 * UNIT];
  const LEFT = 62 * UNIT, RIGHT = 10, TOP = 8, BOTTOM = 34 * UNIT;
  // The largest distance in pixels at which a point counts as under the pointer.
  const REACH = 12;
  // Up to this number of drops and retransmissions in view, each has a label at its mark.
  const NAMED = 14;
  // With more connections than this, marks are smaller.
  const FEW = 6;
  const SHALLOWEST_US = 20, LOWEST_BYTES = 40;
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
  const KINDS = [["segment", "--series0"], ["out of order", "--series1"], ["repeated", "--series4"], ["probe", "--series3"]];

  // Round steps for about `count` ticks.
  const ticks = (low, high, count) => {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(factor => factor * power).find(candidate => candidate >= rough * 0.999);
    const all = [];
    for (let n = Math.ceil(low / step); n * step <= high; n += 1) all.push(n * step);
    return { all, step };
  };
  const timeText = (us, step) => {
    if (step >= 1e5) return `${Number((us / 1e6).toPrecision(9))} s`;
    if (step >= 100) return `${Number((us / 1e3).toPrecision(9))} ms`;
    return `${Math.round(us)} µs`;
  };
  const byteText = (bytes, step) => {
    if (step >= 1e5) return `${Number((bytes / 1e6).toPrecision(9))} MB`;
    if (step >= 100) return `${Number((bytes / 1e3).toPrecision(9))} kB`;
    return `${Math.round(bytes)} B`;
  };

  // The index of the first point at or after a time. Points are in the order of their times.
  const first = (points, time) => {
    let low = 0, high = points.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < time) low = middle + 1; else high = middle;
    }
    return low;
  };
  const within = (points, from, to) => points.slice(Math.max(0, first(points, from) - 1), first(points, to) + 1);

  const enliven = figure => {
    const panels = JSON.parse(figure.querySelector("script.data").textContent);
    const whole = { from: 0, to: Math.max(panels[0].end_us * 1.02, SHALLOWEST_US) };
    const time = { ...whole };
    const live = element("div", { className: "live sequences" });
    const charts = panels.map((panel, index) => {
      const canvas = element("canvas", {});
      const box = element("div", { className: "tip", hidden: true });
      box.setAttribute("role", "status");
      const holder = element("div", { className: "panel", tabIndex: 0 }, canvas, box);
      holder.style.height = `${HEIGHTS[index]}px`;
      holder.style.minHeight = "0";
      holder.setAttribute("role", "group");
      holder.setAttribute("aria-label", `${panel.title}: sequence numbers over time. Arrow keys move, plus and minus zoom, 0 shows all, N and P go to the next and the previous drop or retransmission.`);
      const top = Math.max(panel.bytes * 1.04, LOWEST_BYTES);
      const events = panel.connections.flatMap(one => [
        ...one.drops.map(([at, start, end, cause]) => ({ at, y: one.below + (start + end) / 2, text: `dropped by the path: ${cause}`, short: cause, one, start, end })),
        ...one.repeats.map(([at, start, end, cause]) => ({ at, y: one.below + (start + end) / 2, ring: true, one, start, end,
          text: cause ? `retransmission after a drop (${cause})` : "retransmission of bytes that the path had not dropped", short: cause ? "retransmission" : "spurious" })),
      ]).sort((a, b) => a.at - b.at);
      return { panel, canvas, box, holder, top, height: HEIGHTS[index], bytes: { from: 0, to: top }, events, picked: -1, drag: null };
    });

    const place = chart => {
      const width = chart.holder.clientWidth;
      const { from, to } = time;
      const { from: low, to: high } = chart.bytes;
      return {
        width,
        x: us => LEFT + (us - from) / (to - from) * (width - LEFT - RIGHT),
        y: bytes => chart.height - BOTTOM - (bytes - low) / (high - low) * (chart.height - TOP - BOTTOM),
        us: x => from + (x - LEFT) / (width - LEFT - RIGHT) * (to - from),
        at: y => low + (chart.height - BOTTOM - y) / (chart.height - TOP - BOTTOM) * (high - low),
      };
    };

    // A step line, with the lowest and the highest level of each pixel column.
    const steps = (context, points, below, at, stroke) => {
      context.strokeStyle = stroke;
      context.beginPath();
      let column = null, low = 0, high = 0, last = 0;
      const flush = () => {
        if (column === null) return;
        context.lineTo(column, at.y(below + low));
        context.lineTo(column, at.y(below + high));
        context.lineTo(column, at.y(below + last));
      };
      for (const [us, number] of within(points, time.from, time.to)) {
        const x = Math.round(clamp(at.x(us), -10, at.width + 10));
        if (x !== column) {
          flush();
          if (column !== null) context.lineTo(x, at.y(below + last));
          [column, low, high] = [x, number, number];
        }
        low = Math.min(low, number);
        high = Math.max(high, number);
        last = number;
      }
      flush();
      context.stroke();
    };

    // Bars of one kind; bars in the same pixel column that touch are merged.
    const bars = (context, segments, kind, below, at) => {
      context.beginPath();
      let bar = null;
      const flush = () => {
        if (!bar) return;
        const middle = (bar.top + bar.bottom) / 2;
        context.moveTo(bar.x, Math.max(bar.bottom, middle + 1.2));
        context.lineTo(bar.x, Math.min(bar.top, middle - 1.2));
      };
      for (const [us, start, end, of] of segments) {
        if (of !== kind) continue;
        const next = { x: at.x(us), bottom: at.y(below + start), top: at.y(below + end) };
        if (bar && next.x - bar.x < 0.5 && Math.abs(bar.top - next.bottom) < 0.5) {
          bar.top = Math.min(bar.top, next.top);
        } else {
          flush();
          bar = next;
        }
      }
      flush();
      context.stroke();
    };

    const mark = (context, name, x, y, size) => {
      context.beginPath();
      if (name === "SYN") {
        [[-size, size], [size, size], [0, -size]].forEach(([dx, dy]) => context.lineTo(x + dx, y + dy));
        context.fill();
      } else if (name === "FIN") {
        context.fillRect(x - size * 0.8, y - size * 0.8, size * 1.6, size * 1.6);
      } else if (name === "RST") {
        [[-size, -size, size, size], [-size, size, size, -size]].forEach(([a, b, c, d]) => { context.moveTo(x + a, y + b); context.lineTo(x + c, y + d); });
        context.stroke();
      } else {
        context.moveTo(x, y - 3);
        context.lineTo(x, y + 3);
        context.stroke();
      }
    };

    const drawAxes = (context, chart, at) => {
      context.font = `${11 * UNIT}px sans-serif`;
      context.lineWidth = 1;
      const { all: times, step: every } = ticks(time.from, time.to, Math.max(2, at.width / 110));
      const { all: levels, step } = ticks(chart.bytes.from, chart.bytes.to, chart.height / 50);
      context.strokeStyle = colour("--line");
      context.fillStyle = colour("--soft");
      context.textAlign = "center";
      for (const us of times) {
        context.beginPath();
        context.moveTo(at.x(us), TOP);
        context.lineTo(at.x(us), chart.height - BOTTOM);
        context.stroke();
        context.fillText(timeText(us, every), at.x(us), chart.height - BOTTOM + 15 * UNIT);
      }
      context.textAlign = "right";
      for (const bytes of levels) {
        context.beginPath();
        context.moveTo(LEFT, at.y(bytes));
        context.lineTo(at.width - RIGHT, at.y(bytes));
        context.stroke();
        context.fillText(byteText(bytes, step), LEFT - 5, at.y(bytes) + 4);
      }
    };

    const draw = chart => {
      const at = place(chart);
      if (at.width === 0) return;
      const ratio = devicePixelRatio;
      const { canvas } = chart;
      canvas.width = Math.round(at.width * ratio);
      canvas.height = Math.round(chart.height * ratio);
      canvas.style.width = `${at.width}px`;
      canvas.style.height = `${chart.height}px`;
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      drawAxes(context, chart, at);
      context.save();
      context.beginPath();
      context.rect(LEFT, TOP, at.width - LEFT - RIGHT, chart.height - TOP - BOTTOM);
      context.clip();
      context.lineJoin = "round";
      const { connections } = chart.panel;
      connections.forEach((one, index) => {
        const above = connections[index + 1]?.below ?? chart.panel.bytes;
        // The windows of several connections would hide each other's segments, so only the window of a large connection is drawn.
        const isLarge = at.y(one.below) - at.y(above) > chart.height / 3;
        if (one.below > chart.bytes.to || (above < chart.bytes.from && !isLarge)) return;
        context.lineWidth = 1;
        if (isLarge) steps(context, one.window, one.below, at, colour("--series5"));
        steps(context, one.acknowledged, one.below, at, colour("--series2"));
        const segments = within(one.segments, time.from, time.to);
        context.lineWidth = 2.4;
        [0, 1, 3, 2].forEach(kind => {
          context.strokeStyle = colour(kind === 0 && index % 2 === 1 ? "--series0b" : KINDS[kind][1]);
          bars(context, segments, kind, one.below, at);
        });
        context.fillStyle = context.strokeStyle = colour("--ink");
        context.lineWidth = 1.2;
        for (const [us, number, name] of within(one.marks, time.from, time.to)) {
          if (name === "duplicate ACK" && !isLarge) continue;
          mark(context, name, at.x(us), at.y(one.below + number), connections.length > FEW && !isLarge ? 2.4 : 4);
        }
      });
      drawEvents(context, chart, at);
      if (chart.drag) {
        const { x, y, right, low } = chart.drag;
        context.fillStyle = colour("--band");
        context.strokeStyle = colour("--soft");
        context.fillRect(x, y, right - x, low - y);
        context.strokeRect(x, y, right - x, low - y);
      }
      context.restore();
      // The visible range, for tests and for readers of the page's code.
      chart.holder.dataset.view = [time.from, time.to, chart.bytes.from, chart.bytes.to].map(Math.round).join(" ");
    };

    const inView = (chart, event) =>
      event.at >= time.from && event.at <= time.to && event.y >= chart.bytes.from && event.y <= chart.bytes.to;

    const drawEvents = (context, chart, at) => {
      const seen = chart.events.filter(event => inView(chart, event));
      const named = [];
      context.font = `${10 * UNIT}px sans-serif`;
      context.textAlign = "left";
      context.fillStyle = context.strokeStyle = colour("--series4");
      for (const event of seen) {
        const [x, y] = [at.x(event.at), at.y(event.y)];
        context.beginPath();
        if (event.ring) {
          context.lineWidth = 1.3;
          context.arc(x, y, 4, 0, 2 * Math.PI);
          context.stroke();
        } else {
          [[-4, -3.5], [4, -3.5], [0, 4]].forEach(([dx, dy]) => context.lineTo(x + dx, y + dy));
          context.fill();
        }
        const hides = named.some(([left, top]) => Math.abs(left - x) < 80 && Math.abs(top - y) < 11);
        if (seen.length <= NAMED && !hides) {
          context.fillText(event.short, x + 6, y - 4);
          named.push([x, y]);
        }
      }
    };

    const drawAll = () => charts.forEach(draw);

    const limit = chart => {
      const [least, low] = [SHALLOWEST_US, LOWEST_BYTES];
      const span = clamp(time.to - time.from, least, whole.to);
      time.from = clamp(time.from, 0, whole.to - span);
      time.to = time.from + span;
      const height = clamp(chart.bytes.to - chart.bytes.from, low, chart.top);
      chart.bytes.from = clamp(chart.bytes.from, 0, chart.top - height);
      chart.bytes.to = chart.bytes.from + height;
    };
    const show = (chart, from, to, low, high) => {
      [time.from, time.to, chart.bytes.from, chart.bytes.to] = [from, to, low, high];
      limit(chart);
      drawAll();
    };
    const zoom = (chart, factor, us = (time.from + time.to) / 2, bytes = (chart.bytes.from + chart.bytes.to) / 2) => show(chart,
      us - (us - time.from) * factor, us + (time.to - us) * factor,
      bytes - (bytes - chart.bytes.from) * factor, bytes + (chart.bytes.to - bytes) * factor);
    const all = () => {
      Object.assign(time, whole);
      charts.forEach(chart => { chart.bytes = { from: 0, to: chart.top }; });
      drawAll();
    };
    const pan = (chart, right, up) => {
      const width = (time.to - time.from) * right, height = (chart.bytes.to - chart.bytes.from) * up;
      const from = clamp(time.from + width, 0, whole.to - (time.to - time.from));
      const low = clamp(chart.bytes.from + height, 0, chart.top - (chart.bytes.to - chart.bytes.from));
      show(chart, from, from + time.to - time.from, low, low + chart.bytes.to - chart.bytes.from);
    };

    const say = (chart, text, us, bytes) => {
      chart.box.hidden = !text;
      if (!text) return;
      const at = place(chart);
      chart.box.replaceChildren(text);
      chart.box.style.left = `${clamp(at.x(us) + 12, 0, Math.max(0, at.width - chart.box.offsetWidth))}px`;
      chart.box.style.top = `${clamp(at.y(bytes) - 34, 0, chart.height - 30)}px`;
    };
    const words = (event, us, one, start, end) =>
      `${event}, ${timeText(us, 100)}${end > start ? `, bytes ${start} to ${end}` : `, byte ${start}`}${one.name ? `, ${one.name}` : ""}`;

    const nearest = (chart, x, y) => {
      const at = place(chart);
      let best = { distance: REACH };
      const offer = (us, low, high, text) => {
        const [top, bottom] = [at.y(high), at.y(low)];
        const vertical = y < top ? top - y : y > bottom ? y - bottom : 0;
        const distance = Math.hypot(at.x(us) - x, vertical);
        if (distance < best.distance) best = { distance, us, bytes: (low + high) / 2, text };
      };
      const [from, to] = [at.us(x - REACH), at.us(x + REACH)];
      // Rare points come first, because at equal distances the first point is kept.
      for (const event of chart.events) {
        if (event.at >= from && event.at <= to) offer(event.at, event.one.below + event.start, event.one.below + event.end, words(event.text, event.at, event.one, event.start, event.end));
      }
      for (const one of chart.panel.connections) {
        for (const [us, number, name] of within(one.marks, from, to)) offer(us, one.below + number, one.below + number, words(name, us, one, number, number));
        for (const [us, start, end, kind] of within(one.segments, from, to)) offer(us, one.below + start, one.below + end, words(KINDS[kind][0], us, one, start, end));
      }
      return best;
    };

    // Shows the next drop or retransmission, in a view that is at most a tenth of the whole.
    const jump = (chart, step) => {
      if (chart.events.length === 0) {
        say(chart, "The path dropped nothing here, and nothing was retransmitted.", time.from, chart.bytes.to);
        return;
      }
      chart.picked = chart.picked < 0 && step < 0 ? chart.events.length - 1 : clamp(chart.picked + step, 0, chart.events.length - 1);
      const event = chart.events[chart.picked];
      const width = Math.min(time.to - time.from, whole.to / 10), height = Math.min(chart.bytes.to - chart.bytes.from, chart.top / 10);
      show(chart, event.at - width / 2, event.at + width / 2, event.y - height / 2, event.y + height / 2);
      say(chart, `${chart.picked + 1} of ${chart.events.length}: ${words(event.text, event.at, event.one, event.start, event.end)}`, event.at, event.y);
    };

    const KEYS = {
      ArrowLeft: chart => pan(chart, -0.2, 0), ArrowRight: chart => pan(chart, 0.2, 0),
      ArrowUp: chart => pan(chart, 0, 0.2), ArrowDown: chart => pan(chart, 0, -0.2),
      "+": chart => zoom(chart, 0.5), "=": chart => zoom(chart, 0.5), "-": chart => zoom(chart, 2), 0: all,
      n: chart => jump(chart, 1), p: chart => jump(chart, -1), Escape: chart => say(chart, ""),
    };

    for (const chart of charts) {
      const { panel, canvas, holder } = chart;
      const act = (label, title, action) => element("button", { type: "button", title, onclick: () => action(chart) }, label);
      const heading = element("div", { className: "heading" }, element("b", {}, panel.title), ", sequence numbers over time",
        act("+", "Zoom in", it => zoom(it, 0.5)), act("−", "Zoom out", it => zoom(it, 2)), act("all", "Show everything", all));
      if (chart.events.length > 0) heading.append(act("next event", "Next drop or retransmission", it => jump(it, 1)));
      live.append(element("div", { className: "frame wide" }, heading, holder));
      holder.addEventListener("keydown", event => {
        const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
        if (!action) return;
        event.preventDefault();
        action(chart);
      });
      const point = event => {
        const { left, top } = canvas.getBoundingClientRect();
        return [event.clientX - left, event.clientY - top];
      };
      // The wheel zooms a panel that has the focus; otherwise it scrolls the page as usual.
      canvas.addEventListener("wheel", event => {
        if (document.activeElement !== holder && !event.ctrlKey) return;
        event.preventDefault();
        const [x, y] = point(event);
        const at = place(chart);
        zoom(chart, event.deltaY < 0 ? 0.8 : 1.25, at.us(x), at.at(y));
      }, { passive: false });
      // A drag zooms to its rectangle.
      let from = null;
      canvas.addEventListener("pointerdown", event => {
        if (event.button !== 0 || event.pointerType === "touch") return;
        from = point(event);
        canvas.setPointerCapture(event.pointerId);
        holder.focus({ preventScroll: true });
      });
      canvas.addEventListener("pointermove", event => {
        const [x, y] = point(event);
        if (!from) {
          const { text, us, bytes } = nearest(chart, x, y);
          say(chart, text ?? "", us, bytes);
          return;
        }
        chart.drag = { x: Math.min(from[0], x), right: Math.max(from[0], x), y: Math.min(from[1], y), low: Math.max(from[1], y) };
        draw(chart);
      });
      canvas.addEventListener("pointerup", () => {
        const { drag } = chart;
        from = null;
        chart.drag = null;
        if (!drag || drag.right - drag.x < 4 || drag.low - drag.y < 4) return draw(chart);
        const at = place(chart);
        show(chart, at.us(drag.x), at.us(drag.right), at.at(drag.low), at.at(drag.y));
      });
      canvas.addEventListener("pointercancel", () => { from = null; chart.drag = null; draw(chart); });
      canvas.addEventListener("pointerleave", () => { if (!from) say(chart, ""); });
      canvas.addEventListener("dblclick", all);
      new ResizeObserver(() => draw(chart)).observe(holder);
    }
    figure.querySelector(".scroll").before(live);
    figure.classList.add("is-live");
    drawAll();
    return drawAll;
  };

  // A figure becomes interactive when it comes into view, because most figures are in closed parts of the page.
  const drawn = [];
  const near = new IntersectionObserver(entries => {
    entries.filter(entry => entry.isIntersecting).forEach(({ target }) => {
      near.unobserve(target);
      drawn.push(enliven(target));
    });
  }, { rootMargin: "300px" });
  document.querySelectorAll("figure.sequence").forEach(figure => near.observe(figure));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach(draw => draw()));
})();
