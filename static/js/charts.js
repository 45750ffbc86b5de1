// Charts by Plotly: live growth, one cursor and one zoom for the charts of a page. Plotly is large: it is loaded when
// the first chart comes into view. Legend and table do not need it. chart-data.js says what a chart is.
import { axisOf, csv, gapped, grow, prepare, summary, table, tooLong } from "./chart-data.js";
import { fetchChart } from "./chart-fetch.js";
import { layout, traces } from "./chart-layout.js";
import { fillSwatches, forgetColours } from "./chart-style.js";
import { leave, legend, pointAt, valueOf } from "./chart-cursor.js";
import { keepZooms, zooms } from "./chart-zoom.js";

const REFETCH_GAP_MS = 5000;
const REFINE_AFTER_MS = 200;
const RECENT_MS = 60000; // longer than a block is on its way
const PAINT_GAP_MS = 500;
const PATIENCE = 4; // times what drawing took

const known = new Map(); // figure → {chart, source, address, plot, painted, near, ownY}
const pending = new Set(); // figures with points that are not drawn yet
const recent = new Map(); // subject → its last points: a block asked for before they came does not have them
const askedFor = new Map(); // a metric that no chart here shows → when the page last asked for its charts because of it

let loading = null;

// Resolves to Plotly, or to null where it cannot be loaded.
function library() {
  loading ??= import("../plotly/plotly.min.js").then(() => window.Plotly, () => null);
  return loading;
}

let [refetching, refetchedAt] = [0, -Infinity];
let [painting, paintedAt, paintTook] = [0, -Infinity, 0];
let refining = 0;
let turn = Promise.resolve();
const waiting = new Set(); // figures whose drawing has changed
let redrawing = 0;

function addressOf(figure) {
  const { url, metric } = figure.dataset;
  const base = figure.closest("[data-curves]")?.dataset.curves;
  return url ?? (base && `${base}&key=${encodeURIComponent(metric)}`);
}

function drawingOf(figure) {
  const around = figure.closest("[data-drawing]");
  const { weight, scale } = figure.dataset;
  return around ? JSON.parse(around.dataset.drawing) : { strength: Number(weight ?? 0), ...(scale ? { scale } : {}) };
}

// Values in the page are read at once; those behind an address when the figure comes into view. How they are smoothed
// is no reason to fetch them again.
function draw(figure) {
  const text = figure.querySelector("script[type='application/json']")?.textContent;
  const entry = known.get(figure);
  if (text !== undefined) return entry?.source === text ? undefined : show(figure, JSON.parse(text), text);
  if (entry?.address !== addressOf(figure)) watch(figure);
}

function watch(figure) {
  near.unobserve(figure);
  near.observe(figure);
}

async function load(figure) {
  const address = addressOf(figure);
  try {
    const { chart, tag } = await fetchChart(address);
    if (!figure.isConnected || addressOf(figure) !== address) return;
    const entry = known.get(figure);
    if (entry?.source === tag && !entry.grown) return;
    show(figure, chart, tag, address);
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

// What came into view is loaded and drawn; what left it is drawn no further until it comes back.
const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    const entry = known.get(target);
    if (entry) entry.near = isIntersecting;
    if (!isIntersecting) continue;
    if (entry?.stale) repaint(target);
    if (!addressOf(target)) {
      if (!entry.painted) paint(target);
      continue;
    }
    library(); // on its way beside the values
    load(target);
  }
}, { rootMargin: "200px" });

function show(figure, chart, source, address) {
  const before = known.get(figure);
  chart.series ??= [];
  const plot = figure.querySelector(".plot");
  known.set(figure, { ...before, chart, source, address, plot, grown: false, near: before?.near ?? Boolean(address) });
  arrange(figure);
  for (const [subject, messages] of recent) messages.forEach(({ points }) => grow(chart, subject, points));
  if (recent.size) prepare(chart, chart.drawing);
  const empty = chart.series.every((series) => series.x.length === 0 && !series.gaps?.length);
  figure.querySelector(".chart-empty").hidden = !empty;
  plot.hidden = empty;
  const details = figure.querySelector("details");
  details.hidden = empty;
  pending.delete(figure);
  legend(figure, chart);
  if (!before) details.addEventListener("toggle", () => fillTable(figure));
  if (empty) return;
  fillTable(figure);
  if (before?.painted) paint(figure);
  else if (address) paintInTurn(figure);
  else near.observe(figure);
}

