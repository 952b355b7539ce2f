// Bars: the legend switches eras. A bar with focus or under the pointer shows its figure, interval and number of replicates.
(() => {
  "use strict";
  for (const figure of document.querySelectorAll("figure.bars")) {
    for (const entry of figure.querySelectorAll(".legend [data-era]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "switch";
      button.append(...entry.childNodes);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const show = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(show));
        figure.querySelectorAll(`svg [data-era="${entry.dataset.era}"]`).forEach(bar => {
          bar.style.display = show ? "" : "none";
        });
      });
      entry.replaceChildren(button);
    }
  }
})();
