// What a chart holds, apart from its drawing: series, their live growth, nearest values, and the table behind it.
//
// The contract. A chart is a figure (templates/parts/chart.html) and gets its values in one of three ways:
//   <figure data-chart id data-title> with a script of type application/json inside: the values are in the page
//   <figure data-chart … data-url="/experiments/curves/?runs=A,B&key=train/loss&x=step">: fetched when it is in view
//   (with data-weight and data-scale, where no data-drawing is around it)
//   <figure data-chart … data-metric="train/loss"> in an element with data-curves, the address without a key
// Requests that differ only in their key are sent as one; the answer is { charts: [chart, …] }, each with its
// key. There
// the x and counts of a series may be the number of an earlier series of the chart that has the same.
// An element around the figures may have
//   data-drawing   JSON of { kind: "exponential" | "gaussian" | "average", strength, scale: "linear" | "log",
//                  xscale: the same, clip: percent of the values that lie outside at either end }; strength to 0.99
//   data-hidden    ids of runs that are not drawn, separated by spaces;  data-legend="values": a legend without names
// Who changes one of them dispatches "trainmaster:redraw" on the document.
//
// A chart:
//   { key, x: {kind: "step" | "elapsed" | "time" | "value", title, key}, y: {title, unit, log, min, max},
//     series: [{name, letter, run, style: {colour, dash, marker}, key, subject, origin_ms, band,
//               x: [..], y: [..], low: [..], high: [..], counts: [..], gaps: [..], last}], marks: [{x, text}] }
// x is a step, seconds since the run began ("elapsed"), milliseconds since 1970 ("time") or another metric ("value",
// named by x.key). `key` and `subject` let live points find their series. Of a sampled series, y is the mean of
// `counts` reported points between `low` and `high`, and `last` the newest point; `gaps` are the x of values that are
// not finite. `band`: low and high are always drawn (seeds). `label` is the name in the legend where it differs; ""
// is none. y.unit "wait" is seconds, shown as a duration. With `points: true` no line joins the values: a series with
// `low` is a bar from low to y at each x, one with `came` has a mark in the shape of "held", "earlier" or "later",
// one with `joined` is a line of that dash ("solid", "dot"). An axis with `ticks` is labelled at these values.
import { clock, duration } from "./time.js";
import { smoothed } from "./chart-smooth.js";

export const MOST_POINTS = 4000;
const COLUMNS = ["x", "y", "low", "high", "counts"];

function binary(value) {
  const power = value ? Math.min(5, Math.max(0, Math.floor(Math.log2(Math.abs(value)) / 10))) : 0;
  const text = Number((value / 1024 ** power).toPrecision(4)).toLocaleString("en");
  return `${text} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][power]}`;
}

export function number(value, unit = "") {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (unit === "wait") return value <= 1 ? "at once" : duration(value * 1000);
  if (unit === "share") return `${Number((100 * value).toPrecision(4))} %`;
  if (unit === "bytes" || unit === "bytes/s") return binary(value) + unit.slice(5);
  const size = Math.abs(value);
  const text = Number.isInteger(value) || size >= 1000
    ? Math.round(value).toLocaleString("en")
    : size >= 0.001 || size === 0 ? String(Number(value.toPrecision(4))) : value.toExponential(2);
  return unit ? `${text} ${unit}` : text;
}

export function position(chart, x) {
  if (chart.x.kind === "time") return clock(x);
  if (chart.x.kind === "elapsed") return duration(x * 1000);
  const place = chart.x.kind === "value" ? Number(x.toPrecision(4)) : Math.round(x);
  return `${chart.x.title || "step"} ${number(place)}`;
}

// The newest value of a series: of a sampled one as it was reported, of a smoothed one as it is drawn.
export function newest(chart, series) {
  const reported = chart.x.kind !== "value" && !chart.drawing?.strength;
  return reported ? series.last ?? series.y.at(-1) : series.y.at(-1);
}

export function nearest(xs, x) {
  let [low, high] = [0, xs.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle;
    else high = middle;
  }
  return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
}

// Which charts share a cursor and a zoom.
export function axisOf(chart) {
  return chart.x.kind === "value" ? `value ${chart.x.key}` : chart.x.kind;
}

function placeOf(chart, series, point) {
  if (chart.x.kind === "step") return point.step;
  if (chart.x.kind === "value") return point.values?.[chart.x.key];
  return chart.x.kind === "time" ? point.at_ms : (point.at_ms - (series.origin_ms ?? point.at_ms)) / 1000;
}

// From what came (`base`, and `fine` for a window that was zoomed to) to what is drawn: x, `raw` as it was reported and
// `y` smoothed, at the same x.
export function prepare(chart, drawing = {}) {
  chart.drawing = { kind: "exponential", strength: 0, clip: 0, ...drawing };
  for (const series of chart.series) {
    series.base ??= Object.fromEntries(COLUMNS.filter((name) => series[name]).map((name) => [name, series[name]]));
    Object.assign(series, composed(series.base, series.fine));
  }
  const ends = chart.series.filter((series) => series.x.length).flatMap(({ base }) => [base.x[0], base.x.at(-1)]);
  const span = ends.length ? Math.max(...ends) - Math.min(...ends) : 0;
  for (const series of chart.series) {
    series.raw = series.y;
    if (!chart.points) series.y = smoothed(chart.drawing, series.x, series.raw, series.counts, span);
  }
  return chart;
}

