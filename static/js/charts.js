// Charts by Plotly: one style for all, light and dark, live growth, one cursor and one zoom for the charts of a page.
import { extent, gapped, grow, nearest, number, position, smooth, summary, table, tooLong } from "./chart-data.js";

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
const MARKERS = ["circle", "square", "diamond", "triangle-up", "x"];
const SVG_DASHES = ["", "6 3", "2 3", "6 3 2 3", "10 4"];
const REFETCH_GAP_MS = 5000;
const LATELY_MS = 60000; // longer than a block is on its way
const PAINT_GAP_MS = 500;
const PATIENCE = 4; // times what drawing took

const drawn = new Map(); // figure → {chart, source, plot}
const zooms = new Map(); // kind of x → [from, to] that the reader has zoomed to
const owed = new Map(); // figure → number of a series → points that are not drawn yet
const lately = new Map(); // subject → what was heard of it: a block asked for before that came does not have it
let [refetching, refetchedAt] = [0, -Infinity];
let [painting, paintedAt, paintTook] = [0, -Infinity, 0];

// Plotly understands neither light-dark() nor oklch(): let the browser paint the colour and read the pixel.
const brush = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
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

function style(chart, index) {
  if (chart.points) return { colour: chart.series[index].came ? "c1" : "c5", variant: 0 };
  return { colour: `c${(index % 5) + 1}`, variant: (index + Math.floor(index / 5)) % 5 };
}

// Plotly takes times as they are and shows them in the reader's zone; its axes then count from there.
const ZONE_MS = new Date().getTimezoneOffset() * 60000;
function places(chart, xs) {
  return chart.x.kind === "elapsed" ? xs.map((x) => x / unitOf(chart).seconds) : [...xs]; // ours grows by itself
}

function unitOf(chart) {
  chart.unit ??= (() => {
    const longest = Math.max(0, ...chart.series.map((series) => series.x.at(-1) ?? 0));
    if (longest > 3 * 3600) return { seconds: 3600, name: "hours" };
    return longest > 300 ? { seconds: 60, name: "minutes" } : { seconds: 1, name: "seconds" };
  })();
  return chart.unit;
}

// Told and come: a bar from low to y, and marks whose shape repeats what their colour says.
const CAME = { held: ["c1", "circle"], earlier: ["c3", "triangle-down"], later: ["c2", "triangle-up"] };
const WAITS = [1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400];

function points(chart) {
  return chart.series.map((series) => {
    const came = series.came?.map((one) => CAME[one]);
    const bar = series.low && { type: "data", symmetric: false, array: series.y.map(() => 0), arrayminus: series.y.map((y, at) => (y ?? 0) - series.low[at]) };
    return {
      x: [...series.x], y: [...series.y], name: series.name, mode: "markers", type: "scatter",
      error_y: bar ? { ...bar, color: colour("c5", 0.55), thickness: 2, width: 0 } : undefined,
      marker: came
        ? { color: came.map(([name]) => colour(name)), symbol: came.map(([, symbol]) => symbol), size: 7 }
        : { color: colour("c5"), symbol: "line-ew-open", size: 5, line: { width: 1.5 } },
    };
  });
}

// The raw values stand behind a smoothed line; without smoothing they are the line.
function behind(chart) {
  return chart.smooth > 0;
}

function traces(chart) {
  if (chart.points) return points(chart);
  const lines = chart.series.map((series, index) => {
    const { colour: name, variant } = style(chart, index);
    return {
      x: places(chart, series.x), y: [...series.y], name: series.name, mode: "lines+markers", type: "scatter",
      line: { color: colour(name), width: 1.8, dash: DASHES[variant] },
      marker: { color: colour(name), size: 5, symbol: MARKERS[variant], maxdisplayed: series.x.length > 1 ? 7 : 0 },
    };
  });
  const faint = chart.series.flatMap((series, index) => (behind(chart) ? [{
    x: places(chart, series.x), y: [...series.raw], mode: "lines", type: "scatter",
    line: { color: colour(style(chart, index).colour, 0.28), width: 1 },
  }] : []));
  return [...faint, ...lines];
}

