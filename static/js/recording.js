// Profiles, memory snapshots and flame graphs of a running script (templates/runs/recording.html): the file is read as
// data and drawn on a canvas, with a table of its names below. Nothing is loaded from elsewhere.
//   a trace is {lanes: [{name, depth, bars: [{name, start, end, depth, own}]}], memory: [[us, bytes]], from, to, table}
import { drawLanes, drawTooltip, laneHeight, lanesHeight } from "./recording-draw.js";
import { flameOf, traceOf } from "./recording-read.js";

const MOST_ROWS = 30;
const MEMORY_HEIGHT = 90;

async function load(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  if (!/\.gz$/.test(new URL(address, location.href).pathname)) return answer.text();
  const plain = answer.body.pipeThrough(new DecompressionStream("gzip"));
  return new Response(plain).text();
}

class Recording {
  constructor(box) {
    this.box = box;
    this.kind = box.dataset.recordingKind;
    this.said = box.querySelector("[data-said]");
    this.table = box.querySelector("[data-table]");
    this.place = box.querySelector("[data-canvas]");
    this.canvas = this.place.appendChild(document.createElement("canvas"));
    this.found = "";
    this.hover = null;
    this.other = null;
    this.run();
  }

  async run() {
    try {
      this.data = this.parsed(await load(this.box.dataset.recording));
    } catch (error) {
      this.said.textContent = `The file cannot be shown: ${error.message}. Download it to open it elsewhere.`;
      return;
    }
    this.all();
    this.listen();
    this.resize();
    this.tabulate();
  }

  parsed(text) {
    return this.kind === "flame" ? flameOf(text) : traceOf(JSON.parse(text));
  }

  all() {
    [this.from, this.to] = [this.data.from, this.data.to];
  }

  get memory() {
    return this.data.memory?.length ? MEMORY_HEIGHT : 0;
  }

