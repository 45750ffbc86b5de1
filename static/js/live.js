// One socket for the page. Elements name their subjects in data-live ("job:job-… jobs:vision"); when one of them
// changes, htmx fetches the element's block again (hx-trigger="live"), at most once a second. Modules that want the
// values themselves (metric points, log lines) listen to `trainmaster:live` on the document. Numbers that change every
// second come as values, by the names in data-value; the page says which it shows and fetches no block for them.
// After a break the page joins again and asks for everything it shows: nothing needs to be replayed.

const FETCH_GAP_MS = 1000;
const BLOCK_GAP_MS = 10000; // how old the rest of a block may be while its numbers come by the socket
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 20000;
const BANNER_AFTER_MS = 2500;
const PATIENCE = 4; // times what the last fetch took
const RETRY_MS = 3000;
const SESSION_ENDED = 4401;

let socket = null;
let wait = FIRST_WAIT_MS;
let bannerTimer = null;
let everOpen = false;
const joined = new Set();
const lastFetch = new WeakMap();
const scheduled = new Map(); // element → when it is due, and its timer
let shows = "";

function subjectsOf(element) {
  return (element.dataset.live ?? "").split(/\s+/).filter(Boolean);
}

function watchers() {
  return document.querySelectorAll("[data-live]");
}

function join() {
  if (socket?.readyState !== WebSocket.OPEN) return;
  const wanted = new Set([...watchers()].flatMap(subjectsOf));
  const fresh = [...wanted].filter((subject) => !joined.has(subject));
  const gone = [...joined].filter((subject) => !wanted.has(subject));
  // The page is as old as its navigation: the server sends what changed since then, before it could be heard here.
  if (fresh.length) socket.send(JSON.stringify({ join: fresh, age_ms: Math.ceil(performance.now()) }));
  if (gone.length) socket.send(JSON.stringify({ leave: gone }));
  fresh.forEach((subject) => joined.add(subject));
  gone.forEach((subject) => joined.delete(subject));
  sendShown();
}

// What the page shows of a subject with numbers: all names, wherever they stand.
function sendShown() {
  const subjects = [...joined].filter((subject) => subject.startsWith("progress:"));
  const names = [...new Set([...document.querySelectorAll("[data-value]")].map((element) => element.dataset.value))];
  const now = JSON.stringify({ shows: Object.fromEntries(subjects.map((subject) => [subject, names])) });
  if (!subjects.length || now === shows) return;
  shows = now;
  socket.send(now);
}

function put(values) {
  const blocks = new Set();
  for (const element of document.querySelectorAll("[data-value]")) {
    const text = values[element.dataset.value];
    if (text === undefined) continue;
    if (element.nodeName === "PROGRESS") element.value = parseFloat(text);
    else if (element.nodeName === "rect") fill(element, parseFloat(text));
    else if (element.textContent !== text) element.textContent = text;
    blocks.add(element.closest("[data-live]"));
  }
  for (const block of blocks) if (block) refresh(block, BLOCK_GAP_MS);
}

function fill(cell, percent) {
  cell.setAttribute("y", 100 - percent);
  cell.setAttribute("height", percent);
}

function refresh(element, gap = FETCH_GAP_MS) {
  if (!element.hasAttribute("hx-get")) return;
  const now = performance.now();
  const { at, took } = lastFetch.get(element) ?? { at: gap === FETCH_GAP_MS ? -Infinity : 0, took: 0 };
  const due = Math.max(now, at + Math.max(gap, PATIENCE * took));
  const before = scheduled.get(element);
  if (before && before.due <= due) return;
  clearTimeout(before?.timer);
  const timer = setTimeout(() => {
    if (document.hidden) return; // stays scheduled until the page is visible again
    scheduled.delete(element);
    if (!element.isConnected || busy(element)) return;
    lastFetch.set(element, { at: performance.now(), took: 0 });
    window.htmx.trigger(element, "live");
  }, due - now);
  scheduled.set(element, { due, timer });
}

// A server that answers slowly is asked less often.
function answered({ detail: { elt: element } }) {
  const fetched = lastFetch.get(element);
  if (fetched && !fetched.took) fetched.took = performance.now() - fetched.at;
}

function busy(element) {
  return element.querySelector("dialog[open], [data-editing]") !== null;
}

function refreshAll() {
  watchers().forEach((element) => refresh(element));
}

// A fetch that did not come through is tried again; the hint that asked for it comes only once.
function missed({ detail: { elt: element } }) {
  if (element.dataset?.live) setTimeout(() => refresh(element), RETRY_MS);
}

function heard({ subject, data }) {
  if (!subject) return;
  document.dispatchEvent(new CustomEvent("trainmaster:live", { detail: { subject, data: data ?? {} } }));
  for (const element of watchers()) if (subjectsOf(element).includes(subject)) refresh(element);
  if (data?.values) put(data.values);
  if (data?.missed) document.dispatchEvent(new CustomEvent("trainmaster:catch-up"));
}

function banner(text) {
  const element = document.getElementById("connection");
  if (!element) return;
  element.hidden = !text;
  if (text) element.querySelector("[data-text]").textContent = text;
}

function opened() {
  clearTimeout(bannerTimer);
  bannerTimer = null;
  banner("");
  wait = FIRST_WAIT_MS;
  joined.clear();
  shows = "";
  join();
  if (everOpen) {
    refreshAll();
    document.dispatchEvent(new CustomEvent("trainmaster:catch-up"));
  }
  everOpen = true;
}

function closed(event) {
  if (event.code === SESSION_ENDED) {
    banner("Your session has ended. Sign in again to see live values.");
    return;
  }
  bannerTimer ??= setTimeout(() => {
    const at = new Date(Date.now() - BANNER_AFTER_MS).toLocaleTimeString();
    banner(`Connection lost at ${at}. What you see may be old; trying again by itself.`);
  }, BANNER_AFTER_MS);
  setTimeout(connect, wait * (0.75 + Math.random() / 2));
  wait = Math.min(LONGEST_WAIT_MS, wait * 2);
}

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/ws/live/`);
  socket.addEventListener("open", opened);
  socket.addEventListener("close", closed);
  socket.addEventListener("message", (event) => heard(JSON.parse(event.data)));
}

export function startLive() {
  if (!watchers().length) return;
  connect();
  document.addEventListener("htmx:afterSettle", join);
  document.addEventListener("htmx:afterRequest", answered);
  document.addEventListener("htmx:sendError", missed);
  document.addEventListener("htmx:responseError", missed);
  // What was put off while a dialog was open inside it.
  document.addEventListener("close", ({ target }) => {
    const element = target.closest("[data-live]");
    if (element) refresh(element);
  }, true);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    const late = [...scheduled.keys()];
    scheduled.clear();
    late.forEach((element) => refresh(element));
  });
  window.addEventListener("online", () => {
    wait = FIRST_WAIT_MS;
    if (socket.readyState > WebSocket.OPEN) connect();
  });
}
