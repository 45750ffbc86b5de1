// A table of thousands of rows that come a stretch at a time: htmx fetches the next stretch before one has scrolled
// there, and what is far from the window is put away and brought back. Selected rows stay selected.

const NEAR = "3000px 0px"; // rows within this distance of the window are in the page
const away = new WeakMap(); // stretch → its rows

function form() {
  return document.getElementById("selection");
}

function putAway(stretch, height) {
  if (!height || away.has(stretch) || stretch.contains(document.activeElement)) return;
  for (const box of stretch.querySelectorAll("[data-pick]:checked")) keep(box.value);
  const columns = stretch.rows[0]?.cells.length ?? 1;
  away.set(stretch, [...stretch.rows]);
  const cell = Object.assign(document.createElement("td"), { colSpan: columns });
  const row = document.createElement("tr");
  row.setAttribute("aria-hidden", "true");
  cell.setAttribute("height", String(Math.round(height)));
  row.append(cell);
  stretch.replaceChildren(row);
  stretch.dataset.liveLater = stretch.dataset.live;
  delete stretch.dataset.live; // nobody sees what changes; it is fetched again when it comes back
}

function bringBack(stretch) {
  const rows = away.get(stretch);
  if (!rows) return;
  away.delete(stretch);
  stretch.replaceChildren(...rows);
  stretch.dataset.live = stretch.dataset.liveLater;
  window.htmx.trigger(stretch, "live");
  for (const box of stretch.querySelectorAll("[data-pick]:checked")) release(box.value);
}

function keep(value) {
  const kept = Object.assign(document.createElement("input"), { type: "hidden", name: "runs", value });
  kept.dataset.kept = "";
  form()?.append(kept);
}

function release(value) {
  for (const kept of form()?.querySelectorAll("[data-kept]") ?? []) if (kept.value === value) kept.remove();
}

const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target, boundingClientRect } of entries) {
    if (!isIntersecting) putAway(target, boundingClientRect.height);
    else if ("next" in target.dataset) window.htmx.trigger(target, "near");
    else bringBack(target);
  }
}, { rootMargin: NEAR });

function look() {
  const parts = document.querySelectorAll("[data-windowed] :is([data-stretch], [data-next])");
  parts.forEach((part) => watcher.observe(part));
  tell();
}

function tell() {
  const words = document.querySelector("[data-selected]");
  if (!words) return;
  const count = document.querySelectorAll("[data-windowed] [data-pick]:checked, [data-kept]").length;
  words.textContent = count ? `${count.toLocaleString("en")} selected` : "";
}

function changed({ target }) {
  if (target.matches("[data-pick-all]")) {
    for (const box of document.querySelectorAll("[data-windowed] [data-pick]")) box.checked = target.checked;
    if (!target.checked) form()?.querySelectorAll("[data-kept]").forEach((kept) => kept.remove());
    document.querySelector("[data-windowed] [data-pick]")?.dispatchEvent(new Event("change", { bubbles: true }));
  }
  if (target.matches("[data-pick]")) tell();
}

async function copyAddress(button) {
  await navigator.clipboard.writeText(location.href).catch(() => {});
  const word = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = word), 1600);
}

// The form that saves a view sends the address as it is now: filter, order, columns, group.
function query() {
  const kept = ["filter", "order", "group", "view", "column"];
  const now = [...new URLSearchParams(location.search)].filter(([name, value]) => kept.includes(name) && value);
  return new URLSearchParams(now).toString();
}

// Beside its own fields a form sends these of the address as it is now, which other forms and links have changed.
function carry(form) {
  const now = new URLSearchParams(location.search);
  form.querySelectorAll("[data-carried]").forEach((input) => input.remove());
  for (const name of form.dataset.carries.split(" ")) {
    for (const value of now.getAll(name).filter(Boolean)) {
      const input = Object.assign(document.createElement("input"), { type: "hidden", name, value });
      input.dataset.carried = "";
      form.append(input);
    }
  }
}

export function startRunTable() {
  look();
  document.addEventListener("htmx:afterSettle", look);
  document.addEventListener("change", changed);
  document.addEventListener("submit", ({ target }) => {
    const field = target.querySelector?.("[data-current-query]");
    if (field) field.value = query();
    if (target.dataset.carries) carry(target);
  }, true);
  document.addEventListener("click", ({ target }) => {
    const button = target.closest?.("[data-copy-address]");
    if (button) copyAddress(button);
  });
  // A group or a view that is chosen is shown at once; the filter waits for Enter.
  document.addEventListener("change", ({ target }) => {
    if (target.matches("form[data-auto-select] select")) target.form.requestSubmit();
  });
}
