// Opens each report in a frame and collects its problems: figures that are not drawn, links without a target, text with
// too little contrast (WCAG 2.2, 1.4.3), elements that show no focus, pages wider than their window, and elements that
// print would cut off.
const WIDTHS = [2560, 1400, 390];
// The area of the style sheet's A4 page within its margins, in pixels of 1/96 inch.
const PAPER = { width: Math.floor((210 - 2 * 13) * 96 / 25.4), height: Math.floor((297 - 2 * 14) * 96 / 25.4) };

const turn = () => new Promise(done => setTimeout(done, 30));
// The script makes a chart after the browser has drawn a frame that contains its figure.
const until = async condition => {
  for (let turns = 0; turns < 200 && !condition(); turns += 1) {
    await Promise.race([new Promise(requestAnimationFrame), turn()]);
    await turn();
  }
};

const parse = text => {
  const numbers = text.match(/[\d.]+/g).map(Number);
  return { rgb: numbers.slice(0, 3), alpha: numbers[3] ?? 1 };
};
const over = (top, below) => top.rgb.map((value, i) => value * top.alpha + below[i] * (1 - top.alpha));
const luminance = rgb => {
  const [r, g, b] = rgb.map(value => value / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
};

const background = (view, element) => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    const colour = view.getComputedStyle(at).backgroundColor;
    if (/^rgb/.test(colour)) {
      const layer = parse(colour);
      if (layer.alpha > 0) layers.push(layer);
      if (layer.alpha === 1) break;
    }
  }
  return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
};

const weak = (view, page) => {
  const found = new Map();
  for (const element of page.body.querySelectorAll("*")) {
    const text = [...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data.trim()).join("");
    if (!text || /^(SCRIPT|STYLE|OPTION)$/i.test(element.tagName) || /^title$/i.test(element.tagName)) continue;
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const style = view.getComputedStyle(element);
    const ink = element instanceof view.SVGElement ? style.fill : style.color;
    if (!/^rgb/.test(ink)) continue;
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) opacity *= Number(view.getComputedStyle(at).opacity);
    const below = background(view, element);
    const { rgb, alpha } = parse(ink);
    const ratio = contrast(over({ rgb, alpha: alpha * opacity }, below), below);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) {
      const kind = `${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""} in ${element.parentElement.getAttribute("class") ?? element.parentElement.tagName}`;
      if (!found.has(kind)) found.set(kind, `contrast ${ratio.toFixed(2)} of ${kind}: ${text.slice(0, 30)}`);
    }
  }
  return [...found.values()];
};

const painted = canvas => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  return data.some((value, index) => index % 4 === 3 && value > 0);
};

const undrawn = async page => {
  const problems = [];
  for (const figure of page.querySelectorAll("figure")) {
    figure.scrollIntoView();
    await turn();
    const name = figure.querySelector("h3")?.textContent ?? figure.id;
    if (figure.querySelector("script.data")) {
      await until(() => figure.classList.contains("is-live"));
      const canvases = [...figure.querySelectorAll(".live canvas")];
      const panels = JSON.parse(figure.querySelector("script.data").textContent).length;
      if (canvases.length < panels) problems.push(`${canvases.length} of ${panels} panels are live: ${name}`);
      await until(() => canvases.every(painted));
      if (!canvases.every(painted)) problems.push(`an empty canvas: ${name}`);
    }
    for (const svg of figure.querySelectorAll(":scope > svg, .scroll > svg")) {
      if (svg.querySelectorAll("path, rect, circle, polyline, line").length === 0) problems.push(`an empty drawing: ${name}`);
    }
    for (const image of figure.querySelectorAll("img")) {
      if (image.naturalWidth === 0) problems.push(`no image: ${name}`);
    }
  }
  return problems;
};

const FOCUSABLE = "a[href], button, input, select, summary, [tabindex]:not([tabindex='-1'])";

const keyboard = (view, page) => {
  const problems = [];
  const all = [...page.querySelectorAll(FOCUSABLE)];
  if (all.length > 0 && !all[0].matches(".skip")) problems.push("the first stop is not the skip link");
  if (all.some(element => element.tabIndex > 0)) problems.push("an element changes the order of focus");
  const kinds = new Map(all.map(element => [`${element.tagName}.${element.className}`, element]));
  for (const [kind, element] of kinds) {
    if (!element.checkVisibility()) continue;
    element.focus();
    if (page.activeElement !== element) problems.push(`${kind} takes no focus`);
    else if (view.getComputedStyle(element).outlineStyle === "none") problems.push(`${kind} shows no focus`);
  }
  return problems;
};

