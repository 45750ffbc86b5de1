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

// Pointer events, and not those of drag and drop, which no finger makes.
function over({ clientX, clientY }) {
  if (!dragged) return;
  const below = document.elementFromPoint(clientX, clientY);
  const grid = below?.closest(".chart-grid");
  if (!grid || (grid !== home.grid && !grid.matches("[data-pinned]"))) return;
  const other = below.closest("[data-metric-card]");
  if (!other || other === dragged) return;
  const { left, width } = other.getBoundingClientRect();
  if (clientX < left + width / 2) other.before(dragged);
  else other.after(dragged);
}

function ended(isDropped, moved) {
  if (!dragged) return;
  const card = dragged;
  dragged = null;
  card.classList.remove("dragged");
  const isElsewhere = card.parentElement !== home.grid || card.nextElementSibling !== home.next;
  if (!isElsewhere) return;
  if (isDropped) moved(card);
  else home.grid.insertBefore(card, home.next);
}

export function startPanels(root, moved) {
  root.addEventListener("keydown", (event) => pressed(event, moved));
  root.addEventListener("pointerdown", (event) => {
    const card = event.target.closest("[data-grip]")?.closest("[data-metric-card]");
    if (!card || event.button !== 0) return;
    event.preventDefault(); // neither selects text nor scrolls
    event.target.closest("[data-grip]").focus();
    dragged = card;
    home = { grid: card.parentElement, next: card.nextElementSibling };
    card.classList.add("dragged");
  });
  document.addEventListener("pointermove", over);
  document.addEventListener("pointerup", () => ended(true, moved));
  document.addEventListener("pointercancel", () => ended(false, moved));
  document.addEventListener("keydown", ({ key }) => key === "Escape" && ended(false, moved));
}
