// How series are told apart, in both themes and without colours: colour, dash, marker and letter.
export const DASHES = ["solid", "9px,3px", "3px,3px", "12px,3px,3px,3px", "18px,4px", "6px,2px,2px,2px,2px,2px"];
const SVG_DASHES = ["", "9 3", "3 3", "12 3 3 3", "18 4", "6 2 2 2 2 2"];
export const MARKERS = ["circle", "square", "diamond", "triangle-up", "x", "triangle-down", "cross", "star"];
const SHAPES = [ // of the markers, around 13, 5
  "M10 5a3 3 0 1 0 6 0a3 3 0 1 0-6 0", "M10.4 2.4h5.2v5.2h-5.2z", "M13 1.4l3.6 3.6l-3.6 3.6l-3.6-3.6z",
  "M13 1.6l3.6 6h-7.2z", "M10.4 2.4l5.2 5.2m0-5.2l-5.2 5.2", "M13 8.4l3.6-6h-7.2z", "M13 1.4v7.2m-3.6-3.6h7.2",
  "M13 .8l1.2 2.9 3.1.2-2.4 2 .8 3.1-2.7-1.7-2.7 1.7.8-3.1-2.4-2 3.1-.2z",
];

// Plotly understands neither light-dark() nor oklch(): let the browser paint the colour and read the pixel.
const brush = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
  .getContext("2d", { willReadFrequently: true });
let painted = new Map();

export function forgetColours() {
  painted = new Map();
}

export function colour(name, alpha = 1) {
  if (!painted.has(name)) painted.set(name, pixel(name));
  const [red, green, blue] = painted.get(name);
  return `rgba(${red}, ${green}, ${blue}, ${alpha})`;
}

function pixel(name) {
  const probe = document.createElement("i");
  probe.hidden = true;
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  brush.clearRect(0, 0, 1, 1);
  brush.fillStyle = getComputedStyle(probe).color;
  brush.fillRect(0, 0, 1, 1);
  probe.remove();
  return brush.getImageData(0, 0, 1, 1).data;
}

// A run's style comes with it; other series are numbered.
export function styleOf(chart, index) {
  const { style, came, joined } = chart.series[index];
  if (joined) return { name: "muted", dash: joined === "dot" ? 2 : 0, marker: -1 };
  if (chart.points) return { name: came ? "c1" : "c5", dash: 0, marker: 0 };
  // Alone there is nothing to be told apart from: dashes would look like missing values.
  if (style && chart.series.length === 1) return { name: `run-${style.colour + 1}`, dash: 0, marker: -1 };
  if (style) return { name: `run-${style.colour + 1}`, dash: style.dash, marker: style.marker };
  const variant = (index + Math.floor(index / 5)) % 5;
  return { name: `c${(index % 5) + 1}`, dash: variant, marker: variant };
}

// Empty slots of a list get the line of their run.
export function fillSwatches(root) {
  for (const slot of root.querySelectorAll(".swatch-slot:empty")) {
    const { name, dash, marker } = slot.dataset;
    slot.append(swatch({ name, dash: Number(dash), marker: Number(marker) }));
  }
}

// As the list of runs and the legends show a series.
export function swatch({ name, dash, marker }) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 26 10");
  svg.setAttribute("class", `swatch ${name}`);
  svg.setAttribute("aria-hidden", "true");
  const line = `<line x1="0" x2="26" y1="5" y2="5" stroke-dasharray="${SVG_DASHES[dash]}"/>`;
  svg.innerHTML = `${line}<path d="${SHAPES[marker] ?? ""}"/>`;
  return svg;
}