// Applies the rules for print, and no rules for screens. Other parts of a media query stay, such as the colour
// scheme.
const asPrinted = page => {
  const visit = rules => [...rules].forEach(rule => {
    if (!rule.media) return;
    const text = rule.media.mediaText;
    if (/\bscreen\b/.test(text)) rule.media.mediaText = "not all";
    else if (/\bprint\b/.test(text)) rule.media.mediaText = text.replace(/\bprint\b/, "all");
    visit(rule.cssRules);
  });
  [...page.styleSheets].forEach(sheet => visit(sheet.cssRules));
};

const printed = async (view, page, frame) => {
  const problems = [];
  const note = (what, element) => problems.push(`print: ${what}: ${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""} #${element.closest("[id]")?.id}`);
  frame.width = PAPER.width;
  asPrinted(page);
  await turn();
  const paper = parse(view.getComputedStyle(page.documentElement).backgroundColor);
  if (paper.rgb.some(value => value < 255)) problems.push(`print: the paper is ${paper.rgb}`);
  for (const element of page.querySelectorAll("nav, button:not(.switch), select, input, .skip, .live")) {
    if (element.checkVisibility()) note("only useful on a screen", element);
  }
  for (const figure of page.querySelectorAll("figure.is-live")) {
    const shown = figure.checkVisibility() && [...figure.querySelectorAll(":scope > .scroll svg")].some(svg => svg.checkVisibility());
    if (figure.checkVisibility() && !shown) note("no drawing", figure);
    for (const entry of figure.querySelectorAll(".legend > *")) {
      if (figure.checkVisibility() && (entry.innerText.trim() === "" || !entry.checkVisibility())) note("no legend", entry);
    }
  }
  for (const element of page.body.querySelectorAll("*")) {
    if (!element.checkVisibility() || element.closest("script, style, head")) continue;
    // Only the drawing as a whole is checked, because its parts are within its view box.
    if (element instanceof view.SVGElement && element.tagName !== "svg") continue;
    const box = element.getBoundingClientRect();
    if (box.right > PAPER.width + 1 || box.left < -1) note(`${Math.round(box.left)} to ${Math.round(box.right)} of ${PAPER.width} pixels`, element);
    const style = view.getComputedStyle(element);
    if (style.overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1) note(`cut at ${element.clientWidth} of ${element.scrollWidth} pixels`, element);
    if (element.tagName === "svg" && box.height > PAPER.height) note("higher than a page", element);
    if (element.tagName === "FIGURE" && !/^avoid/.test(style.breakInside)) note("may be split", element);
  }
  return problems.slice(0, 12);
};

const check = async (name, frame) => {
  const problems = [];
  const view = frame.contentWindow;
  const page = frame.contentDocument;
  const links = [];
  for (const link of page.querySelectorAll("a[href]")) {
    const href = link.getAttribute("href");
    if (!href.startsWith("#")) links.push(decodeURI(href));
    else if (!page.getElementById(decodeURIComponent(href.slice(1)))) problems.push(`no target of ${href}`);
  }
  const ids = [...page.querySelectorAll("[id]")].map(element => element.id);
  if (new Set(ids).size !== ids.length) problems.push("an id is used twice");
  const sizes = new Map();
  for (const width of WIDTHS) {
    frame.width = width;
    await turn();
    const extra = page.documentElement.scrollWidth - page.documentElement.clientWidth;
    if (extra > 0) problems.push(`${extra} pixels too wide at ${width}`);
    const text = parseFloat(view.getComputedStyle(page.body).fontSize);
    const drawings = [...page.querySelectorAll("figure svg, figure .panel")];
    sizes.set(width, [text, Math.max(0, ...drawings.map(drawing => drawing.getBoundingClientRect().width))]);
  }
  const [large, usual] = [sizes.get(2560), sizes.get(1400)];
  if (large[0] < 1.2 * usual[0]) problems.push(`text of ${large[0]} pixels at 2560, of ${usual[0]} at 1400`);
  if (usual[1] > 0 && large[1] < 1.2 * usual[1]) problems.push(`the largest drawing is ${large[1]} pixels wide at 2560, ${usual[1]} at 1400`);
  frame.width = 1400;
  await turn();
  problems.push(...await undrawn(page), ...weak(view, page), ...keyboard(view, page));
  const dark = view.matchMedia("(prefers-color-scheme: dark)").matches;
  // This check comes last, because it changes the page's style sheets.
  problems.push(...await printed(view, page, frame));
  return { name, dark, figures: page.querySelectorAll("figure").length, links: [...new Set(links)], problems };
};

(async () => {
  const results = [];
  for (const name of REPORTS) {
    const frame = document.createElement("iframe");
    frame.width = 1400;
    frame.height = 900;
    frame.src = `${name}/report.html`;
    document.body.append(frame);
    await new Promise(done => { frame.onload = done; });
    try {
      results.push(await check(name, frame));
    } catch (error) {
      results.push({ name, dark: false, figures: 0, links: [], problems: [String(error.stack)] });
    }
    frame.remove();
  }
  document.body.dataset.seen = btoa(unescape(encodeURIComponent(JSON.stringify(results))));
})();
