// The choice of nodes in a form: whole racks, the results of a search, and a sentence with their number. The boxes of
// nodes alone are sent; without this script they are all there is.

const MOST_OPEN = 60; // found nodes that are shown without opening their racks
const STEPS = { ArrowDown: 1, ArrowUp: -1 };

function words(number) {
  return number.toLocaleString("en");
}

function boxes(within) {
  return [...within.querySelectorAll("input[name='targets']:not(:disabled)")];
}

function found(within) {
  return boxes(within).filter((box) => !box.closest("label").hidden);
}

function racks(picker) {
  return [...picker.querySelectorAll("[data-of]")];
}

function tell(picker) {
  let [all, chosen, touched] = [0, 0, 0];
  for (const rack of racks(picker)) {
    const mine = boxes(rack);
    const on = mine.filter((box) => box.checked).length;
    const whole = rack.querySelector("[data-whole]");
    whole.hidden = false;
    whole.disabled = !mine.length;
    whole.checked = on > 0 && on === mine.length;
    whole.indeterminate = on > 0 && on < mine.length;
    const apart = rack.querySelectorAll("input[name='targets']").length - mine.length;
    rack.querySelector("[data-count]").textContent = `${on} of ${mine.length}${apart ? `, ${apart} not ready` : ""}`;
    all += mine.length;
    chosen += on;
    touched += on > 0;
  }
  const where = chosen ? ` in ${words(touched)} ${touched === 1 ? "rack" : "racks"}` : "";
  picker.querySelector("[data-chosen]").textContent = `${words(chosen)} of ${words(all)} nodes${where}`;
  const left = found(picker).length;
  for (const [name, some, every] of [["all", "Choose the", "Choose all"], ["none", "Leave out the", "Choose none"]]) {
    const button = picker.querySelector(`[data-choose="${name}"]`);
    button.textContent = left < all ? `${some} ${words(left)} found` : every;
    button.disabled = !left;
  }
}

// Every word must be found in the rack, the name, the slot type or what is said of the node.
function narrow(picker, text) {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  let left = 0;
  for (const rack of racks(picker)) {
    let here = 0;
    for (const label of rack.querySelectorAll("[data-kind]")) {
      label.words ??= `${rack.dataset.of} ${label.dataset.kind} ${label.textContent}`.toLowerCase();
      label.hidden = !wanted.every((word) => label.words.includes(word));
      here += !label.hidden;
    }
    rack.hidden = !here;
    left += here;
  }
  for (const rack of racks(picker)) {
    const details = rack.querySelector("details");
    details.dataset.before ??= String(details.open);
    details.open = wanted.length ? left <= MOST_OPEN : details.dataset.before === "true";
    if (!wanted.length) delete details.dataset.before;
  }
  picker.querySelector("[data-nothing]").hidden = left > 0;
  tell(picker);
}

function choose(some, on) {
  for (const box of some) box.checked = on;
}

function pressed(event) {
  const { target, key } = event;
  const picker = target.closest?.("[data-picker]");
  if (!picker) return;
  if (key === "Enter" && target.matches("[data-find]")) event.preventDefault(); // it narrows; it sends nothing
  if (!(key in STEPS)) return;
  const stops = [...picker.querySelectorAll("[data-find], input[type='checkbox']:not(:disabled), summary")]
    .filter((stop) => stop.checkVisibility());
  const next = stops[stops.indexOf(target) + STEPS[key]];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

function look() {
  for (const picker of document.querySelectorAll("[data-picker]:has([data-tools])")) {
    picker.querySelector("[data-tools]").hidden = false;
    narrow(picker, picker.querySelector("[data-find]").value);
  }
}

export function startPicker() {
  look();
  window.addEventListener("pageshow", look); // a browser that goes back ticks what was ticked
  document.addEventListener("keydown", pressed);
  document.addEventListener("input", ({ target }) => {
    if (target.matches("[data-find]")) narrow(target.closest("[data-picker]"), target.value);
  });
  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-whole]")) choose(found(target.closest("[data-of]")), target.checked);
    const picker = target.closest("[data-picker]");
    if (picker) tell(picker);
  }, true); // before the form is read for its plan
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-choose]");
    if (!button) return;
    const picker = button.closest("[data-picker]");
    choose(found(picker), button.dataset.choose === "all");
    picker.dispatchEvent(new Event("change", { bubbles: true }));
  });
}
