// What Plotly is given for a chart: its traces and its layout, in the page's colours, light and dark.
import { extent, number } from "./chart-data.js";
import { DASHES, MARKERS, colour, styleOf } from "./chart-style.js";

const MOST_BANDS = 8; // runs with a band each: more of them hide each other
const MOST_MARKED = 16;
const MOST_LETTERED = 26;
export const MOST_RAW = 26; // with the raw values behind the smoothed ones
const MOST_GAPS = 40; // of a series

export function unitOf(chart) {
  chart.unit ??= (() => {
    const longest = Math.max(0, ...chart.series.map((series) => series.x.at(-1) ?? 0));
    if (longest > 3 * 3600) return { seconds: 3600, name: "hours" };
    return longest > 300 ? { seconds: 60, name: "minutes" } : { seconds: 1, name: "seconds" };
  })();
  return chart.unit;
}

// A copy always: Plotly keeps the arrays it is given.
export function places(chart, xs) {
  return chart.x.kind === "elapsed" ? xs.map((x) => x / unitOf(chart).seconds) : [...xs];
}

// Forecast and outcome: a bar from low to y, and marks whose shape repeats what their colour says.
const OUTCOMES = { held: ["c1", "circle"], earlier: ["c3", "triangle-down"], later: ["c2", "triangle-up"] };
const WAITS = [1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400];

function bar(series) {
  const lengths = series.y.map((y, at) => (y ?? 0) - series.low[at]);
  return {
    type: "data", symmetric: false, array: series.y.map(() => 0), arrayminus: lengths,
    color: colour("c5", 0.55), thickness: 2, width: 0,
  };
}

// A line among points, such as equality.
function joined({ x, y, name, joined: dash }) {
  const line = { color: colour("muted"), width: 1.2, dash };
  return { x: [...x], y: [...y], name, mode: "lines", type: "scatter", hoverinfo: "skip", line };
}

function points(chart) {
  return chart.series.map((series) => {
    if (series.joined) return joined(series);
    const outcomes = series.came?.map((outcome) => OUTCOMES[outcome]);
    return {
      x: [...series.x], y: [...series.y], name: series.name, mode: "markers", type: "scatter",
      error_y: series.low && bar(series),
      marker: outcomes
        ? { color: outcomes.map(([name]) => colour(name)), symbol: outcomes.map(([, symbol]) => symbol), size: 7 }
        : { color: colour("c5"), symbol: "line-ew-open", size: 5, line: { width: 1.5 } },
    };
  });
}

const QUIET = { type: "scatter", hoverinfo: "skip", showlegend: false, connectgaps: true };

// The uid lets the list of runs find the lines of a run, see charts.js.
function line(chart, index, marked) {
  const series = chart.series[index];
  const { name, dash, marker } = styleOf(chart, index);
  return {
    ...QUIET, x: places(chart, series.x), y: series.y,
    mode: (marked && marker >= 0) || series.x.length < 2 ? "lines+markers" : "lines",
    uid: `line-${index}`, line: { color: colour(name), width: 1.8, dash: DASHES[dash] },
    marker: { color: colour(name), size: 6, symbol: MARKERS[marker], maxdisplayed: series.x.length > 1 ? 7 : 0 },
  };
}

function rawLine(chart, index) {
  const series = chart.series[index];
  return {
    ...QUIET, x: places(chart, series.x), y: series.raw, mode: "lines", uid: `raw-${index}`,
    line: { color: colour(styleOf(chart, index).name, 0.28), width: 1 },
  };
}

// One closed outline: two traces a band would double what Plotly carries.
function band(chart, index) {
  const { x, low, high } = chart.series[index];
  const known = x.map((_, at) => at).filter((at) => Number.isFinite(low[at]) && Number.isFinite(high[at]));
  const back = [...known].reverse();
  return {
    ...QUIET, mode: "none", fill: "toself", uid: `band-${index}`,
    x: places(chart, [...known, ...back].map((at) => x[at])),
    y: [...known.map((at) => high[at]), ...back.map((at) => low[at])],
    fillcolor: colour(styleOf(chart, index).name, 0.16),
  };
}

