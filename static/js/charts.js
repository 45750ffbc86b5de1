// Charts by Plotly: live growth, one cursor and one zoom for the charts of a page. Plotly is large: it is loaded when
// the first chart comes into view. Legend and table do not need it.
import { gapped, grow, nearest, number, position, smooth, summary, table, tooLong } from "./chart-data.js";
import { hasRawLines, layout, places, ranges, style, traces, unitOf } from "./chart-layout.js";

const SVG_DASHES = ["", "6 3", "2 3", "6 3 2 3", "10 4"];
const REFETCH_GAP_MS = 5000;
const RECENT_MS = 60000; // longer than a block is on its way
const PAINT_GAP_MS = 500;
const PATIENCE = 4; // times what drawing took

const known = new Map(); // figure → {chart, source, plot, painted}
const zooms = new Map(); // kind of x → [from, to] that the reader has zoomed to
const pending = new Map(); // figure → number of a series → points that are not drawn yet
const recent = new Map(); // subject → its last points: a block asked for before they came does not have them
// Plotly takes times as they are and shows them in the reader's zone; its axes then count from there.
const ZONE_MS = new Date().getTimezoneOffset() * 60000;

let loading = null;

// Resolves to Plotly, or to null where it cannot be loaded.
function library() {
  loading ??= import("../plotly/plotly.min.js").then(() => window.Plotly, () => null);
  return loading;
}

let [refetching, refetchedAt] = [0, -Infinity];
let [painting, paintedAt, paintTook] = [0, -Infinity, 0];

function legend(figure, chart, x = null) {
  const list = figure.querySelector(".series-list");
  const hasValue = x !== null || !chart.points; // points follow no course: the last is no newer than the others
  const items = chart.series.map((series, index) => {
    const { colour: name, variant } = style(chart, index);
    const at = x === null ? series.x.length - 1 : nearest(series.x, x);
    const item = document.createElement("li");
    const line = `<line class="${name}" x1="0" x2="26" y1="5" y2="5" stroke-dasharray="${SVG_DASHES[variant]}"/>`;
    item.innerHTML = `<svg viewBox="0 0 26 10" aria-hidden="true">${line}</svg>`;
    const value = document.createElement("b");
    value.textContent = number(series.y[at], chart.y.unit);
    item.append(series.label ?? series.name, ...(hasValue ? [value] : []));
    return series.label === "" ? null : item;
  }).filter(Boolean);
  const where = document.createElement("li");
  where.className = "muted";
  where.textContent = x === null ? "latest" : `at ${position(chart, x)}`;
  list.replaceChildren(...items, ...(chart.series.length && hasValue ? [where] : []));
}

// Values in the page are read at once; those behind an address when the figure comes into view. How they are smoothed
// is no reason to fetch them again.
function draw(figure) {
  const text = figure.querySelector("script[type='application/json']")?.textContent;
  const { url, weight, scale } = figure.dataset;
  const entry = known.get(figure);
  if (text !== undefined) return entry?.source === text ? undefined : show(figure, JSON.parse(text), text);
  if (entry?.source !== url) return near.observe(figure);
  const same = entry.chart.smooth === Number(weight) && entry.chart.y.log === (scale === "log");
  return same ? undefined : show(figure, entry.chart, url);
}

async function load(figure) {
  const { url } = figure.dataset;
  try {
    const answer = await fetch(url, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const chart = await answer.json();
    if (figure.isConnected && figure.dataset.url === url) show(figure, chart, url);
  } catch (error) {
    if (known.has(figure)) return; // what is drawn stays; the next change asks again
    explain(figure, `The values could not be loaded: ${error.message}. Reload the page to try again.`);
  }
}

function explain(figure, sentence) {
  const empty = figure.querySelector(".chart-empty");
  empty.textContent = sentence;
  empty.hidden = false;
}

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    if (target.dataset.url) {
      library(); // on its way beside the values
      load(target);
    } else paint(target);
  }
}, { rootMargin: "100px" });

