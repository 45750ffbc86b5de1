// A table wider than its card can be scrolled with the keyboard: while it overflows it takes the focus and has a name.
function look() {
  for (const box of document.querySelectorAll(".scroll")) {
    const over = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
    if (over === box.hasAttribute("tabindex")) continue;
    if (over) {
      const title = box.closest("[aria-labelledby], [aria-label]");
      const label = document.getElementById(title?.getAttribute("aria-labelledby"));
      const name = title?.getAttribute("aria-label") ?? label?.textContent;
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", `${name ?? "Table"}, scrolls sideways`);
    } else {
      for (const attribute of ["tabindex", "role", "aria-label"]) box.removeAttribute(attribute);
    }
  }
}

// The chosen one of a row of tabs that is wider than the screen is in sight.
function showChosen(within) {
  for (const tabs of within.querySelectorAll(".tabs")) {
    const chosen = tabs.querySelector("[aria-current]");
    if (!chosen || tabs.scrollWidth <= tabs.clientWidth) continue;
    const [row, own] = [tabs.getBoundingClientRect(), chosen.getBoundingClientRect()];
    tabs.scrollLeft += own.left + own.width / 2 - row.left - row.width / 2;
  }
}

export function startScroll() {
  look();
  showChosen(document);
  document.addEventListener("htmx:afterSettle", (event) => showChosen(event.target));
  document.addEventListener("htmx:afterSettle", look);
  document.addEventListener("toggle", look, true);
  window.addEventListener("resize", look);
}