// Where the axes begin and end. A zoom is of x alone: y follows what is then seen.
function ranges(chart) {
  const zoomed = zooms.get(chart.x.kind);
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

function layout(chart) {
  const [muted, line, text] = [colour("muted"), colour("line"), colour("text")];
  const axis = { gridcolor: line, linecolor: line, zeroline: false, tickfont: { size: 11, color: muted }, automargin: true, ticks: "" };
  const xTitle = chart.x.kind === "elapsed" ? unitOf(chart).name : chart.x.kind === "time" ? "" : chart.x.title;
  const shown = ranges(chart);
  const span = shown.x ? { range: shown.x } : { autorange: true };
  const small = chart.series.every((series) => series.y.every((y) => Math.abs(y ?? 0) < 0.01));
  const waits = chart.y.unit === "wait" ? { tickvals: WAITS, ticktext: WAITS.map((seconds) => number(seconds, "wait")) } : { nticks: 6 };
  const range = shown.y ? { range: shown.y } : { autorange: true };
  const values = chart.y.log ? chart.series.flatMap((series) => series.y) : [];
  const few = values.length && Math.max(...values) < 30 * Math.min(...values); // 1, 2 and 5 are labelled, not each digit
  return {
    margin: { l: 44, r: 12, t: 10, b: 30 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: muted },
    showlegend: false, hovermode: false, dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    xaxis: { ...axis, ...span, type: chart.x.kind === "time" ? "date" : "linear", showgrid: false, showticklabels: !chart.points, tickangle: 0, nticks: chart.x.kind === "time" ? 4 : 7, title: { text: xTitle, font: { size: 11, color: muted }, standoff: 6 }, exponentformat: "SI" },
    yaxis: { ...axis, ...range, type: chart.y.log ? "log" : "linear", rangemode: chart.y.min === 0 ? "nonnegative" : "normal", fixedrange: true, ticksuffix: chart.y.unit === "%" ? " %" : "", exponentformat: small ? "e" : "SI", ...(few ? { dtick: "D2" } : {}), ...waits },
    shapes: (chart.marks ?? []).map((mark) => ({ type: "line", x0: places(chart, [mark.x])[0], x1: places(chart, [mark.x])[0], yref: "paper", y0: 0, y1: 1, line: { color: muted, width: 1, dash: "dot" } })),
    annotations: (chart.marks ?? []).map((mark) => ({ x: places(chart, [mark.x])[0], y: 1, yref: "paper", yanchor: "top", xanchor: "left", showarrow: false, text: mark.text, font: { size: 11, color: text } })),
  };
}

function legend(figure, chart, x = null) {
  const list = figure.querySelector(".series-list");
  const told = x !== null || !chart.points; // points follow no course, so the last is no newer than the others
  const items = chart.series.map((series, index) => {
    const { colour: name, variant } = style(chart, index);
    const at = x === null ? series.x.length - 1 : nearest(series.x, x);
    const item = document.createElement("li");
    item.innerHTML = `<svg viewBox="0 0 26 10" aria-hidden="true"><line class="${name}" x1="0" x2="26" y1="5" y2="5" stroke-dasharray="${SVG_DASHES[variant]}"/></svg>`;
    const value = document.createElement("b");
    value.textContent = number(series.y[at], chart.y.unit);
    item.append(series.label ?? series.name, ...(told ? [value] : []));
    return series.label === "" ? null : item;
  }).filter(Boolean);
  const where = document.createElement("li");
  where.className = "muted";
  where.textContent = x === null ? "latest" : `at ${position(chart, x)}`;
  list.replaceChildren(...items, ...(chart.series.length && told ? [where] : []));
}

function draw(figure) {
  const text = figure.querySelector("script[type='application/json']")?.textContent;
  if (text === undefined) return drawFetched(figure);
  if (drawn.get(figure)?.source !== text) show(figure, JSON.parse(text), text);
}

// A figure that names an address is drawn when it comes into view; how it is smoothed is no reason to fetch again.
function drawFetched(figure) {
  const { url, weight, scale } = figure.dataset;
  const known = drawn.get(figure);
  if (known?.source !== url) return near.observe(figure);
  const { chart } = known;
  if (chart.smooth === Number(weight) && chart.y.log === (scale === "log")) return undefined;
  return show(figure, chart, url);
}

async function load(figure) {
  const { url } = figure.dataset;
  const empty = figure.querySelector(".chart-empty");
  try {
    const answer = await fetch(url, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const chart = await answer.json();
    if (figure.isConnected && figure.dataset.url === url) show(figure, chart, url);
  } catch (error) {
    if (drawn.has(figure)) return; // what is drawn stays; the next change asks again
    empty.textContent = `The values could not be loaded: ${error.message}. Reload the page to try again.`;
    empty.hidden = false;
  }
}

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    load(target);
  }
}, { rootMargin: "300px" });