function show(figure, chart, source) {
  chart.series ??= [];
  if (figure.dataset.scale) chart.y.log = figure.dataset.scale === "log";
  smooth(chart, Number(figure.dataset.weight ?? 0));
  for (const [subject, messages] of recent) messages.forEach(({ points }) => grow(chart, subject, points));
  const plot = figure.querySelector(".plot");
  const empty = chart.series.every((series) => series.x.length === 0);
  figure.querySelector(".chart-empty").hidden = !empty;
  plot.hidden = empty;
  const details = figure.querySelector("details");
  details.hidden = empty;
  const before = known.get(figure);
  known.set(figure, { chart, source, plot, painted: before?.painted ?? false });
  pending.delete(figure);
  legend(figure, chart);
  if (!before) details.addEventListener("toggle", () => fillTable(figure));
  if (empty) return;
  fillTable(figure);
  if (before?.painted || figure.dataset.url) paint(figure);
  else near.observe(figure);
}

async function paint(figure) {
  const plotly = await library();
  const entry = known.get(figure);
  if (!entry || !figure.isConnected || entry.plot.hidden) return;
  const { chart, plot } = entry;
  if (!plotly) {
    explain(figure, "The chart could not be drawn: Plotly did not load. The table below holds the values.");
    return;
  }
  const options = { displayModeBar: false, responsive: false, doubleClick: "autosize" };
  pending.delete(figure);
  entry.painted = true;
  plotly.react(plot, traces(chart), layout(chart, zooms.get(chart.x.kind)), options);
  plot.setAttribute("aria-label", summary(chart, figure.dataset.title));
  if (!plot.dataset.wired) wire(figure, plot);
}

function wire(figure, plot) {
  plot.dataset.wired = "1";
  plot.addEventListener("pointermove", (event) => point(figure, event));
  plot.addEventListener("pointerleave", () => cursor(figure, null));
  plot.on("plotly_relayout", (change) => zoom(figure, change));
  new ResizeObserver(() => plot.offsetParent && window.Plotly.Plots.resize(plot)).observe(plot);
}

function fillTable(figure) {
  const details = figure.querySelector("details");
  if (details.open) details.querySelector("[data-table]").replaceChildren(table(known.get(figure).chart));
}

// One cursor: whatever chart the pointer is over, every chart with the same kind of x shows that place.

function point(figure, event) {
  const { plot, chart } = known.get(figure);
  const axis = plot._fullLayout?.xaxis;
  if (!axis) return;
  const pixel = event.clientX - plot.getBoundingClientRect().left - axis._offset;
  if (pixel < 0 || pixel > axis._length) return cursor(figure, null);
  const place = axis.p2c(pixel);
  cursor(figure, valueOf(chart, place));
}

function cursor(from, x) {
  const kind = known.get(from).chart.x.kind;
  for (const [figure, { chart, plot, painted }] of known) {
    if (chart.x.kind !== kind || plot.hidden || !painted || !figure.isConnected) continue;
    const axis = plot._fullLayout.xaxis;
    let line = figure.querySelector(".cursor");
    if (!line) plot.append((line = Object.assign(document.createElement("div"), { className: "cursor" })));
    const left = x === null ? -1 : axis.c2p(places(chart, [x])[0] - (kind === "time" ? ZONE_MS : 0));
    legend(figure, chart, x);
    line.hidden = left < 0 || left > axis._length;
    if (line.hidden) continue;
    line.style.height = `${plot._fullLayout.yaxis._length}px`;
    line.style.transform = `translate(${axis._offset + left}px, ${plot._fullLayout.yaxis._offset}px)`;
  }
}

function zoom(from, change) {
  const { chart: source, plot: origin } = known.get(from);
  if (origin.dataset.following) return;
  const ends = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
  if (ends[0] === undefined && !change["xaxis.autorange"]) return;
  if (ends[0] === undefined) zooms.delete(source.x.kind);
  else zooms.set(source.x.kind, ends.map((end) => valueOf(source, origin._fullLayout.xaxis.r2l(end))));
  for (const [figure, { chart, plot, painted }] of known) {
    if (chart.x.kind === source.x.kind && painted && !plot.hidden && figure.isConnected) follow(chart, plot);
  }
}

