// Keyboard: `/` or Ctrl-K search, arrows and Enter in the results, `g` and a letter to go, `j` `k` rows, Enter to open,
// `?` the list of keys, Esc to leave.
const ROW = "table[data-rows] tbody tr";
const SEQUENCE_MS = 1200;

let going = 0;

function typing(target) {
  return target.closest("input, textarea, select, [contenteditable], dialog[open]") !== null;
}

function rows() {
  return [...document.querySelectorAll(ROW)].filter((row) => row.querySelector("a") && row.offsetParent);
}

function step(by) {
  const all = rows();
  if (!all.length) return;
  const now = all.findIndex((row) => row.classList.contains("here"));
  const next = all[Math.min(all.length - 1, Math.max(0, now < 0 ? 0 : now + by))];
  all.forEach((row) => row.classList.toggle("here", row === next));
  next.querySelector("a").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function go(letter) {
  const link = document.querySelector(`a[data-go="${CSS.escape(letter)}"]`);
  if (link) link.click();
}

const ARROWS = { ArrowDown: 1, ArrowUp: -1 };

// Enter opens the first hit, unless the list still answers older words: then the form is sent, and its page answers.
function inSearch(event) {
  const input = document.querySelector("#search");
  const hits = [...document.querySelectorAll("#found a")];
  if (event.key === "Enter" && event.target === input) {
    const current = document.querySelector("#found [data-words]")?.dataset.words === input.value.trim();
    if (!current || !hits.length) return;
    event.preventDefault();
    hits[0].click();
  } else if (event.key in ARROWS) {
    const stops = [input, ...hits];
    event.preventDefault();
    stops[stops.indexOf(event.target) + ARROWS[event.key]]?.focus();
  }
}

function pressed(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    return document.querySelector("#search")?.select();
  }
  if (event.target.closest?.(".search") && event.key !== "Escape") return inSearch(event);
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  if (event.key === "Escape") {
    if (event.target.closest("#found")) document.querySelector("#search").focus();
    document.querySelector("#found")?.replaceChildren();
    if (event.target.matches("input")) event.target.blur();
    return undefined;
  }
  if (typing(event.target)) return undefined;
  if (performance.now() < going) {
    going = 0;
    go(event.key);
  } else if (event.key === "g") going = performance.now() + SEQUENCE_MS;
  else if (event.key === "/") document.querySelector("#search")?.focus();
  else if (event.key === "?") document.querySelector("#keys")?.showModal();
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else return undefined;
  return event.preventDefault();
}

export function startKeys() {
  document.addEventListener("keydown", pressed);
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open]");
    if (opener) document.getElementById(opener.dataset.open)?.showModal();
    const menu = event.target.closest("[data-menu]");
    if (menu) {
      const open = document.getElementById("nav").classList.toggle("open");
      menu.setAttribute("aria-expanded", String(open));
    }
    if (!event.target.closest(".search")) document.querySelector("#found")?.replaceChildren();
  });
}