function show(figure, chart, source) {
  chart.series ??= [];
  if (figure.dataset.scale) chart.y.log = figure.dataset.scale === "log";
  smooth(chart, Number(figure.dataset.weight ?? 0));
  for (const [subject, came] of lately) came.forEach(({ points }) => grow(chart, subject, points));
  const plot = figure.querySelector(".plot");
  const empty = chart.series.every((series) => series.x.length === 0);
  figure.querySelector(".chart-empty").hidden = !empty;
  plot.hidden = empty;
  figure.querySelector("details").hidden = empty;
  const first = !drawn.has(figure);
  drawn.set(figure, { chart, source, plot });
  owed.delete(figure);
  legend(figure, chart);
  if (empty) return;
  plot.setAttribute("aria-label", summary(chart, figure.dataset.title));
  window.Plotly.react(plot, traces(chart), layout(chart), { displayModeBar: false, responsive: false, doubleClick: "autosize" });
  if (first || !plot.dataset.wired) wire(figure, plot);
  fillTable(figure);
}

function wire(figure, plot) {
  plot.dataset.wired = "1";
  plot.addEventListener("pointermove", (event) => point(figure, event));
  plot.addEventListener("pointerleave", () => cursor(figure, null));
  plot.on("plotly_relayout", (change) => zoom(figure, change));
  new ResizeObserver(() => plot.offsetParent && window.Plotly.Plots.resize(plot)).observe(plot);
  figure.querySelector("details").addEventListener("toggle", () => fillTable(figure));
}

function fillTable(figure) {
  const details = figure.querySelector("details");
  if (details.open) details.querySelector("[data-table]").replaceChildren(table(drawn.get(figure).chart));
}

// One cursor: whatever chart the pointer is over, every chart with the same kind of x shows that place.

function point(figure, event) {
  const { plot, chart } = drawn.get(figure);
  const axis = plot._fullLayout?.xaxis;
  if (!axis) return;
  const pixel = event.clientX - plot.getBoundingClientRect().left - axis._offset;
  if (pixel < 0 || pixel > axis._length) return cursor(figure, null);
  const place = axis.p2c(pixel);
  cursor(figure, chart.x.kind === "time" ? place + ZONE_MS : chart.x.kind === "elapsed" ? place * unitOf(chart).seconds : place);
}

function cursor(from, x) {
  const kind = drawn.get(from).chart.x.kind;
  for (const [figure, { chart, plot }] of drawn) {
    if (chart.x.kind !== kind || plot.hidden || !figure.isConnected) continue;
    const axis = plot._fullLayout?.xaxis;
    let line = figure.querySelector(".cursor");
    if (!line) plot.append((line = Object.assign(document.createElement("div"), { className: "cursor" })));
    const left = x === null || !axis ? -1 : axis.c2p(places(chart, [x])[0] - (kind === "time" ? ZONE_MS : 0));
    legend(figure, chart, x);
    line.hidden = left < 0 || left > axis._length;
    if (line.hidden) continue;
    line.style.height = `${plot._fullLayout.yaxis._length}px`;
    line.style.transform = `translate(${axis._offset + left}px, ${plot._fullLayout.yaxis._offset}px)`;
  }
}

function zoom(from, change) {
  const { chart: source, plot: origin } = drawn.get(from);
  if (origin.dataset.following) return;
  const ends = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
  if (ends[0] === undefined && !change["xaxis.autorange"]) return;
  if (ends[0] === undefined) zooms.delete(source.x.kind);
  else zooms.set(source.x.kind, ends.map((end) => placeAt(source, origin, end)));
  for (const [figure, { chart, plot }] of drawn) {
    if (chart.x.kind === source.x.kind && !plot.hidden && figure.isConnected) follow(chart, plot);
  }
}

function placeAt(chart, plot, end) {
  const place = plot._fullLayout.xaxis.r2l(end);
  return chart.x.kind === "time" ? place + ZONE_MS : chart.x.kind === "elapsed" ? place * unitOf(chart).seconds : place;
}

