// What a chart holds, apart from its drawing: series, their live growth, nearest values, and the table behind it.
//
// It comes as JSON, in the page or from the address that the figure names:
//   { x: {kind: "step" | "time" | "elapsed", title}, y: {title, unit, log, min, max},
//     series: [{name, key, subject, origin_ms, x: [..], y: [..], means: [..], counts: [..]}], marks: [{x, text}] }
// x is a step, milliseconds since 1970 ("time") or seconds since the run began ("elapsed"). `key` and `subject` let
// live points find their series. A sampled series has for each of its points the mean and the number of the reported
// points that it stands for. `label` is its name in the legend, where it differs; "" is none. y.unit "wait" is seconds,
// shown as a duration. With `points: true` no line joins the values: a series with `low` is a bar from low to y at each
// x, one with `came` has a mark in the shape of "held", "earlier" or "later".
import { clock, duration } from "./time.js";

export const MOST_POINTS = 4000;

export function number(value, unit = "") {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (unit === "wait") return value <= 1 ? "at once" : duration(value * 1000);
  const size = Math.abs(value);
  const text = Number.isInteger(value) || size >= 1000
    ? Math.round(value).toLocaleString("en")
    : size >= 0.001 || size === 0 ? String(Number(value.toPrecision(4))) : value.toExponential(2);
  return unit ? `${text} ${unit}` : text;
}

export function position(chart, x) {
  if (chart.x.kind === "time") return clock(x);
  if (chart.x.kind === "elapsed") return duration(x * 1000);
  return `${chart.x.title || "step"} ${number(Math.round(x))}`;
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

function placeOf(chart, series, point) {
  if (chart.x.kind === "step") return point.step;
  return chart.x.kind === "time" ? point.at_ms : (point.at_ms - (series.origin_ms ?? point.at_ms)) / 1000;
}

// The rule of platform_core.experiments.series.smooth, one value at a time: a moving average with bias correction, in
// which the mean of `count` reported points counts as that many.
function smoothed(state, value, weight, count) {
  if (!Number.isFinite(value)) return value;
  const kept = weight ** count;
  state.average = kept * state.average + (1 - kept) * value;
  state.correction *= kept;
  return state.average / (1 - state.correction);
}

// What is drawn: `y` smoothed by the weight, and `raw` as it was reported, at the same x.
export function smooth(chart, weight) {
  chart.smooth = weight;
  for (const series of chart.series) {
    series.raw ??= series.y;
    const [means, state] = [series.means ?? series.raw, { average: 0, correction: 1 }];
    series.y = weight
      ? means.map((mean, at) => smoothed(state, mean, weight, series.counts?.[at] ?? 1))
      : [...series.raw];
    series.state = state;
  }
  return chart;
}

// Appends live points to the series they belong to; returns the grown series' numbers and how much each grew.
export function grow(chart, subject, points) {
  const grown = new Map();
  chart.series.forEach((series, index) => {
    if (series.subject !== subject) return;
    for (const point of points) {
      const value = point.values?.[series.key];
      const x = placeOf(chart, series, point);
      if (value === undefined || value === null || (series.x.length && x <= series.x.at(-1))) continue;
      series.x.push(x);
      series.raw.push(value);
      series.means?.push(value);
      series.counts?.push(1);
      series.y.push(chart.smooth ? smoothed(series.state, value, chart.smooth, 1) : value);
      grown.set(index, (grown.get(index) ?? 0) + 1);
    }
  });
  return grown;
}

// The lowest and the highest value drawn between two places, lines that cross the edges included; null without any.
export function extent(chart, from, to) {
  let [low, high] = [Infinity, -Infinity];
  const take = (value) => {
    if (!Number.isFinite(value) || (chart.y.log && value <= 0)) return;
    [low, high] = [Math.min(low, value), Math.max(high, value)];
  };
  for (const { x, y, raw } of chart.series) {
    for (const values of chart.smooth ? [y, raw] : [y]) {
      x.forEach((place, at) => {
        if (place >= from && place <= to) take(values[at]);
        for (const edge of [from, to]) {
          if (at && x[at - 1] < edge && place > edge) {
            take(values[at - 1] + ((values[at] - values[at - 1]) * (edge - x[at - 1])) / (place - x[at - 1]));
          }
        }
      });
    }
  }
  return low > high ? null : [low, high];
}

// Points that came before the page listened are missing: then the new ones do not follow on the last known.
export function gapped(chart, subject, points) {
  return chart.series.some((series) => {
    const next = points.find((point) => point.values?.[series.key] !== undefined);
    if (series.subject !== subject || !next || series.x.length < 3) return false;
    const usual = (series.x.at(-1) - series.x[0]) / (series.x.length - 1);
    return placeOf(chart, series, next) - series.x.at(-1) > 3 * usual;
  });
}

export function tooLong(chart) {
  return chart.series.some((series) => series.x.length > MOST_POINTS);
}

export function summary(chart, title) {
  const parts = chart.series.filter((series) => series.y.length).map((series) =>
    `${series.name} from ${number(series.y[0], chart.y.unit)} to ${number(series.y.at(-1), chart.y.unit)}`);
  return `${title}: ${parts.join("; ")}. The table below holds the values.`;
}

// At most this many rows: a table is for reading, the store keeps the rest.
const ROWS = 200;

export function table(chart) {
  const places = [...new Set(chart.series.flatMap((series) => series.x))].sort((a, b) => a - b);
  const every = Math.max(1, Math.ceil(places.length / ROWS));
  const shown = places.filter((_, index) => index % every === 0 || index === places.length - 1).reverse();
  const element = document.createElement("table");
  const head = element.createTHead().insertRow();
  for (const [index, name] of [chart.x.title || chart.x.kind, ...chart.series.map((series) => series.name)].entries()) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name;
    if (index) cell.className = "n";
    head.append(cell);
  }
  const maps = chart.series.map((series) => new Map(series.x.map((x, index) => [x, series.y[index]])));
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
