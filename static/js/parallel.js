// Parallel coordinates and scatter plots of the runs' parameters and their result, drawn as SVG: in the runs' own
// colours, without a WebGL context each. JSON of the page:
//   { axes: [{name, values: [number | null], categories: [text], log}], result, runs: [{id, name, style, share}] }
// A run with a share (to 1, the best) is drawn the darker, the greater that is. The scatter plots may be left out.
import { number } from "./chart-data.js";
import { swatch } from "./chart-style.js";

const SVG = "http://www.w3.org/2000/svg";
const [HEIGHT, TOP, BOTTOM] = [300, 34, 24];
const [GAP, NARROW_GAP, NARROW] = [130, 84, 500]; // between axes; on a phone; the width of one
const CELL = 130;
const MOST_SCATTERED = 4; // axes at first

const ranges = new Map(); // axis → [low, high] that the reader has dragged over, from 0 to 1
let [data, off] = [null, new Set()];

function make(name, attributes = {}, text = "") {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

// A value's place on its axis, from 0 (below) to 1; null without a value.
function scale({ values, categories, log }) {
  const turn = log ? Math.log10 : (value) => value;
  const known = values.filter((value) => value !== null).map(turn);
  const [low, high] = categories.length ? [-0.5, categories.length - 0.5] : [Math.min(...known), Math.max(...known)];
  return (value) => (value === null ? null : high > low ? (turn(value) - low) / (high - low) : 0.5);
}

function ticks({ values, categories, log }, place) {
  if (categories.length) return categories.map((text, index) => [text, place(index)]);
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const middle = log ? Math.sqrt(low * high) : (low + high) / 2;
  return [low, middle, high].map((value) => [number(Number(value.toPrecision(3))), place(value)]);
}

function described(what, axes) {
  return `${what} of ${axes.map(({ name }) => name).join(", ")}; the table view holds the values.`;
}

function short(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function parallel(box) {
  const gap = box.clientWidth < NARROW ? NARROW_GAP : GAP;
  const width = Math.max(box.clientWidth, data.axes.length * gap);
  const svg = make("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img" });
  svg.setAttribute("aria-label", described("Parallel coordinates", data.axes));
  const step = data.axes.length > 1 ? (width - gap) / (data.axes.length - 1) : 0;
  const lengthOfAxis = HEIGHT - TOP - BOTTOM;
  const columns = data.axes.map((axis, index) => {
    const place = scale(axis);
    return { axis, x: gap / 2 + index * step, at: axis.values.map(place), place };
  });
  const y = (at) => HEIGHT - BOTTOM - at * lengthOfAxis;
  const lines = make("g", { class: "lines" });
  data.runs.forEach((run, index) => {
    const known = columns.filter(({ at }) => at[index] !== null);
    const points = known.map(({ x, at }) => `${x.toFixed(1)},${y(at[index]).toFixed(1)}`).join(" ");
    const line = make("polyline", { points, class: `run-${run.style.colour + 1}`, "data-line": run.id });
    if (run.share) line.setAttribute("stroke-opacity", run.share ** 2 * 0.9 + 0.1);
    if (run.share === 1) line.classList.add("best");
    line.append(make("title", {}, run.name));
    lines.append(line);
  });
  svg.append(lines);
  for (const column of columns) svg.append(axisOf(column, y, box, gap));
  box.replaceChildren(svg);
  box.classList.add("scroll");
  show(box);
}

function axisOf({ axis, x, place }, y, box, gap) {
  const group = make("g", { class: axis.name === data.result ? "axis result" : "axis" });
  group.append(make("line", { x1: x, x2: x, y1: y(0), y2: y(1) }));
  const name = short(axis.name, Math.round(gap / 6.5));
  group.append(make("text", { x, y: 16, "text-anchor": "middle", class: "name" }, name));
  for (const [text, at] of ticks(axis, place)) {
    group.append(make("text", { x: x + 6, y: y(at) + 4, class: "tick" }, short(text, Math.round(gap / 10))));
  }
  const brush = make("rect", { x: x - 8, width: 16, y: y(1), height: y(0) - y(1), class: "brush-area" });
  const mark = make("rect", { x: x - 8, width: 16, class: "brush" });
  group.append(mark, brush);
  mark.setAttribute("visibility", "hidden");
  drag(brush, (from, to) => {
    if (Math.abs(from - to) < 0.02) ranges.delete(axis.name);
    else ranges.set(axis.name, [Math.min(from, to), Math.max(from, to)]);
    const range = ranges.get(axis.name);
    mark.setAttribute("visibility", range ? "visible" : "hidden");
    if (range) {
      mark.setAttribute("y", y(range[1]));
      mark.setAttribute("height", y(range[0]) - y(range[1]));
    }
    show(box);
  });
  return group;
}

function drag(area, moved) {
  let from = null;
  const at = (event) => {
    const { top, height } = area.getBoundingClientRect();
    return Math.max(0, Math.min(1, 1 - (event.clientY - top) / height));
  };
  area.addEventListener("pointerdown", (event) => {
    area.setPointerCapture(event.pointerId);
    from = at(event);
    moved(from, from);
  });
  area.addEventListener("pointermove", (event) => from !== null && moved(from, at(event)));
  area.addEventListener("pointerup", () => (from = null));
}

function isOut(index) {
  return data.axes.some((axis) => {
    const range = ranges.get(axis.name);
    if (!range) return false;
    const at = scale(axis)(axis.values[index]);
    return at === null || at < range[0] || at > range[1];
  });
}

function show() {
  if (!data) return;
  const out = new Set(data.runs.filter((run, index) => off.has(run.id) || isOut(index)).map(({ id }) => id));
  for (const line of document.querySelectorAll("[data-line]")) line.classList.toggle("out", out.has(line.dataset.line));
}

function highlighted({ detail: run }) {
  for (const line of document.querySelectorAll("[data-line]")) {
    line.classList.toggle("lit", Boolean(run) && line.dataset.line === run);
    line.classList.toggle("dimmed", Boolean(run) && line.dataset.line !== run);
  }
}

// Each pair of axes is one small plot; the diagonal names the axis.
function scatter(box, names) {
  const axes = data.axes.filter(({ name }) => names.has(name));
  const size = axes.length * CELL;
  const svg = make("svg", { viewBox: `0 0 ${size} ${size}`, width: Math.min(size, 900), role: "img" });
  svg.setAttribute("aria-label", described("Scatter matrix", axes));
  axes.forEach((down, row) => axes.forEach((across, column) => {
    const [x0, y0] = [column * CELL, row * CELL];
    svg.append(make("rect", { x: x0 + 2, y: y0 + 2, width: CELL - 4, height: CELL - 4, class: "cell" }));
    if (row === column) return svg.append(...diagonal(down, x0, y0));
    const [placeX, placeY] = [scale(across), scale(down)];
    data.runs.forEach((run, index) => {
      const [x, y] = [placeX(across.values[index]), placeY(down.values[index])];
      if (x === null || y === null) return;
      const [left, top] = [x0 + 12 + x * (CELL - 24), y0 + CELL - 12 - y * (CELL - 24)];
      const dot = make("g", {
        transform: `translate(${left.toFixed(1)} ${top.toFixed(1)})`,
        class: `dot run-${run.style.colour + 1}`, "data-line": run.id,
      });
      const shape = swatch({ name: "", dash: 0, marker: run.style.marker }).querySelector("path").getAttribute("d");
      dot.append(make("path", { d: shape, transform: "translate(-13 -5)" }));
      const values = [across, down].map((axis) => `${axis.name} ${words(axis, index)}`);
      dot.append(make("title", {}, `${run.name}: ${values.join(", ")}`));
      svg.append(dot);
    });
  }));
  box.replaceChildren(svg);
  show();
}

function words({ values, categories }, index) {
  return categories.length ? categories[values[index]] : number(values[index]);
}

function diagonal(axis, x, y) {
  const known = axis.values.filter((value) => value !== null);
  const extent = axis.categories.length ? `${axis.categories.length} values`
    : `${number(Math.min(...known))} to ${number(Math.max(...known))}${axis.log ? ", log" : ""}`;
  const at = { x: x + CELL / 2, "text-anchor": "middle" };
  return [
    make("text", { ...at, y: y + CELL / 2, class: "name" }, short(axis.name, 18)),
    make("text", { ...at, y: y + CELL / 2 + 16, class: "tick" }, extent),
  ];
}

function axesMenu(menu, box, names) {
  menu.replaceChildren(...data.axes.map(({ name }) => {
    const label = Object.assign(document.createElement("label"), { className: "check" });
    const input = Object.assign(document.createElement("input"), { type: "checkbox", checked: names.has(name) });
    input.addEventListener("change", () => {
      names[input.checked ? "add" : "delete"](name);
      scatter(box, names);
    });
    label.append(input, name);
    return label;
  }));
}

let drawn = "";

function draw() {
  const source = document.getElementById("parameters-data");
  const lines = document.querySelector("[data-parallel]");
  if (!source || !lines || (source.textContent === drawn && lines.firstChild)) return;
  drawn = source.textContent;
  data = JSON.parse(drawn);
  const hasParameter = data.axes.some(({ name }) => name !== data.result);
  document.querySelector("[data-few]").hidden = hasParameter;
  if (!hasParameter) return;
  parallel(lines);
  const dots = document.querySelector("[data-scatter]");
  if (!dots) return;
  const first = data.axes.slice(0, MOST_SCATTERED - 1).map(({ name }) => name);
  const names = new Set([...first, data.result || data.axes.at(-1).name]);
  scatter(dots, names);
  axesMenu(document.querySelector("[data-axes]"), dots, names);
}

export function startParallel() {
  off = new Set((document.querySelector("[data-hidden]")?.dataset.hidden ?? "").split(" "));
  draw();
  document.addEventListener("htmx:afterSettle", draw);
  document.addEventListener("trainmaster:highlight", highlighted);
  document.addEventListener("trainmaster:shown", ({ detail }) => {
    off = detail;
    show();
  });
}
