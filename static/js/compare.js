// The comparison page: which runs are drawn and how, which charts stand where. All of it is in the address, so that a
// link restores the page. charts.js reads the choices from data-hidden, data-drawing and data-curves.
import { csvOf, highlight, imageOf } from "./charts.js";
import { swatch } from "./chart-style.js";
import { place, startPanels, step } from "./panels.js";

const DEFAULTS = {
  x: "step", kind: "exponential", smooth: "0", scale: "linear", xscale: "linear", clip: "0", better: "auto", by: "best",
};

let root = null;

const listOf = (text) => (text ?? "").split(",").filter(Boolean);
const chosen = (name) => new URLSearchParams(location.search).get(name);
const announce = () => document.dispatchEvent(new CustomEvent("trainmaster:redraw"));

function runs() {
  return new URLSearchParams(location.search).getAll("runs").flatMap(listOf);
}

// Changes the address, and with it what the blocks and the tabs of the page will ask for.
function remember(changes) {
  const query = new URLSearchParams(location.search);
  const ids = runs();
  query.delete("runs");
  for (const [name, value] of Object.entries({ runs: ids.join(","), ...changes })) {
    if (!value || value === DEFAULTS[name]) query.delete(name);
    else query.set(name, value);
  }
  history.replaceState(history.state, "", `?${query.toString().replaceAll("%2C", ",").replaceAll("%2F", "/")}`);
  for (const element of root.querySelectorAll("[hx-get*='block=']")) {
    const block = new URLSearchParams(element.getAttribute("hx-get").slice(1)).get("block");
    element.setAttribute("hx-get", `?${query}&block=${block}`);
  }
  for (const link of root.querySelectorAll("[data-view]")) {
    const view = new URLSearchParams(query);
    view.set("view", link.dataset.view);
    link.href = `?${view}`;
  }
}

function refetch(id) {
  const block = document.getElementById(id);
  if (block) window.htmx.ajax("GET", block.getAttribute("hx-get"), { target: block, swap: "morph" });
}

// The list of runs

function lines() {
  return [...root.querySelectorAll("[data-run]")];
}

function hidden() {
  return root.dataset.hidden.split(" ").filter(Boolean);
}

function hide(ids) {
  root.dataset.hidden = ids.join(" ");
  remember({ hide: ids.join(",") });
  showHidden();
  announce();
}

function showHidden() {
  const ids = new Set(hidden());
  for (const line of lines()) {
    const isHidden = ids.has(line.dataset.run);
    line.classList.toggle("is-hidden", isHidden);
    line.querySelector("[data-show]").checked = !isHidden;
    const slot = line.querySelector(".swatch-slot");
    const { name, dash, marker } = slot.dataset;
    slot.replaceChildren(swatch({ name, dash: Number(dash), marker: Number(marker) }));
  }
  document.dispatchEvent(new CustomEvent("trainmaster:shown", { detail: ids }));
}

function only(line) {
  const others = lines().filter((other) => other !== line).map((other) => other.dataset.run);
  const isAlone = others.every((id) => hidden().includes(id)) && !hidden().includes(line.dataset.run);
  hide(isAlone ? [] : others);
}

function stand(event) {
  const line = event.target.closest?.("[data-run]");
  const run = line && !line.classList.contains("is-hidden") ? line.dataset.run : "";
  if (run === stand.last) return;
  stand.last = run;
  highlight(run);
  document.dispatchEvent(new CustomEvent("trainmaster:highlight", { detail: run }));
}

function go(changes) {
  remember(changes);
  location.reload();
}

// How the charts are drawn

function drawn({ target }) {
  const form = target.form;
  const values = new FormData(form);
  const options = { scale: "linear", xscale: "linear", ...Object.fromEntries(values) };
  form.querySelector("output").textContent = options.smooth;
  const { x, kind, smooth, scale, xscale, clip } = options;
  remember({ x, kind, smooth, scale, xscale, clip });
  const charts = document.getElementById("compared");
  const address = new URL(charts.dataset.curves, location.href);
  address.searchParams.set("x", x);
  charts.dataset.curves = address.pathname + address.search;
  charts.dataset.drawing = JSON.stringify({ kind, strength: Number(smooth), scale, xscale, clip: Number(clip) });
  announce();
}

function rankedBy(form) {
  const values = Object.fromEntries(new FormData(form));
  remember({ metric: values.metric, by: values.by, better: values.better });
  refetch("ranking");
  if (document.querySelector("[data-parallel]")) location.reload();
}

// Charts: pinned, moved, wide, enlarged

function pinned() {
  return [...root.querySelectorAll("[data-pinned] > [data-metric-card]")].map((card) => card.dataset.metricCard);
}

function keepPins() {
  const pins = pinned();
  remember({ pins: pins.join(",") || "none" });
  root.querySelector("[data-section=pinned]").hidden = pins.length === 0;
  for (const card of root.querySelectorAll("[data-metric-card]")) {
    card.querySelector("[data-pin]").textContent = pins.includes(card.dataset.metricCard) ? "Unpin" : "Pin";
  }
}

function pin(card, isPinned = pinned().includes(card.dataset.metricCard)) {
  if (isPinned) {
    card.remove();
    keepPins();
    refetch("compared"); // back to its place among the others
    return;
  }
  root.querySelector("[data-pinned]").append(card);
  keepPins();
}

function move(card, by) {
  if (step(card, by)) moved(card);
  card.querySelector("summary").focus();
}

