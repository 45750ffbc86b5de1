// Names offered while one writes a filter: the word before the caret is completed by arrows and Enter, or a click.

const MOST = 12;
const WORD = /[^\s()=<>!,'"]*$/;
const known = new Map(); // address → names

let list = null;
let box = null;
let chosen = -1;

async function names(address) {
  if (!known.has(address)) {
    known.set(address, fetch(address, { headers: { Accept: "application/json" } })
      .then((answer) => (answer.ok ? answer.json() : { names: [] }))
      .then((answer) => answer.names, () => []));
  }
  return known.get(address);
}

function word(input) {
  return input.value.slice(0, input.selectionStart).match(WORD)[0];
}

async function offer(input) {
  const text = word(input).toLowerCase();
  const all = await names(input.dataset.complete);
  if (document.activeElement !== input || text !== word(input).toLowerCase()) return;
  const begin = all.filter((name) => name.toLowerCase().startsWith(text));
  const inside = all.filter((name) => !begin.includes(name) && name.toLowerCase().includes(text));
  show(input, text ? [...begin, ...inside].filter((name) => name.toLowerCase() !== text).slice(0, MOST) : []);
}

function show(input, found) {
  box = input;
  chosen = -1;
  if (!list) {
    list = Object.assign(document.createElement("ul"), { id: "completions", className: "completions" });
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", "Names");
    list.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // the box keeps the focus
      const option = event.target.closest("[role=option]");
      if (option) take(option.textContent);
    });
  }
  if (list.parentElement !== input.parentElement) input.after(list);
  list.replaceChildren(...found.map((name, index) => {
    const option = Object.assign(document.createElement("li"), { id: `completion-${index}`, textContent: name });
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", "false");
    return option;
  }));
  list.hidden = !found.length;
  input.setAttribute("aria-expanded", String(found.length > 0));
  input.removeAttribute("aria-activedescendant");
}

function move(step) {
  const options = [...list.children];
  chosen = (chosen + step + options.length) % options.length;
  options.forEach((option, index) => option.setAttribute("aria-selected", String(index === chosen)));
  box.setAttribute("aria-activedescendant", options[chosen].id);
  options[chosen].scrollIntoView({ block: "nearest" });
}

function take(name) {
  const caret = box.selectionStart;
  const begin = caret - word(box).length;
  box.setRangeText(`${name} `, begin, caret, "end");
  show(box, []);
}

function pressed(event) {
  const { target, key } = event;
  if (!target.matches?.("[data-complete]") || !list || list.hidden || box !== target) return;
  if (key === "Escape") show(target, []);
  else if (key === "ArrowDown" || key === "ArrowUp") move(key === "ArrowDown" ? 1 : -1);
  else if ((key === "Enter" || key === "Tab") && chosen >= 0) take(list.children[chosen].textContent);
  else return;
  event.preventDefault();
}

export function startCompletion() {
  for (const input of document.querySelectorAll("[data-complete]")) {
    input.setAttribute("role", "combobox");
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-expanded", "false");
    input.setAttribute("aria-controls", "completions");
    show(input, []);
  }
  box = null;
  document.addEventListener("input", ({ target }) => target.matches("[data-complete]") && offer(target));
  document.addEventListener("keydown", pressed);
  document.addEventListener("focusout", ({ target }) => target.matches("[data-complete]") && list && show(target, []));
}