function composed(base, fine) {
  if (!fine?.x.length) return Object.fromEntries(Object.entries(base).map(([name, values]) => [name, [...values]]));
  const before = base.x.findIndex((x) => x >= fine.x[0]);
  const after = base.x.findIndex((x) => x > fine.x.at(-1));
  return Object.fromEntries(Object.keys(base).map((name) => [name, [
    ...base[name].slice(0, before < 0 ? base.x.length : before),
    ...(fine[name] ?? fine.y),
    ...(after < 0 ? [] : base[name].slice(after)),
  ]]));
}

// Appends live points to the series they belong to; returns how many came. Seeds are joined by the server alone.
export function grow(chart, subject, points) {
  let grown = 0;
  for (const series of chart.series) {
    if (series.subject !== subject || series.band) continue;
    const { base } = series;
    for (const point of points) {
      const value = point.values?.[series.key];
      const x = placeOf(chart, series, point);
      if (!Number.isFinite(value) || x === undefined || (base.x.length && x <= base.x.at(-1))) continue;
      for (const name of Object.keys(base)) base[name].push(name === "x" ? x : name === "counts" ? 1 : value);
      series.last = value;
      grown += 1;
    }
  }
  return grown;
}

// The lowest and the highest value drawn between two places, lines that cross the edges included; null without any.
// With `clip`, that percentage of the values at either end is left out.
export function extent(chart, from = -Infinity, to = Infinity) {
  const { strength = 0, clip = 0 } = chart.drawing ?? {};
  const values = [];
  const take = (value) => {
    if (Number.isFinite(value) && !(chart.y.log && value <= 0)) values.push(value);
  };
  for (const { x, y, raw, hidden } of chart.series) {
    if (hidden) continue;
    for (const drawn of strength && raw ? [y, raw] : [y]) {
      x.forEach((place, at) => {
        if (place >= from && place <= to) take(drawn[at]);
        for (const edge of [from, to]) {
          if (at && x[at - 1] < edge && place > edge) {
            take(drawn[at - 1] + ((drawn[at] - drawn[at - 1]) * (edge - x[at - 1])) / (place - x[at - 1]));
          }
        }
      });
    }
  }
  if (!values.length) return null;
  values.sort((a, b) => a - b);
  const out = Math.floor((values.length * clip) / 100);
  return [values[Math.min(out, values.length - 1)], values[Math.max(values.length - 1 - out, 0)]];
}

// Points that came before the page listened are missing: then the new ones do not follow on the last known.
export function gapped(chart, subject, points) {
  return chart.series.some((series) => {
    const next = points.find((point) => point.values?.[series.key] !== undefined);
    if (series.subject !== subject || !next || series.base.x.length < 3) return false;
    const { x } = series.base;
    return placeOf(chart, series, next) - x.at(-1) > 3 * ((x.at(-1) - x[0]) / (x.length - 1));
  });
}

export function tooLong(chart) {
  return chart.series.some((series) => series.base.x.length > MOST_POINTS);
}

export function summary(chart, title) {
  const parts = chart.series.filter((series) => series.y.length && !series.hidden).map((series) =>
    `${series.name} from ${number(series.y[0], chart.y.unit)} to ${number(newest(chart, series), chart.y.unit)}`);
  const rest = parts.length > 8 ? ` and ${parts.length - 8} more` : "";
  return `${title}: ${parts.slice(0, 8).join("; ")}${rest}. The table below holds the values.`;
}

// At most this many rows: a table is for reading, the store keeps the rest.
const ROWS = 200;

export function table(chart) {
  const series = chart.series.filter(({ hidden }) => !hidden);
  const places = [...new Set(series.flatMap(({ x }) => x))].sort((a, b) => a - b);
  const every = Math.max(1, Math.ceil(places.length / ROWS));
  const shown = places.filter((_, index) => index % every === 0 || index === places.length - 1).reverse();
  const element = document.createElement("table");
  const head = element.createTHead().insertRow();
  for (const [index, name] of [chart.x.title || chart.x.kind, ...series.map((line) => line.name)].entries()) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name;
    if (index) cell.className = "n";
    head.append(cell);
  }
  const maps = series.map(({ x, y }) => new Map(x.map((place, index) => [place, y[index]])));
  const body = element.createTBody();
  for (const x of shown) {
    const row = body.insertRow();
    row.insertCell().textContent = chart.x.kind === "step" ? number(x) : position(chart, x);
    for (const values of maps) {
      const cell = row.insertCell();
      cell.className = "n";
      cell.textContent = values.has(x) ? number(values.get(x), chart.y.unit) : "";
    }
  }
  return element;
}

// Every point that is drawn, a line each.
export function csv(chart) {
  const quoted = (text) => `"${String(text).replaceAll('"', '""')}"`;
  const lines = [`run,name,${quoted(chart.x.title || chart.x.kind)},${quoted(chart.y.title)},smoothed,low,high,points`];
  for (const { run, name, x, raw, y, low, high, counts, hidden } of chart.series) {
    if (hidden) continue;
    x.forEach((place, at) => {
      const values = [raw, y, low, high].map((column) => column?.[at] ?? "");
      lines.push([quoted(run ?? ""), quoted(name), place, ...values, counts?.[at] ?? 1].join(","));
    });
  }
  return `${lines.join("\n")}\n`;
}
