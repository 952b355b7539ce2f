// A link to a closed part of the page opens that part.
(() => {
  "use strict";
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target?.matches("details")) return;
    target.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();
})();
