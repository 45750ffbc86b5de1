// The map of a cluster: one stop of the Tab key for each rack, arrows from node to node and from rack to rack; the node
// under the pointer or with the focus is described at the foot of the page.

const STEPS = { ArrowLeft: -1, ArrowRight: 1 };
const RACKS = { ArrowUp: -1, ArrowDown: 1 };

function cells(rack) {
  return [...rack.querySelectorAll("a.cell")];
}

// Of each rack one cell is a stop: the one last focused, else the first.
function look() {
  for (const rack of document.querySelectorAll("[data-rack]")) {
    const all = cells(rack);
    const stop = all.find((cell) => cell === document.activeElement) ?? all[0];
    for (const cell of all) cell.tabIndex = cell === stop ? 0 : -1;
  }
}

function pressed(event) {
  const cell = event.target.closest?.("[data-rack] a.cell");
  if (!cell || event.ctrlKey || event.metaKey || event.altKey) return;
  const rack = cell.closest("[data-rack]");
  const all = cells(rack);
  let next = null;
  if (event.key in STEPS) next = all[all.indexOf(cell) + STEPS[event.key]];
  else if (event.key === "Home") next = all[0];
  else if (event.key === "End") next = all.at(-1);
  else if (event.key in RACKS) {
    const racks = [...document.querySelectorAll("[data-rack]")];
    const other = racks[racks.indexOf(rack) + RACKS[event.key]];
    if (other) next = cells(other)[Math.min(all.indexOf(cell), cells(other).length - 1)];
  } else return;
  event.preventDefault();
  next?.focus();
}

function describe({ target }) {
  const cell = target.closest?.("[data-rack] a.cell");
  const description = document.querySelector("[data-pointed]");
  if (!cell || !description) return;
  const labels = [cell.closest("[data-rack]"), cell].map((element) => element.getAttribute("aria-label"));
  description.textContent = labels.join(" · ");
  description.hidden = false;
  if (cell === document.activeElement) look();
}

export function startMap() {
  look();
  document.addEventListener("keydown", pressed);
  document.addEventListener("pointerover", describe);
  document.addEventListener("focusin", describe);
  document.addEventListener("htmx:afterSettle", look);
}
