// Which node has which chunk: a line a node, a column a chunk, on one canvas: a thousand by five hundred draw at once.
// The map is read once; after that the socket brings what changed, and all of it is read again only after a break.

const LINE_PX = [14, 8, 4, 2, 1]; // the tallest that keeps the map within a screen
const MOST_PX = 480;
const GAP_MS = 1000;

class Heat {
  constructor(canvas) {
    this.canvas = canvas;
    this.summary = canvas.closest(".card").querySelector("[data-heat-told]");
    this.rows = [];
    this.at = -Infinity;
    this.due = false;
    canvas.addEventListener("mousemove", (event) => this.point(event));
    new ResizeObserver(() => this.paint()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
    new MutationObserver(() => this.paint()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.fetch();
  }

  // At most once a second, however often the deployment reports.
  later() {
    if (this.due) return;
    this.due = true;
    setTimeout(() => {
      this.due = false;
      if (this.canvas.isConnected) this.fetch();
    }, Math.max(0, GAP_MS - (performance.now() - this.at)));
  }

  async fetch() {
    this.at = performance.now();
    try {
      const answer = await fetch(this.canvas.dataset.src, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      const { chunks, rows } = await answer.json();
      this.chunks = chunks;
      this.rows = rows.map((row) => ({ ...row, bits: unpacked(row.bits, chunks) }));
      this.lines = new Map(this.rows.map((row) => [row.position, row]));
      this.paint();
    } catch (error) {
      this.summary.textContent = `The map could not be read: ${error.message}.`;
    }
  }

  // Changes of nodes: [its position, its state, the numbers of its new chunks].
  apply(changes) {
    for (const [position, state, fresh] of changes) {
      const row = this.lines?.get(position);
      if (!row) continue;
      row.state = state;
      for (const chunk of fresh) row.bits[chunk >> 3] |= 1 << (chunk & 7);
    }
    this.paintSoon();
  }

  paintSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.paint();
    });
  }

  paint() {
    if (!this.rows.length) return;
    const { canvas, rows, chunks } = this;
    const scale = devicePixelRatio || 1;
    const line = LINE_PX.find((px) => px * rows.length <= MOST_PX) ?? 1;
    const width = canvas.parentElement.clientWidth - 2 * parseFloat(getComputedStyle(canvas.parentElement).paddingLeft);
    canvas.height = Math.round(line * rows.length * scale);
    canvas.width = Math.max(1, Math.round(width * scale));
    const style = getComputedStyle(canvas);
    const ink = canvas.getContext("2d");
    const column = canvas.width / chunks;
    const gap = line > 2 ? scale : 0;
    let whole = 0;
    rows.forEach((row, y) => {
      ink.fillStyle = style.getPropertyValue("background-color");
      ink.fillRect(0, y * line * scale, canvas.width, line * scale - gap);
      ink.fillStyle = row.state === "failed" ? style.getPropertyValue("outline-color") : style.color;
      let first = -1;
      for (let chunk = 0; chunk <= chunks; chunk += 1) {
        const present = chunk < chunks && has(row, chunk);
        if (present && first < 0) first = chunk;
        if (!present && first >= 0) {
          ink.fillRect(first * column, y * line * scale, (chunk - first) * column, line * scale - gap);
          first = -1;
        }
      }
      whole += row.state === "complete";
    });
    this.line = line;
    const [complete, nodes, all] = [whole, rows.length, chunks].map((count) => count.toLocaleString("en"));
    this.summary.textContent = `${complete} of ${nodes} nodes have all ${all} chunks`;
  }

  point({ offsetX, offsetY }) {
    const row = this.rows[Math.floor(offsetY / this.line)];
    const chunk = Math.floor((offsetX / this.canvas.clientWidth) * this.chunks);
    if (!row) return;
    const state = has(row, chunk) ? "present" : "missing";
    this.canvas.title = `${row.node}, ${row.rack || "no rack"}: chunk ${chunk + 1} of ${this.chunks} is ${state}`;
  }
}

function unpacked(text, chunks) {
  const bits = new Uint8Array(Math.ceil(chunks / 8)); // of a node without chunks the text is empty
  bits.set(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).subarray(0, bits.length));
  return bits;
}

function has(row, chunk) {
  return Boolean((row.bits[chunk >> 3] >> (chunk & 7)) & 1);
}

const maps = new WeakMap();

function look() {
  for (const canvas of document.querySelectorAll("[data-heat]")) {
    if (!maps.has(canvas)) maps.set(canvas, new Heat(canvas));
  }
}

export function startHeat() {
  look();
  document.addEventListener("htmx:afterSettle", look);
  const shown = (subject) => [...document.querySelectorAll("[data-heat]")]
    .filter((canvas) => !subject || canvas.dataset.subject === subject)
    .flatMap((canvas) => maps.get(canvas) ?? []);
  document.addEventListener("trainmaster:live", ({ detail: { subject, data } }) => {
    for (const map of shown(subject)) {
      if (data.map) map.later();
      else if (data.chunks) map.apply(data.chunks);
    }
  });
  document.addEventListener("trainmaster:catch-up", () => shown("").forEach((map) => map.later()));
}
