// Drawing of recording.js: a ruler, the curve of memory, and lanes of bars in the colours of the page.
const [ROW, HEAD, RULER] = [16, 16, 22];
const HUES = ["--run-1", "--run-2", "--run-3", "--run-4", "--run-8", "--run-6", "--run-11", "--run-9"];

export function laneHeight({ depth }) {
  return HEAD + depth * ROW + 6;
}

export function lanesHeight(lanes) {
  return lanes.reduce((sum, lane) => sum + laneHeight(lane), 0);
}

export function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let [value, unit] = [size, 0];
  while (Math.abs(value) >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${Number(value.toPrecision(4)).toLocaleString("en")} ${units[unit]}`;
}

function amount(value, unit) {
  if (unit === "samples") return `${Math.round(value).toLocaleString("en")} samples`;
  if (!value) return "0";
  const [shown, word] = value >= 1e6 ? [value / 1e6, "s"] : value >= 1000 ? [value / 1000, "ms"] : [value, "µs"];
  return `${Number(shown.toPrecision(word === "µs" ? 3 : 4)).toLocaleString("en")} ${word}`;
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  // light-dark() is resolved only in a property that is used as a colour.
  const probe = document.body.appendChild(document.createElement("span"));
  const read = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const found = {
    hues: HUES.map(read), font: style.getPropertyValue("--font"), text: read("--text"), muted: read("--muted"),
    line: read("--line"), surface: read("--surface"), accent: read("--accent"),
  };
  probe.remove();
  return found;
}

function hue(name, hues) {
  let hash = 0;
  for (const letter of name) hash = (hash * 31 + letter.charCodeAt(0)) | 0;
  return hues[Math.abs(hash) % hues.length];
}

export function drawLanes(canvas, view) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.width / ratio, canvas.height / ratio];
  const pen = canvas.getContext("2d");
  const colour = colours();
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = `11px ${colour.font}`;
  pen.textBaseline = "middle";
  const x = (value) => ((value - view.from) / (view.to - view.from)) * width;
  ruler(pen, view, width, height, colour);
  let top = RULER;
  if (view.memory) {
    memory(pen, view, x, top, width, colour);
    top += view.memory;
  }
  for (const lane of view.data.lanes) {
    pen.fillStyle = colour.muted;
    pen.fillText(lane.name, 4, top + HEAD / 2, width - 8);
    bars(pen, lane, view, x, top + HEAD, width, colour);
    top += laneHeight(lane);
  }
}

function ruler(pen, view, width, height, colour) {
  pen.strokeStyle = colour.line;
  pen.fillStyle = colour.muted;
  const marks = Math.max(2, Math.floor(width / 140));
  for (let mark = 0; mark < marks; mark += 1) {
    const at = Math.round((mark * width) / marks) + 0.5;
    pen.beginPath();
    pen.moveTo(at, RULER - 6);
    pen.lineTo(at, height);
    pen.stroke();
    const value = view.from - view.data.from + (mark / marks) * (view.to - view.from);
    pen.fillText(amount(value, view.data.unit), at + 3, RULER / 2);
  }
}

function memory(pen, view, x, top, width, colour) {
  const points = view.data.memory;
  const most = points.reduce((high, [, size]) => Math.max(high, size), 1);
  const y = (size) => top + view.memory - 8 - (size / most) * (view.memory - 26);
  pen.strokeStyle = colour.accent;
  pen.beginPath();
  let before = null;
  for (const [time, size] of points) {
    const at = x(time);
    if (before !== null) pen.lineTo(at, before);
    pen.lineTo(at, (before = y(size)));
  }
  pen.stroke();
  pen.fillStyle = colour.muted;
  pen.fillText(`Memory in use, at most ${bytes(most)}`, 4, top + 8, width - 8);
}

function bars(pen, lane, view, x, top, width, colour) {
  for (const bar of lane.bars) {
    if (bar.end < view.from || bar.start > view.to) continue;
    const [left, right] = [Math.max(0, x(bar.start)), Math.min(width, x(bar.end))];
    const wide = Math.max(right - left, 0.6);
    const isFound = !view.found || bar.name.toLowerCase().includes(view.found);
    pen.globalAlpha = isFound ? 0.85 : 0.12;
    pen.fillStyle = hue(bar.name, colour.hues);
    pen.fillRect(left, top + bar.depth * ROW, Math.max(wide - 0.5, 0.5), ROW - 1);
    if (wide > 30) {
      pen.globalAlpha = isFound ? 1 : 0.4;
      pen.fillStyle = colour.surface;
      pen.save();
      pen.beginPath();
      pen.rect(left, top + bar.depth * ROW, wide - 3, ROW);
      pen.clip();
      pen.fillText(bar.name, left + 3, top + bar.depth * ROW + ROW / 2);
      pen.restore();
    }
  }
  pen.globalAlpha = 1;
}

export function drawTooltip(canvas, { hover, data, from, to }) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.width / ratio;
  const pen = canvas.getContext("2d");
  const colour = colours();
  const time = from + (hover.x / width) * (to - from);
  let text = "";
  if (hover.bar) {
    const share = (100 * (hover.bar.end - hover.bar.start)) / (data.to - data.from);
    text = `${hover.bar.name} · ${amount(hover.bar.end - hover.bar.start, data.unit)} · ${share.toPrecision(3)} %`;
  } else if (data.memory?.length && hover.y < 112) {
    const before = data.memory.findLast(([at]) => at <= time);
    if (before) text = `${bytes(before[1])} at ${amount(time - data.from, data.unit)}`;
  }
  if (!text) return;
  const wide = Math.min(pen.measureText(text).width + 12, width);
  const left = Math.max(0, Math.min(hover.x + 10, width - wide));
  pen.fillStyle = colour.surface;
  pen.strokeStyle = colour.muted;
  pen.fillRect(left, hover.y + 12, wide, 20);
  pen.strokeRect(left + 0.5, hover.y + 12.5, wide - 1, 19);
  pen.fillStyle = colour.text;
  pen.fillText(text, left + 6, hover.y + 22, wide - 12);
}
