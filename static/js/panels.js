// Charts change places within their section, and into the pinned ones: by dragging the grip, or by the arrow keys,
// Home and End on it. `moved` hears of a card that stands elsewhere now.
const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

let dragged = null;
let home = null; // where the dragged card was: its section and what followed it

const cardsOf = (grid) => [...grid.querySelectorAll(":scope > [data-metric-card]")];

export function place(card) {
  const cards = cardsOf(card.parentElement);
  return `${card.dataset.metricCard} is chart ${cards.indexOf(card) + 1} of ${cards.length}.`;
}

// Whether it moved: the first cannot go further.
export function step(card, by) {
  const cards = cardsOf(card.parentElement);
  const at = cards.indexOf(card);
  const to = Math.min(cards.length - 1, Math.max(0, at + by));
  if (to === at) return false;
  if (to < at) cards[to].before(card);
  else cards[to].after(card);
  return true;
}

function pressed(event, moved) {
  const grip = event.target.closest?.("[data-grip]");
  if (!grip) return;
  const by = STEPS[event.key] ?? { Home: -Infinity, End: Infinity }[event.key];
  if (!by) return;
  event.preventDefault();
  const card = grip.closest("[data-metric-card]");
  if (step(card, by)) moved(card);
  grip.focus();
}

function over(event) {
  if (!dragged) return;
  const grid = event.target.closest?.(".chart-grid");
  if (!grid || (grid !== home.grid && !grid.matches("[data-pinned]"))) return;
  event.preventDefault();
  const other = event.target.closest("[data-metric-card]");
  if (!other) {
    if (dragged.parentElement !== grid) grid.append(dragged);
    return;
  }
  if (other === dragged) return;
  const { left, width } = other.getBoundingClientRect();
  if (event.clientX < left + width / 2) other.before(dragged);
  else other.after(dragged);
}

function ended(event, moved) {
  if (!dragged) return;
  const card = dragged;
  dragged = null;
  card.draggable = false;
  card.classList.remove("dragged");
  if (event.dataTransfer.dropEffect === "none") home.grid.insertBefore(card, home.next);
  else moved(card);
}

export function startPanels(root, moved) {
  root.addEventListener("keydown", (event) => pressed(event, moved));
  root.addEventListener("pointerdown", ({ target }) => {
    const card = target.closest("[data-grip]")?.closest("[data-metric-card]");
    if (card) card.draggable = true;
  });
  root.addEventListener("pointerup", ({ target }) => {
    const card = target.closest("[data-metric-card]");
    if (card && !dragged) card.draggable = false;
  });
  root.addEventListener("dragstart", (event) => {
    const card = event.target.closest?.("[data-metric-card][draggable=true]");
    if (!card) return;
    dragged = card;
    home = { grid: card.parentElement, next: card.nextElementSibling };
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", card.dataset.metricCard);
    card.classList.add("dragged");
  });
  root.addEventListener("dragover", over);
  root.addEventListener("drop", (event) => dragged && event.preventDefault());
  root.addEventListener("dragend", (event) => ended(event, moved));
}
