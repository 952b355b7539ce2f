// A filter of the list of all cells, and of the era of the whole page. Without this script, all cells are shown.
(() => {
  "use strict";
  const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const choice = (label, levels, change) => {
    const select = element("select", { onchange: change },
      element("option", { value: "" }, "all"), ...levels.map(level => element("option", { value: level }, level)));
    return { select, labelled: element("label", {}, `${label} `, select) };
  };

  // Tables, curves and claims of other eras are hidden.
  const eras = [...new Set([...document.querySelectorAll("[data-of-era]")].map(part => part.dataset.ofEra))];
  const list = document.querySelector("nav ol");
  if (eras.length > 1 && list) {
    const era = choice("Era", eras, () => {
      document.querySelectorAll("[data-of-era]").forEach(part => {
        part.hidden = era.select.value !== "" && part.dataset.ofEra !== era.select.value;
      });
    });
    list.append(element("li", {}, era.labelled));
  }

  const section = document.getElementById("cells");
  const rows = section ? [...section.querySelectorAll("tr[data-levels]")] : [];
  if (rows.length < 2) return;
  const levels = new Map(rows.map(row => [row, JSON.parse(row.dataset.levels)]));
  const factors = new Map();
  levels.forEach(of => Object.entries(of).forEach(([factor, level]) => {
    if (!factors.has(factor)) factors.set(factor, new Set());
    factors.get(factor).add(level);
  }));
  const choices = new Map();
  const count = element("output", {});
  const apply = () => {
    let shown = 0;
    levels.forEach((of, row) => {
      const fits = [...choices].every(([factor, { select }]) => select.value === "" || of[factor] === select.value);
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    section.querySelectorAll(".block").forEach(block => {
      block.hidden = !block.querySelector("tr[data-levels]:not([hidden])");
    });
    count.textContent = `${shown} of ${rows.length} cells`;
  };
  for (const [factor, found] of factors) {
    if (found.size > 1) choices.set(factor, choice(factor, [...found].sort((a, b) => a.localeCompare(b, "en", { numeric: true })), apply));
  }
  const clear = element("button", { type: "button", onclick: () => {
    choices.forEach(({ select }) => { select.value = ""; });
    apply();
  } }, "Show all");
  const picker = element("div", { className: "picker" }, ...[...choices.values()].map(({ labelled }) => labelled), clear, count);
  section.querySelector(".block").before(picker);
  apply();

  // A link to a cell shows the cell even if the filter hides it, and opens its replicates.
  const show = () => {
    const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!row?.matches("tr[data-levels]")) return;
    if (row.hidden) clear.click();
    const details = row.querySelector("details");
    if (details) details.open = true;
    row.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", show);
  show();
})();