function follow(chart, plot) {
  const { x, y } = ranges(chart);
  plot.dataset.following = "1";
  const axes = { "xaxis.autorange": !x, "yaxis.autorange": !y, ...(x ? { "xaxis.range": x } : {}), ...(y ? { "yaxis.range": y } : {}) };
  window.Plotly.relayout(plot, axes).finally(() => delete plot.dataset.following);
}

// Live growth

function heard({ detail: { subject, data } }) {
  if (!data.points?.length) return;
  remember(subject, data.points);
  const known = new Set([...document.querySelectorAll("[data-metric]")].map((element) => element.dataset.metric));
  for (const [figure, { chart, plot }] of drawn) {
    chart.series.filter((series) => series.subject === subject).forEach((series) => known.add(series.key));
    if (gapped(chart, subject, data.points)) {
      refetch();
      continue;
    }
    const grown = grow(chart, subject, data.points);
    if (!grown.size) continue;
    if (tooLong(chart) || plot.hidden) refetch();
    else owe(figure, grown);
  }
  const keys = data.points.flatMap((one) => Object.keys(one.values ?? {}));
  if (keys.some((key) => !known.has(key))) refetch();
}

function remember(subject, points) {
  const at = performance.now();
  const kept = (lately.get(subject) ?? []).filter((one) => at - one.at < LATELY_MS);
  lately.set(subject, [...kept, { at, points }]);
}

// Nothing else that a living page does costs as much as drawing. So what came meanwhile is drawn together, and a
// page that draws slowly draws less often: it must answer its reader between two points.
function owe(figure, grown) {
  const counts = owed.get(figure) ?? new Map();
  for (const [index, count] of grown) counts.set(index, (counts.get(index) ?? 0) + count);
  owed.set(figure, counts);
  const due = paintedAt + Math.max(PAINT_GAP_MS, PATIENCE * paintTook);
  painting ||= setTimeout(paint, Math.max(0, due - performance.now()));
}

function paint() {
  painting = 0;
  const begun = performance.now();
  for (const [figure, grown] of owed) if (figure.isConnected) extend(figure, drawn.get(figure), grown);
  owed.clear();
  paintedAt = performance.now();
  paintTook = paintedAt - begun;
}

function extend(figure, { chart, plot }, grown) {
  const before = chart.series.filter((series) => behind(chart)).length;
  let faint = -1;
  const update = { x: [], y: [], at: [] };
  chart.series.forEach((series, index) => {
    if (behind(chart)) faint += 1;
    const count = grown.get(index);
    if (!count) return;
    const x = places(chart, series.x.slice(-count));
    update.x.push(x), update.y.push(series.y.slice(-count)), update.at.push(before + index);
    if (behind(chart)) update.x.push(x), update.y.push(series.raw.slice(-count)), update.at.push(faint);
  });
  window.Plotly.extendTraces(plot, { x: update.x, y: update.y }, update.at);
  plot.setAttribute("aria-label", summary(chart, figure.dataset.title));
  legend(figure, chart);
  fillTable(figure);
}

// Put off, never left out: what asks for it may have been a run's last values.
function refetch() {
  refetching ||= setTimeout(() => {
    [refetching, refetchedAt] = [0, performance.now()];
    reload();
    document.dispatchEvent(new CustomEvent("trainmaster:new-series"));
  }, Math.max(0, refetchedAt + REFETCH_GAP_MS - performance.now()));
}

// A server that has nothing new says so in a few bytes.
function reload() {
  document.querySelectorAll("figure[data-url]").forEach((figure) => {
    near.unobserve(figure);
    near.observe(figure);
  });
}

function restyle() {
  owed.clear();
  for (const [figure, { chart, plot }] of drawn) {
    if (figure.isConnected && !plot.hidden) window.Plotly.react(plot, traces(chart), layout(chart));
  }
}

function look() {
  for (const figure of [...drawn.keys()]) {
    if (!figure.isConnected) {
      near.unobserve(figure);
      window.Plotly.purge(drawn.get(figure).plot);
      drawn.delete(figure);
    }
  }
  const figures = document.querySelectorAll("figure[data-chart]");
  if (figures.length && window.Plotly) figures.forEach(draw);
}

export function startCharts() {
  look();
  document.addEventListener("htmx:afterSettle", look);
  document.addEventListener("trainmaster:live", heard);
  document.addEventListener("trainmaster:catch-up", reload);
  document.addEventListener("trainmaster:theme", restyle);
}