// Of a place on Plotly's axis.
function valueOf(chart, place) {
  if (chart.x.kind === "time") return place + ZONE_MS;
  return chart.x.kind === "elapsed" ? place * unitOf(chart).seconds : place;
}

function follow(chart, plot) {
  const { x, y } = ranges(chart, zooms.get(chart.x.kind));
  plot.dataset.following = "1";
  const axes = { "xaxis.autorange": !x, "yaxis.autorange": !y };
  if (x) axes["xaxis.range"] = x;
  if (y) axes["yaxis.range"] = y;
  window.Plotly.relayout(plot, axes).finally(() => delete plot.dataset.following);
}

// Live growth

function heard({ detail: { subject, data } }) {
  if (!data.points?.length) return;
  remember(subject, data.points);
  const metrics = new Set([...document.querySelectorAll("[data-metric]")].map((element) => element.dataset.metric));
  for (const [figure, { chart, plot, painted }] of known) {
    chart.series.filter((series) => series.subject === subject).forEach((series) => metrics.add(series.key));
    if (gapped(chart, subject, data.points)) {
      refetch();
      continue;
    }
    const grown = grow(chart, subject, data.points);
    if (!grown.size) continue;
    if (tooLong(chart) || plot.hidden) refetch();
    else if (painted) append(figure, grown);
  }
  const keys = data.points.flatMap((point) => Object.keys(point.values ?? {}));
  if (keys.some((key) => !metrics.has(key))) refetch();
}

function remember(subject, points) {
  const at = performance.now();
  const messages = (recent.get(subject) ?? []).filter((message) => at - message.at < RECENT_MS);
  recent.set(subject, [...messages, { at, points }]);
}

// Nothing else that a living page does costs as much as drawing. So what came meanwhile is drawn together, and a
// page that draws slowly draws less often: it must answer its reader between two points.
function append(figure, grown) {
  const counts = pending.get(figure) ?? new Map();
  for (const [index, count] of grown) counts.set(index, (counts.get(index) ?? 0) + count);
  pending.set(figure, counts);
  const due = paintedAt + Math.max(PAINT_GAP_MS, PATIENCE * paintTook);
  painting ||= setTimeout(paintPending, Math.max(0, due - performance.now()));
}

function paintPending() {
  painting = 0;
  const begun = performance.now();
  for (const [figure, grown] of pending) if (figure.isConnected) extend(figure, known.get(figure), grown);
  pending.clear();
  paintedAt = performance.now();
  paintTook = paintedAt - begun;
}

function extend(figure, { chart, plot }, grown) {
  const raw = hasRawLines(chart); // they come before the smoothed ones
  const update = { x: [], y: [], at: [] };
  for (const [index, count] of grown) {
    const series = chart.series[index];
    const x = places(chart, series.x.slice(-count));
    update.x.push(x), update.y.push(series.y.slice(-count)), update.at.push(raw ? chart.series.length + index : index);
    if (raw) update.x.push(x), update.y.push(series.raw.slice(-count)), update.at.push(index);
  }
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
  for (const [figure, { painted }] of known) if (painted) paint(figure);
}

function look() {
  for (const figure of [...known.keys()]) {
    if (!figure.isConnected) {
      near.unobserve(figure);
      if (known.get(figure).painted) window.Plotly.purge(known.get(figure).plot);
      known.delete(figure);
    }
  }
  document.querySelectorAll("figure[data-chart]").forEach(draw);
}

export function startCharts() {
  look();
  document.addEventListener("htmx:afterSettle", look);
  document.addEventListener("trainmaster:live", heard);
  document.addEventListener("trainmaster:catch-up", reload);
  document.addEventListener("trainmaster:theme", restyle);
}