function hasBand({ low, high, band: always }) {
  return low && high && (always || low.some((value, at) => value !== high[at]));
}

function gaps(chart, index) {
  const { gaps: xs } = chart.series[index];
  const shown = places(chart, xs.slice(0, MOST_GAPS));
  return {
    ...QUIET, x: shown, y: shown.map(() => 0.03), yaxis: "y2", mode: "markers", uid: `gap-${index}`,
    marker: { color: colour(styleOf(chart, index).name), symbol: "x-thin-open", size: 9, line: { width: 2 } },
  };
}

function letters(chart, shown) {
  const ends = shown.filter((index) => chart.series[index].letter && chart.series[index].y.length);
  return {
    ...QUIET, mode: "text", textposition: "middle right", cliponaxis: false, uid: "letters",
    x: ends.flatMap((index) => places(chart, chart.series[index].x.slice(-1))),
    y: ends.map((index) => chart.series[index].y.at(-1)), text: ends.map((index) => chart.series[index].letter),
    textfont: { size: 10, color: ends.map((index) => colour(styleOf(chart, index).name)) },
  };
}

export function traces(chart) {
  if (chart.points) return points(chart);
  const shown = chart.series.map((_, index) => index).filter((index) => !chart.series[index].hidden);
  const banded = shown.filter((index) => hasBand(chart.series[index])
    && (shown.length <= MOST_BANDS || chart.series[index].band));
  const many = shown.length > MOST_LETTERED || shown.length < 2;
  return [
    ...banded.map((index) => band(chart, index)),
    ...(chart.drawing.strength > 0 && shown.length <= MOST_RAW ? shown.map((index) => rawLine(chart, index)) : []),
    ...shown.map((index) => line(chart, index, shown.length <= MOST_MARKED)),
    ...shown.filter((index) => chart.series[index].gaps?.length).map((index) => gaps(chart, index)),
    ...(many ? [] : [letters(chart, shown)]),
  ];
}

// Where the axes begin and end. y follows what x shows, unless the reader has zoomed it in this chart.
export function ranges(chart, zoomed, ownY = null) {
  const whole = chart.x.min === undefined ? null : [chart.x.min, chart.x.max];
  const fixed = chart.y.max === undefined || chart.y.max === null ? null : [chart.y.min ?? 0, chart.y.max];
  const x = zoomed ?? whole;
  const follows = zoomed || chart.drawing?.clip ? padded(chart, extent(chart, ...(zoomed ?? []))) : null;
  return { x: x && places(chart, x), y: ownY ?? fixed ?? follows };
}

function padded(chart, ends) {
  if (!ends) return null;
  const [low, high] = chart.y.log ? ends.map(Math.log10) : ends;
  const space = (high - low || Math.abs(high) || 1) * 0.05;
  return [low - space, high + space];
}

// Plotly labels the digits between two decades by one figure alone: 2 for 0.2 and 20.
function ticks({ ticks: places }) {
  return places ? { tickvals: places, ticktext: places.map((place) => number(place)) } : {};
}

// Between neighbouring steps or trials there is nothing to label.
function wholeTicks({ x, series }, range) {
  if (x.kind !== "step" && !x.whole) return {};
  const all = range ?? series.flatMap((one) => [one.x[0], one.x.at(-1)]).filter(Number.isFinite);
  return Math.max(...all) - Math.min(...all) < 6 ? { dtick: 1, tickformat: "d" } : {};
}