// One chart a task: a request brings several, and a reader who scrolls is heard between two of them. A chart that has
// left the window meanwhile is drawn when it comes back.
function paintInTurn(figure) {
  turn = turn.then(() => {
    const entry = known.get(figure);
    if (entry?.near) return paint(figure);
    if (entry) entry.stale = true;
  }).then(() => new Promise((resolve) => setTimeout(resolve)));
}

// What the page around the figure says about its drawing.
function arrange(figure) {
  const { chart } = known.get(figure);
  const drawing = drawingOf(figure);
  const hidden = new Set((figure.closest("[data-hidden]")?.dataset.hidden ?? "").split(" ").filter(Boolean));
  for (const series of chart.series) series.hidden = hidden.has(series.run);
  if (drawing.scale) chart.y.log = drawing.scale === "log";
  if (drawing.xscale) chart.x.log = drawing.xscale === "log";
  prepare(chart, drawing);
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
  Object.assign(entry, { painted: true, stale: false });
  plotly.react(plot, traces(chart), layout(chart, zooms.get(axisOf(chart)), entry.ownY), options);
  plot.setAttribute("aria-label", summary(chart, figure.dataset.title));
  if (!plot.dataset.wired) wire(figure, plot);
  if (chart.refinedTo !== zooms.get(axisOf(chart))) refineSoon();
  figure.dispatchEvent(new CustomEvent("trainmaster:painted", { bubbles: true }));
}

function wire(figure, plot) {
  plot.dataset.wired = "1";
  plot.addEventListener("pointermove", (event) => pointAt(known, figure, event));
  plot.addEventListener("pointerleave", () => leave(known, figure));
  plot.on("plotly_relayout", (change) => zoom(figure, change));
  new ResizeObserver(() => plot.offsetParent && window.Plotly.Plots.resize(plot)).observe(plot);
}

function fillTable(figure) {
  const details = figure.querySelector("details");
  if (details.open) details.querySelector("[data-table]").replaceChildren(table(known.get(figure).chart));
}

// A chart out of view is only marked: it is drawn when it comes back.
function repaint(figure) {
  const entry = known.get(figure);
  if (entry.address && !entry.near) {
    entry.stale = true;
    return;
  }
  arrange(figure);
  legend(figure, entry.chart);
  fillTable(figure);
  if (entry.painted || entry.stale) paint(figure);
}

function zoom(from, change) {
  const source = known.get(from);
  if (!source || source.plot.dataset.following) return;
  const ends = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
  const [low, high] = [change["yaxis.range[0]"], change["yaxis.range[1]"]];
  const reset = change["xaxis.autorange"] || change["yaxis.autorange"];
  if (low !== undefined) source.ownY = [low, high];
  if (reset) source.ownY = null;
  const axis = axisOf(source.chart);
  if (ends[0] === undefined && !reset) return;
  const { xaxis } = source.plot._fullLayout;
  if (reset) zooms.delete(axis);
  else zooms.set(axis, ends.map((end) => valueOf(source.chart, xaxis.l2c(xaxis.r2l(end)))));
  keepZooms();
  for (const entry of known.values()) {
    if (axisOf(entry.chart) !== axis || !entry.painted || entry.plot.hidden) continue;
    if (entry.near || !entry.address) follow(entry);
    else entry.stale = true;
  }
  refineSoon();
}

function follow({ chart, plot, ownY }) {
  const { xaxis, yaxis } = layout(chart, zooms.get(axisOf(chart)), ownY);
  plot.dataset.following = "1";
  const axes = { "xaxis.autorange": !xaxis.range, "yaxis.autorange": !yaxis.range };
  if (xaxis.range) axes["xaxis.range"] = xaxis.range;
  if (yaxis.range) axes["yaxis.range"] = yaxis.range;
  window.Plotly.relayout(plot, axes).finally(() => delete plot.dataset.following);
}

// A zoomed chart asks for finer columns of its window; what lies outside stays as coarse as it was.
function refineSoon() {
  clearTimeout(refining);
  refining = setTimeout(() => {
    for (const [figure, entry] of known) if (entry.near && entry.address && entry.painted) refine(figure, entry);
  }, REFINE_AFTER_MS);
}

async function refine(figure, entry) {
  const window = zooms.get(axisOf(entry.chart));
  const { chart } = entry;
  chart.refinedTo = window;
  if (!window) {
    if (!chart.series.some(({ fine }) => fine)) return;
    for (const series of chart.series) delete series.fine;
  } else {
    const coarse = chart.series.some(({ base, band }) => band || base.counts?.some((count, at) =>
      count > 1 && base.x[at] >= window[0] && base.x[at] <= window[1]));
    if (!coarse) return;
    const [from, to] = window;
    const answer = await fetchChart(`${entry.address}&from=${from}&to=${to}`).catch(() => null);
    if (!answer || known.get(figure)?.chart !== chart || zooms.get(axisOf(chart)) !== window) return;
    answer.chart.series.forEach((fine) => {
      const series = chart.series.find(({ run }) => run === fine.run);
      if (series) series.fine = fine;
    });
  }
  repaint(figure);
}

