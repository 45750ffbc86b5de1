// Times in the reader's own zone: relative for the living ("12 s ago"), absolute for the past ("14:02:11").
const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
});
const DATE = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short" });
const FULL = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
const FORMS = { clock: CLOCK, date: DATE, full: FULL };

// The two largest units, as platform_core.units.format_duration_ms writes them, but no finer than a second.
const STEPS = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];

export function duration(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  const step = STEPS.find(([size]) => seconds >= size);
  if (!step) return `${seconds} s`;
  const [large, largeUnit, small, smallUnit] = step;
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)} ${largeUnit}${rest ? ` ${rest} ${smallUnit}` : ""}`;
}

// The largest unit alone, for the age of things: 12 s, 3 min, 5 h.
const AGES = [[86400, "d", 172800], [3600, "h", 3600], [60, "min", 60]];

function about(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  const [size, unit] = AGES.find(([, , least]) => seconds >= least) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit}`;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function tick(root = document) {
  const now = Date.now();
  for (const element of root.querySelectorAll("time[data-relative]")) {
    const distance = now - Date.parse(element.dateTime);
    write(element, distance >= 0 ? `${about(distance)} ago` : `in ${about(-distance)}`);
  }
  for (const element of root.querySelectorAll("time[data-since]")) {
    write(element, duration(Math.max(0, now - Date.parse(element.dateTime))));
  }
}

function localise(root) {
  for (const element of root.querySelectorAll("time[data-at]")) {
    const moment = new Date(element.dateTime);
    write(element, FORMS[element.dataset.at].format(moment));
    element.title = FULL.format(moment);
  }
}

// "1 line", "1,024 lines"; as platform_core.units.plural.
export function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

export function clock(milliseconds) {
  return CLOCK.format(new Date(milliseconds));
}

export function startTimes() {
  localise(document);
  tick();
  setInterval(() => document.hidden || tick(), 1000);
  document.addEventListener("htmx:afterSettle", (event) => {
    localise(event.target.parentElement ?? document);
    tick(event.target);
  });
}
