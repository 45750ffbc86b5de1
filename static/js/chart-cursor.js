// One cursor: whatever chart the pointer is over, every chart with the same kind of x shows that place and the values
// of its runs there. The chart under the pointer lists them all, the greatest first.
import { axisOf, nearest, newest, number, position } from "./chart-data.js";
import { MOST_RAW, places, unitOf } from "./chart-layout.js";
import { styleOf, swatch } from "./chart-style.js";

const MOST_LISTED = 16;
const MOST_VALUES = 8; // in a legend without names
// Plotly takes times as they are and shows them in the reader's zone; its axes then count from there.
const ZONE_MS = new Date().getTimezoneOffset() * 60000;

let frame = 0;
let at = null; // {known, from, x, y}: what the next frame shows

export function valueOf(chart, place) {
  if (chart.x.kind === "time") return place + ZONE_MS;
  return chart.x.kind === "elapsed" ? place * unitOf(chart).seconds : place;
}

export function pointAt(known, figure, event) {
  const { plot, chart } = known.get(figure);
  const axis = plot._fullLayout?.xaxis;
  if (!axis) return;
  const box = plot.getBoundingClientRect();
  const pixel = event.clientX - box.left - axis._offset;
  const inside = pixel >= 0 && pixel <= axis._length;
  show(known, figure, inside ? valueOf(chart, axis.p2c(pixel)) : null, event.clientY - box.top);
}

export function leave(known, figure) {
  show(known, figure, null, 0);
}

// Many moves between two pictures are one.
function show(known, from, x, y) {
  at = { known, from, x, y };
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    const axis = axisOf(at.known.get(at.from)?.chart ?? { x: {} });
    for (const [figure, entry] of at.known) {
      if (!entry.near || !entry.painted || entry.plot.hidden || axisOf(entry.chart) !== axis) continue;
      line(figure, entry, at.x);
      legend(figure, entry.chart, at.x);
      if (figure === at.from) list(figure, entry, at.x, at.y);
    }
  });
}

function line(figure, { chart, plot }, x) {
  const { xaxis, yaxis } = plot._fullLayout;
  let cursor = figure.querySelector(".cursor");
  if (!cursor) plot.append((cursor = Object.assign(document.createElement("div"), { className: "cursor" })));
  const left = x === null ? -1 : xaxis.c2p(places(chart, [x])[0] - (chart.x.kind === "time" ? ZONE_MS : 0));
  cursor.hidden = !(left >= 0 && left <= xaxis._length);
  if (cursor.hidden) return;
  cursor.style.height = `${yaxis._length}px`;
  cursor.style.transform = `translate(${xaxis._offset + left}px, ${yaxis._offset}px)`;
}

function valueAt(chart, series, x) {
  if (!series.x.length) return undefined;
  if (x === null) return newest(chart, series);
  const beyond = x > series.x.at(-1) + (series.x.at(-1) - series.x[0]) * 0.02;
  return beyond && series.x.length > 1 ? undefined : series.y[nearest(series.x, x)];
}

// The lines stay, only the numbers change: a page of many charts has thousands of them.
export function legend(figure, chart, x = null) {
  const list = figure.querySelector(".series-list");
  const brief = figure.closest("[data-legend]")?.dataset.legend === "values";
  const shown = chart.series.map((series, index) => ({ series, index }))
    .filter(({ series }) => !series.hidden && series.label !== "" && series.x.length);
  if (brief && shown.length > MOST_VALUES) return spread(list, chart, shown, x);
  const signature = shown.map(({ index }) => `${index}${styleOf(chart, index).name}`).join();
  if (list.dataset.signature !== signature) {
    list.dataset.signature = signature;
    list.replaceChildren(...shown.map(({ series, index }) => item(chart, series, index, brief)));
    list.append(Object.assign(document.createElement("li"), { className: "muted" }));
  }
  const hasValue = x !== null || !chart.points; // points follow no course: the last is no newer than the others
  shown.forEach(({ series }, place) => {
    list.children[place].lastChild.textContent = hasValue ? number(valueAt(chart, series, x), chart.y.unit) : "";
  });
  list.lastChild.textContent = hasValue && shown.length ? (x === null ? "latest" : `at ${position(chart, x)}`) : "";
}

function item(chart, series, index, brief) {
  const element = document.createElement("li");
  const value = document.createElement("b");
  if (!brief || !series.letter) {
    element.append(swatch(styleOf(chart, index)), brief ? "" : series.label ?? series.name, value);
    return element;
  }
  const letter = Object.assign(document.createElement("span"), { className: `letter ${styleOf(chart, index).name}` });
  letter.textContent = series.letter;
  element.title = series.name;
  element.append(letter, value);
  return element;
}

function spread(list, chart, shown, x) {
  const values = shown.map(({ series }) => valueAt(chart, series, x)).filter(Number.isFinite).sort((a, b) => a - b);
  const parts = [["min", values[0]], ["median", values[values.length >> 1]], ["max", values.at(-1)]];
  const where = x === null ? "latest" : `at ${position(chart, x)}`;
  list.dataset.signature = "spread";
  const text = parts.map(([name, value]) => `${name} ${number(value, chart.y.unit)}`).join(" · ");
  list.replaceChildren(Object.assign(document.createElement("li"), { className: "muted" }));
  const raw = chart.drawing.strength > 0 && shown.length > MOST_RAW ? ` · raw curves of up to ${MOST_RAW} runs` : "";
  list.firstChild.textContent = `${text} · ${values.length} runs ${where}${raw}`;
}

function list(figure, { chart, plot }, x, y) {
  let box = figure.querySelector(".at-cursor");
  const several = chart.series.filter((series) => !series.hidden).length > 1 && !chart.points;
  if (!box) plot.append((box = Object.assign(document.createElement("ul"), { className: "at-cursor" })));
  box.hidden = x === null || !several;
  if (box.hidden) return;
  const { xaxis, yaxis } = plot._fullLayout;
  const pointed = yaxis.p2c(y - yaxis._offset);
  const rows = chart.series.map((series, index) => ({ series, index, value: valueAt(chart, series, x) }))
    .filter(({ series, value }) => !series.hidden && Number.isFinite(value)).sort((a, b) => b.value - a.value);
  const nearestRow = rows.reduce((best, row) =>
    Math.abs(row.value - pointed) < Math.abs((best?.value ?? Infinity) - pointed) ? row : best, null);
  const middle = rows.indexOf(nearestRow);
  const first = Math.max(0, Math.min(middle - MOST_LISTED / 2, rows.length - MOST_LISTED));
  box.replaceChildren(...rows.slice(first, first + MOST_LISTED).map((row) => {
    const element = item(chart, row.series, row.index, false);
    element.lastChild.textContent = number(row.value, chart.y.unit);
    element.classList.toggle("nearest", row === nearestRow);
    return element;
  }));
  const rest = rows.length - Math.min(rows.length, MOST_LISTED);
  const foot = Object.assign(document.createElement("li"), { className: "muted" });
  foot.textContent = position(chart, x) + (rest ? ` · ${rest} more` : "");
  box.append(foot);
  const left = xaxis.c2p(places(chart, [x])[0] - (chart.x.kind === "time" ? ZONE_MS : 0)) + xaxis._offset;
  const onTheLeft = left > plot.clientWidth / 2;
  box.style.transform = `translate(${onTheLeft ? left - box.offsetWidth - 10 : left + 10}px, ${yaxis._offset}px)`;
}