// Live growth

function heard({ detail: { subject, data } }) {
  if (!data.points?.length) return;
  remember(subject, data.points);
  const metrics = new Set([...document.querySelectorAll("[data-metric]")].map((element) => element.dataset.metric));
  for (const [figure, entry] of known) {
    const { chart } = entry;
    chart.series.filter((series) => series.subject === subject).forEach((series) => metrics.add(series.key));
    if (gapped(chart, subject, data.points)) {
      refetch();
      continue;
    }
    if (!grow(chart, subject, data.points)) continue;
    entry.grown = true;
    if (tooLong(chart) || entry.plot.hidden) refetch();
    else append(figure);
  }
  const keys = new Set(data.points.flatMap((point) => Object.keys(point.values ?? {})));
  if (isNews([...keys].filter((key) => !metrics.has(key)))) refetch();
}

// Most pages show some metrics of many: those of the machine come for as long as a job runs, and have no chart here.
function isNews(keys) {
  const at = performance.now();
  const news = keys.filter((key) => at - (askedFor.get(key) ?? -Infinity) > RECENT_MS);
  for (const key of news) askedFor.set(key, at);
  return news.length > 0;
}

function remember(subject, points) {
  const at = performance.now();
  const messages = (recent.get(subject) ?? []).filter((message) => at - message.at < RECENT_MS);
  recent.set(subject, [...messages, { at, points }]);
}

// Nothing else that a living page does costs as much as drawing. So what came meanwhile is drawn together, and a
// page that draws slowly draws less often: it must answer its reader between two points.
function append(figure) {
  pending.add(figure);
  const due = paintedAt + Math.max(PAINT_GAP_MS, PATIENCE * paintTook);
  painting ||= setTimeout(paintPending, Math.max(0, due - performance.now()));
}

function paintPending() {
  painting = 0;
  const begun = performance.now();
  for (const figure of [...pending]) if (figure.isConnected) repaint(figure);
  pending.clear();
  paintedAt = performance.now();
  paintTook = paintedAt - begun;
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
  document.querySelectorAll("figure[data-chart]").forEach((figure) => {
    if (addressOf(figure)) watch(figure);
  });
}

function restyle() {
  forgetColours();
  for (const [figure, { painted }] of known) if (painted) paint(figure);
}

function look() {
  fillSwatches(document);
  for (const [figure, { painted, plot }] of [...known]) {
    if (figure.isConnected) continue;
    near.unobserve(figure);
    if (painted) window.Plotly.purge(plot);
    known.delete(figure);
  }
  document.querySelectorAll("figure[data-chart]").forEach(draw);
}

// One chart after the other, so that a slider that moves on is heard between two of them.
function redraw() {
  look();
  for (const figure of known.keys()) waiting.add(figure);
  if (waiting.size && !redrawing) redrawing = setTimeout(redrawNext);
}

function redrawNext() {
  const [figure] = waiting;
  waiting.delete(figure);
  if (known.has(figure)) repaint(figure);
  redrawing = waiting.size ? setTimeout(redrawNext) : 0;
}

// The lines of one run stand out of the others; "" lets all stand equal.
export function highlight(run) {
  for (const { chart, plot, painted, near: inView } of known.values()) {
    if (!painted || !inView) continue;
    plot.classList.toggle("dimmed", Boolean(run));
    chart.series.forEach((series, index) => {
      for (const part of ["line", "raw", "band"]) {
        plot.querySelector(`.trace${part}-${index}`)?.classList.toggle("lit", series.run === run);
      }
    });
  }
}

export function csvOf(figure) {
  return csv(known.get(figure)?.chart ?? { x: {}, y: {}, series: [] });
}

export function imageOf(figure) {
  const { plot } = known.get(figure);
  const size = { width: Math.max(900, plot.clientWidth), height: Math.max(500, plot.clientHeight) };
  return window.Plotly.toImage(plot, { format: "png", scale: 2, ...size });
}

export function startCharts() {
  look();
  document.addEventListener("htmx:afterSettle", look);
  document.addEventListener("trainmaster:live", heard);
  document.addEventListener("trainmaster:catch-up", reload);
  document.addEventListener("trainmaster:theme", restyle);
  document.addEventListener("trainmaster:redraw", redraw);
}
