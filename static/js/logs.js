// The log of a job: every rank in one list, filtered and searched here, growing while the job writes.
// Only the lines in view are in the document, so a hundred thousand lines scroll as easily as ten.

import { plural } from "./time.js";

const LINE_PX = 20;
const FIRST_LAUNCHER = 1000000; // ranks from here on are the launchers of the nodes, not ranks of the job
const MOST_LINES = 100000;
const RETRY_MS = 3000;
const ANSI = /\u001b\[[0-9;]*[A-Za-z]/g;
const WARNING = /\b(warn(ing)?|retry|deprecated)\b/i;
const ERROR = /\b(error|exception|traceback|fatal|killed|out of memory)\b/i;

class LogView {
  constructor(root) {
    this.root = root;
    this.box = root.querySelector(".log");
    this.sheet = root.querySelector(".lines");
    this.lines = [];
    this.shown = [];
    this.after = "";
    this.fetching = false;
    this.due = false;
    this.top = 0;
    this.filter = { rank: "", text: "" };
    this.follow = root.querySelector("[data-follow]");
    this.box.addEventListener("scroll", () => this.scrolled());
    root.querySelector("[data-rank]").addEventListener("change", (event) => this.choose({ rank: event.target.value }));
    root.querySelector("[data-find]").addEventListener("input", (event) => {
      this.choose({ text: event.target.value.toLowerCase() });
    });
    this.follow.addEventListener("change", () => this.paint());
    new ResizeObserver(() => this.paint()).observe(this.box);
    this.fetch();
  }

  // Reads on from the last line known; the server answers {lines: [{at_ms, rank, text}], next, more}. Lines written
  // while an answer is on its way may not be in it: then one more request is due.
  async fetch() {
    this.due = true;
    if (this.fetching) return;
    this.fetching = true;
    try {
      while (this.due && this.root.isConnected) {
        this.due = false;
        const address = new URL(this.root.dataset.src, location.href);
        if (this.after !== "") address.searchParams.set("after", this.after);
        const answer = await fetch(address, { headers: { Accept: "application/json" } });
        if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
        const { lines, next, more } = await answer.json();
        this.due ||= more && next !== this.after;
        this.after = next ?? this.after;
        this.add(lines);
      }
    } catch (error) {
      this.empty(`The log could not be read: ${error.message}. Trying again.`);
      setTimeout(() => this.fetch(), RETRY_MS);
    } finally {
      this.fetching = false;
    }
  }

  add(lines) {
    for (const line of lines) {
      line.text = line.text.replace(ANSI, "");
      this.lines.push(line);
      this.seen(line.rank);
      if (this.passes(line)) this.shown.push(line);
    }
    if (this.lines.length > MOST_LINES) {
      this.lines.splice(0, this.lines.length - MOST_LINES);
      this.shown = this.lines.filter((line) => this.passes(line));
    }
    this.paint();
  }

  seen(rank) {
    const select = this.root.querySelector("[data-rank]");
    if ([...select.options].some((option) => option.value === String(rank))) return;
    const later = [...select.options].find((option) => option.value !== "" && Number(option.value) > Number(rank));
    select.add(new Option(speaker(rank), String(rank)), later ?? null);
  }

  passes({ rank, text }) {
    return (this.filter.rank === "" || String(rank) === this.filter.rank)
      && (this.filter.text === "" || text.toLowerCase().includes(this.filter.text));
  }

  choose(change) {
    Object.assign(this.filter, change);
    this.shown = this.lines.filter((line) => this.passes(line));
    this.paint();
  }

  scrolled() {
    const atEnd = this.box.scrollTop + this.box.clientHeight >= this.box.scrollHeight - 2 * LINE_PX;
    if (atEnd) this.follow.checked = true;
    else if (this.box.scrollTop < this.top - 1) this.follow.checked = false; // only the reader scrolls upwards
    this.top = this.box.scrollTop;
    requestAnimationFrame(() => this.paintVisible());
  }

  paint() {
    const filtered = this.filter.rank !== "" || this.filter.text !== "";
    this.root.querySelector("[data-count]").textContent = filtered
      ? `${this.shown.length.toLocaleString("en")} of ${plural(this.lines.length, "line")}`
      : plural(this.lines.length, "line");
    this.empty(this.shown.length ? "" : this.lines.length ? "No line passes this filter." : this.root.dataset.empty);
    this.sheet.style.height = `${this.shown.length * LINE_PX + 16}px`;
    if (this.follow.checked) {
      this.box.scrollTop = this.box.scrollHeight;
      this.top = this.box.scrollTop;
    }
    this.paintVisible();
  }

  empty(sentence) {
    const element = this.root.querySelector(".log .empty");
    element.hidden = !sentence;
    element.textContent = sentence;
  }

  paintVisible() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / LINE_PX) - 10);
    const last = Math.min(this.shown.length, first + Math.ceil(this.box.clientHeight / LINE_PX) + 20);
    const rows = [];
    for (let index = first; index < last; index += 1) rows.push(this.row(this.shown[index], index));
    this.sheet.replaceChildren(...rows);
  }

  row({ at_ms: at, rank, text }, index) {
    const row = document.createElement("div");
    row.className = `line${ERROR.test(text) ? " error" : WARNING.test(text) ? " warn" : ""}`;
    row.style.top = `${index * LINE_PX + 8}px`;
    const time = at ? new Date(at).toTimeString().slice(0, 8) + "." + String(at % 1000).padStart(3, "0") : "";
    row.append(part("t", `${time} `), part("r", `[${speaker(rank)}] `), ...this.marked(text));
    return row;
  }

  marked(text) {
    const start = this.filter.text ? text.toLowerCase().indexOf(this.filter.text) : -1;
    if (start < 0) return [text];
    const end = start + this.filter.text.length;
    const mark = document.createElement("mark");
    mark.textContent = text.slice(start, end);
    return [text.slice(0, start), mark, text.slice(end)];
  }
}

function speaker(rank) {
  return Number(rank) >= FIRST_LAUNCHER ? `launcher ${rank - FIRST_LAUNCHER}` : `rank ${rank}`;
}

function part(name, text) {
  const element = document.createElement("span");
  element.className = name;
  element.textContent = text;
  return element;
}

const views = new WeakMap();

function look() {
  for (const root of document.querySelectorAll("[data-logs]")) if (!views.has(root)) views.set(root, new LogView(root));
}

export function startLogs() {
  look();
  document.addEventListener("htmx:afterSettle", look);
  // A hint that there are new lines; the lines themselves are read from the one place that has them in order.
  const read = (subject) => document.querySelectorAll("[data-logs]").forEach((root) => {
    if (!subject || root.dataset.live === subject) views.get(root)?.fetch();
  });
  document.addEventListener("trainmaster:live", ({ detail: { subject, data } }) => data.lines && read(subject));
  document.addEventListener("trainmaster:catch-up", () => read(""));
}