function xAxis(chart, range, muted) {
  const seconds = chart.x.kind === "elapsed" && unitOf(chart);
  const title = seconds ? `${seconds.name} since the start` : chart.x.kind === "time" ? "" : chart.x.title;
  const log = chart.x.log && chart.x.kind !== "time";
  return {
    ...(range ? { range: log ? range.map((end) => Math.log10(Math.max(end, 1e-9))) : range } : { autorange: true }),
    type: chart.x.kind === "time" ? "date" : log ? "log" : "linear", exponentformat: "SI", ...ticks(chart.x),
    ...(log ? {} : wholeTicks(chart, range)),
    title: { text: title, font: { size: 11, color: muted }, standoff: 6 },
  };
}

// Round places of the unit that the greatest value has: 0, 128, 256 MiB.
function byteTicks(chart, range) {
  const all = chart.series.flatMap(({ y, high }) => [...y, ...(high ?? [])]).filter(Number.isFinite);
  const lowest = all.reduce((a, b) => Math.min(a, b), Infinity);
  const [low, high] = range ?? [lowest, all.reduce((a, b) => Math.max(a, b), 1)];
  const step = 2 ** Math.ceil(Math.log2(Math.max((high - low) / 5, high / 512, 1)));
  const tickvals = [];
  for (let at = Math.floor(low / step) * step; at <= high + step / 2 && tickvals.length < 12; at += step) {
    tickvals.push(at);
  }
  return { tickvals, ticktext: tickvals.map((at) => number(at, chart.y.unit)) };
}

function yAxis(chart, range) {
  const isBytes = /^bytes/.test(chart.y.unit ?? "") && !chart.y.log;
  const all = chart.series.flatMap((series) => series.y);
  const small = all.every((y) => Math.abs(y ?? 0) < 0.01);
  const waits = { tickvals: WAITS, ticktext: WAITS.map((seconds) => number(seconds, "wait")) };
  const [low, high] = chart.y.log && all.length
    ? all.reduce(([a, b], y) => [Math.min(a, y ?? a), Math.max(b, y ?? b)], [Infinity, -Infinity]) : [0, 0];
  const narrow = chart.y.log && high < 30 * low;
  return {
    ...(range ? { range } : { autorange: true }),
    type: chart.y.log ? "log" : "linear",
    rangemode: chart.y.min === 0 || chart.y.unit === "share" ? "nonnegative" : "normal",
    fixedrange: Boolean(chart.points), ticksuffix: chart.y.unit === "%" ? " %" : "", exponentformat: small ? "e" : "SI",
    ...(narrow ? { dtick: "D2" } : {}), // 1, 2 and 5 are labelled, not each digit
    ...(chart.y.unit === "wait" ? waits : { nticks: 6 }), ...ticks(chart.y),
    ...(chart.y.unit === "share" ? { tickformat: ",.3~p" } : {}), ...(isBytes ? byteTicks(chart, range) : {}),
  };
}

function markLine(chart, mark, muted) {
  const [x] = places(chart, [mark.x]);
  return { type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: { color: muted, width: 1, dash: "dot" } };
}

function markText(chart, mark, text) {
  const [x] = places(chart, [mark.x]);
  const at = { x, y: 1, yref: "paper", yanchor: "top", xanchor: "left" };
  return { ...at, showarrow: false, text: mark.text, font: { size: 11, color: text } };
}

export function layout(chart, zoomed, ownY) {
  const [muted, rule, text] = [colour("muted"), colour("line"), colour("text")];
  const axis = {
    gridcolor: rule, linecolor: rule, zeroline: false, ticks: "",
    tickfont: { size: 11, color: muted }, automargin: true,
  };
  const { x, y } = ranges(chart, zoomed, ownY);
  const marks = chart.marks ?? [];
  const lettered = chart.series.some((series) => series.letter);
  return {
    margin: { l: 44, r: lettered ? 20 : 12, t: 10, b: 30 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: muted },
    showlegend: false, hovermode: false, dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    xaxis: { ...axis, ...xAxis(chart, x, muted) },
    yaxis: { ...axis, ...yAxis(chart, y) },
    yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
    shapes: marks.map((mark) => markLine(chart, mark, muted)),
    annotations: marks.map((mark) => markText(chart, mark, text)),
  };
}