  resize() {
    const [width, height] = [this.place.clientWidth, Math.max(80, lanesHeight(this.data.lanes) + this.memory + 22)];
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    this.draw();
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      drawLanes(this.canvas, this);
      if (this.hover) drawTooltip(this.canvas, this);
    });
    const share = (100 * (this.to - this.from)) / (this.data.to - this.data.from);
    const shown = share > 99.9 ? "" : ` Shown: ${share.toPrecision(2)} %.`;
    this.said.textContent = `${this.data.sentence}${shown} Drag to move, Ctrl and wheel or + and − to zoom.`;
  }

  zoom(factor, at = 0.5) {
    const [{ from, to }, middle] = [this.data, this.from + at * (this.to - this.from)];
    const width = Math.min(to - from, Math.max((to - from) / 1e5, (this.to - this.from) * factor));
    this.move(middle - at * width, width);
  }

  move(from, width = this.to - this.from) {
    this.from = Math.min(Math.max(from, this.data.from), this.data.to - width);
    this.to = this.from + width;
    this.draw();
  }

  barAt(x, y) {
    const time = this.from + (x / this.place.clientWidth) * (this.to - this.from);
    let top = this.memory + 22;
    for (const lane of this.data.lanes) {
      const height = laneHeight(lane);
      if (y >= top && y < top + height) {
        const depth = Math.floor((y - top - 16) / 16);
        return lane.bars.find((bar) => bar.depth === depth && bar.start <= time && time <= bar.end) ?? null;
      }
      top += height;
    }
    return null;
  }

  listen() {
    new ResizeObserver(() => this.resize()).observe(this.place);
    let dragged = null;
    this.place.addEventListener("pointerdown", ({ offsetX }) => {
      dragged = { x: offsetX, from: this.from, moved: false };
    });
    this.place.addEventListener("pointermove", ({ offsetX, offsetY }) => {
      if (dragged) {
        dragged.moved ||= Math.abs(offsetX - dragged.x) > 3;
        this.move(dragged.from - ((offsetX - dragged.x) / this.place.clientWidth) * (this.to - this.from));
      } else {
        this.hover = { x: offsetX, y: offsetY, bar: this.barAt(offsetX, offsetY) };
        this.draw();
      }
    });
    this.place.addEventListener("pointerup", ({ offsetX, offsetY }) => {
      const bar = dragged && !dragged.moved ? this.barAt(offsetX, offsetY) : null;
      dragged = null;
      if (bar) this.move(bar.start, Math.max(bar.end - bar.start, (this.data.to - this.data.from) / 1e5));
    });
    this.place.addEventListener("pointerleave", () => {
      dragged = this.hover = null;
      this.draw();
    });
    this.place.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / this.place.clientWidth);
    }, { passive: false });
    this.place.addEventListener("keydown", ({ key }) => {
      const step = (this.to - this.from) / 5;
      ({ "+": () => this.zoom(0.6), "-": () => this.zoom(1.6), 0: () => { this.all(); this.draw(); },
        ArrowLeft: () => this.move(this.from - step), ArrowRight: () => this.move(this.from + step) })[key]?.();
    });
    this.box.addEventListener("click", ({ target }) => {
      const verb = target.closest("[data-zoom]")?.dataset.zoom;
      if (verb === "all") { this.all(); this.draw(); }
      if (verb === "in") this.zoom(0.6);
      if (verb === "out") this.zoom(1.6);
    });
    this.box.addEventListener("input", ({ target }) => {
      if (!target.matches("[data-find]")) return;
      this.found = target.value.trim().toLowerCase();
      this.draw();
      this.tabulate();
    });
    this.box.querySelector("[data-with]")?.addEventListener("change", ({ target }) => this.compare(target.value));
  }

  async compare(address) {
    this.other = null;
    if (address) {
      try {
        this.other = this.parsed(await load(address));
      } catch (error) {
        this.said.textContent = `The other file cannot be read: ${error.message}.`;
      }
    }
    this.tabulate();
  }

  // Names by their own time, samples or allocations; beside another recording the shares of both.
  tabulate() {
    const [{ table }, other] = [this.data, this.other?.table];
    const none = { own: 0, calls: 0 };
    const names = new Set([...table.sums.keys(), ...(other?.sums.keys() ?? [])]);
    const rows = [...names].filter((name) => name.toLowerCase().includes(this.found))
      .map((name) => ({ name, a: table.sums.get(name) ?? none, b: other?.sums.get(name) ?? none }))
      .filter(({ a, b }) => a.own > 0 || b.own > 0);
    rows.sort((left, right) => Math.max(right.a.own, right.b.own) - Math.max(left.a.own, left.b.own));
    const percent = (sum, { whole }) => (100 * sum.own) / whole;
    const number = (value) => (table.scale === 1 ? value.toLocaleString("en") : value.toFixed(value < 10 ? 3 : 1));
    const counts = (value) => (table.counted ? [value] : []);
    const cells = (sum, of) => [
      ...counts(sum.calls.toLocaleString("en")), number(sum.own / table.scale), `${percent(sum, of).toFixed(1)} %`,
    ];
    const columns = [...counts(table.counted), table.unit, "Share"];
    const head = ["Name", ...columns];
    if (other) head.push(...columns.map((text) => `${text}, other`), "Change of the share");
    const lines = rows.slice(0, MOST_ROWS).map(({ name, a, b }) => {
      if (!other) return [name, ...cells(a, table)];
      const change = percent(b, other) - percent(a, table);
      const points = `${change > 0 ? "+" : ""}${change.toFixed(1)} points`;
      return [name, ...cells(a, table), ...cells(b, other), points];
    });
    const made = (tag, texts) => {
      const line = document.createElement("tr");
      texts.forEach((text, index) => {
        const cell = line.appendChild(document.createElement(tag));
        cell.textContent = text;
        if (index) cell.className = table.counted && head[index].startsWith(table.counted) ? "n hide-s" : "n";
        if (tag === "th") cell.scope = "col";
      });
      return line;
    };
    const [top, body] = ["thead", "tbody"].map((tag) => document.createElement(tag));
    top.append(made("th", head));
    body.append(...lines.map((cells) => made("td", cells)));
    this.table.replaceChildren(top, body);
  }
}

function start(root) {
  for (const box of root.querySelectorAll("[data-recording]:not([data-started])")) {
    box.dataset.started = "";
    new Recording(box);
  }
}

export function startRecordings() {
  start(document);
  document.addEventListener("htmx:afterSettle", () => start(document));
}

