// What Plotly is given for a chart: its traces and its layout, in the page's colours, light and dark.
import { extent, number } from "./chart-data.js";

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
const MARKERS = ["circle", "square", "diamond", "triangle-up", "x"];

// Plotly understands neither light-dark() nor oklch(): let the browser paint the colour and read the pixel.
const brush = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
  .getContext("2d", { willReadFrequently: true });

function colour(name, alpha = 1) {
  const probe = document.createElement("i");
  probe.hidden = true;
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  brush.clearRect(0, 0, 1, 1);
  brush.fillStyle = getComputedStyle(probe).color;
  brush.fillRect(0, 0, 1, 1);
  probe.remove();
  const [red, green, blue] = brush.getImageData(0, 0, 1, 1).data;
  return `rgba(${red}, ${green}, ${blue}, ${alpha})`;
}

export function style(chart, index) {
  if (chart.points) return { colour: chart.series[index].came ? "c1" : "c5", variant: 0 };
  return { colour: `c${(index % 5) + 1}`, variant: (index + Math.floor(index / 5)) % 5 };
}

export function unitOf(chart) {
  chart.unit ??= (() => {
    const longest = Math.max(0, ...chart.series.map((series) => series.x.at(-1) ?? 0));
    if (longest > 3 * 3600) return { seconds: 3600, name: "hours" };
    return longest > 300 ? { seconds: 60, name: "minutes" } : { seconds: 1, name: "seconds" };
  })();
  return chart.unit;
}

// A copy always: Plotly appends to the arrays it is given.
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

function points(chart) {
  return chart.series.map((series) => {
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

// The raw values stand behind a smoothed line; without smoothing they are the line.
export function hasRawLines(chart) {
  return chart.smooth > 0;
}

function line(chart, series, index) {
  const { colour: name, variant } = style(chart, index);
  return {
    x: places(chart, series.x), y: [...series.y], name: series.name, mode: "lines+markers", type: "scatter",
    line: { color: colour(name), width: 1.8, dash: DASHES[variant] },
    marker: {
      color: colour(name), size: 5, symbol: MARKERS[variant], maxdisplayed: series.x.length > 1 ? 7 : 0,
    },
  };
}

function rawLine(chart, series, index) {
  return {
    x: places(chart, series.x), y: [...series.raw], mode: "lines", type: "scatter",
    line: { color: colour(style(chart, index).colour, 0.28), width: 1 },
  };
}

export function traces(chart) {
  if (chart.points) return points(chart);
  const raw = hasRawLines(chart) ? chart.series.map((series, index) => rawLine(chart, series, index)) : [];
  return [...raw, ...chart.series.map((series, index) => line(chart, series, index))];
}

// Where the axes begin and end. A zoom is of x alone: y follows what is then seen.
export function ranges(chart, zoomed) {
  const whole = chart.x.min === undefined ? null : [chart.x.min, chart.x.max];
  const fixed = chart.y.max === undefined || chart.y.max === null ? null : [chart.y.min ?? 0, chart.y.max];
  const x = zoomed ?? whole;
  return { x: x && places(chart, x), y: fixed ?? (zoomed ? padded(chart, extent(chart, ...zoomed)) : null) };
}

function padded(chart, ends) {
  if (!ends) return null;
  const [low, high] = chart.y.log ? ends.map(Math.log10) : ends;
  const space = (high - low || Math.abs(high) || 1) * 0.05;
  return [low - space, high + space];
}

function xAxis(chart, range, muted) {
  const title = { elapsed: () => unitOf(chart).name, time: () => "" }[chart.x.kind]?.() ?? chart.x.title;
  return {
    ...(range ? { range } : { autorange: true }),
    type: chart.x.kind === "time" ? "date" : "linear", nticks: chart.x.kind === "time" ? 4 : 7,
    showgrid: false, showticklabels: !chart.points, tickangle: 0, exponentformat: "SI",
    title: { text: title, font: { size: 11, color: muted }, standoff: 6 },
  };
}

function yAxis(chart, range) {
  const small = chart.series.every((series) => series.y.every((y) => Math.abs(y ?? 0) < 0.01));
  const waits = { tickvals: WAITS, ticktext: WAITS.map((seconds) => number(seconds, "wait")) };
  const values = chart.y.log ? chart.series.flatMap((series) => series.y) : [];
  const narrow = values.length && Math.max(...values) < 30 * Math.min(...values);
  return {
    ...(range ? { range } : { autorange: true }),
    type: chart.y.log ? "log" : "linear", rangemode: chart.y.min === 0 ? "nonnegative" : "normal",
    fixedrange: true, ticksuffix: chart.y.unit === "%" ? " %" : "", exponentformat: small ? "e" : "SI",
    ...(narrow ? { dtick: "D2" } : {}), // 1, 2 and 5 are labelled, not each digit
    ...(chart.y.unit === "wait" ? waits : { nticks: 6 }),
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

export function layout(chart, zoomed) {
  const [muted, rule, text] = [colour("muted"), colour("line"), colour("text")];
  const axis = {
    gridcolor: rule, linecolor: rule, zeroline: false, ticks: "",
    tickfont: { size: 11, color: muted }, automargin: true,
  };
  const { x, y } = ranges(chart, zoomed);
  const marks = chart.marks ?? [];
  return {
    margin: { l: 44, r: 12, t: 10, b: 30 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: muted },
    showlegend: false, hovermode: false, dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    xaxis: { ...axis, ...xAxis(chart, x, muted) },
    yaxis: { ...axis, ...yAxis(chart, y) },
    shapes: marks.map((mark) => markLine(chart, mark, muted)),
    annotations: marks.map((mark) => markText(chart, mark, text)),
  };
}