// The order of a section that somebody has arranged is kept in the address, as that of the pinned charts is.
function moved(card) {
  if (card.closest("[data-pinned]")) keepPins();
  else {
    const own = [...card.parentElement.querySelectorAll("[data-metric-card]")].map((other) => other.dataset.metricCard);
    remember({ order: [...listOf(chosen("order")).filter((key) => !own.includes(key)), ...own].join(",") });
  }
  document.querySelector("[data-copied]").textContent = place(card);
}

function widen(card) {
  card.classList.toggle("wide");
  const wide = [...root.querySelectorAll(".chart-card.wide")].map((other) => other.dataset.metricCard);
  remember({ wide: wide.join(",") || "none" });
}

function enlarge(card) {
  const before = root.querySelector(".chart-card.enlarged");
  if (before) {
    before.classList.remove("enlarged");
    before.querySelector("[data-enlarge]").setAttribute("aria-pressed", "false");
  }
  const isEnlarged = card && card !== before;
  document.body.classList.toggle("has-enlarged", Boolean(isEnlarged));
  (isEnlarged ? card : before)?.querySelector("[data-enlarge]").focus();
  if (!isEnlarged) return;
  card.classList.add("enlarged");
  card.querySelector("[data-enlarge]").setAttribute("aria-pressed", "true");
}

async function save(card, format) {
  const figure = card.querySelector("figure");
  const name = `${card.dataset.metricCard.replaceAll(/[^\w.-]+/g, "-")}.${format}`;
  const address = format === "png" ? await imageOf(figure)
    : URL.createObjectURL(new Blob([csvOf(figure)], { type: "text/csv" }));
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  if (format === "csv") setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// Links and code that give the same data

function address(metric) {
  const query = new URLSearchParams({ runs: runs().join(","), key: metric, x: chosen("x") ?? "step" });
  return `${location.origin}/api/v1/runs/curves?${query}`;
}

const WRITERS = {
  link: () => location.href,
  curl: (metric) => `curl -H "Authorization: Bearer $TRAINMASTER_TOKEN" \\\n  "${address(metric)}"`,
  python: (metric) => [
    "import json, os", "from urllib.request import Request, urlopen", "",
    `request = Request("${address(metric)}")`,
    'request.add_header("Authorization", f"Bearer {os.environ[\'TRAINMASTER_TOKEN\']}")',
    "curves = json.load(urlopen(request))", 'for run, curve in curves["curves"].items():',
    '    print(run, curve["x_to"][-1:], curve["mean"][-1:])', "",
  ].join("\n"),
};

async function copy(button) {
  const metric = button.closest("[data-metric-card]")?.dataset.metricCard ?? root.querySelector("#rank-metric").value;
  await navigator.clipboard.writeText(WRITERS[button.dataset.copyAs](metric));
  document.querySelector("[data-copied]").textContent = "Copied to the clipboard.";
  const text = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = text), 1500);
}

function clicked(event) {
  const { target } = event;
  const card = target.closest("[data-metric-card]");
  const line = target.closest("[data-run]");
  const button = target.closest("button");
  if (!button) return;
  const { move: by, save: format } = button.dataset;
  const is = (name) => name in button.dataset;
  if (is("copyAs")) copy(button);
  else if (is("showAll")) hide([]);
  else if (is("fold")) fold(button);
  else if (is("solo")) only(line);
  else if (is("remove")) go({ runs: runs().filter((id) => !line.dataset.ids.split(",").includes(id)).join(",") });
  else if (is("pin")) pin(card);
  else if (by) move(card, Number(by));
  else if (is("wide")) widen(card);
  else if (is("enlarge")) enlarge(card);
  else if (format) save(card, format);
  else if (is("rankBy")) {
    root.querySelector("#rank-metric").value = card.dataset.metricCard;
    rankedBy(root.querySelector("[data-rank]"));
  }
  if (button.closest("details.menu") && !is("copyAs")) button.closest("details.menu").open = false;
}

function fold(button) {
  const isOpen = root.querySelector(".run-list").classList.toggle("open");
  button.setAttribute("aria-expanded", String(isOpen));
}

function changed({ target }) {
  if (target.matches("[data-show]")) {
    const run = target.closest("[data-run]").dataset.run;
    hide(target.checked ? hidden().filter((id) => id !== run) : [...hidden(), run]);
  } else if (target.name === "group") go({ group: target.checked ? "seeds" : "", hide: "" });
  else if (target.closest("[data-rank]")) rankedBy(target.form);
  else if (target.id === "add-run") go({ runs: [...runs(), target.value].join(",") });
  else if (target.closest("[data-drawing-form]") && target.id !== "find-metric") drawn({ target });
}

function typed({ target }) {
  if (target.id === "option-smooth") drawn({ target });
}

function pressed(event) {
  if (event.key !== "Escape") return;
  const menu = event.target.closest?.("details.menu[open]");
  if (menu) menu.open = false;
  else if (root.querySelector(".chart-card.enlarged")) enlarge(null);
}

export function startCompare() {
  root = document.querySelector("[data-comparison]");
  if (!root) return;
  showHidden();
  document.addEventListener("click", (event) => {
    document.querySelectorAll("details.menu[open]").forEach((menu) => {
      if (!menu.contains(event.target)) menu.open = false;
    });
    if (event.target.closest("[data-comparison], [data-copy-as]")) clicked(event);
  });
  root.addEventListener("change", changed);
  root.addEventListener("input", typed);
  root.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-pair]")) event.preventDefault();
  });
  startPanels(root, moved);
  root.addEventListener("pointerover", stand);
  root.addEventListener("focusin", stand);
  root.querySelector(".run-list").addEventListener("pointerleave", stand);
  document.addEventListener("keydown", pressed);
  document.addEventListener("htmx:afterSettle", showHidden);
}
