// Keyboard: `/` search, `g` and a letter to go, `j` `k` rows, Enter to open, `?` the list, Esc to leave.
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

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    document.querySelector("#found")?.replaceChildren();
    if (event.target.matches("input")) event.target.blur();
    return;
  }
  if (typing(event.target)) return;
  if (performance.now() < going) {
    going = 0;
    go(event.key);
  } else if (event.key === "g") going = performance.now() + SEQUENCE_MS;
  else if (event.key === "/") document.querySelector("#search")?.focus();
  else if (event.key === "?") document.querySelector("#keys")?.showModal();
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else return;
  event.preventDefault();
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
