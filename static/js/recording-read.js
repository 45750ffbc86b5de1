// Chrome's trace format and folded stacks as lanes of bars; see recording.js.
const MOST_BARS = 400_000;

// Bars of one lane with the depth at which they lie in each other, and the time that is their own.
function nested(bars) {
  bars.sort((a, b) => a.start - b.start || b.end - a.end);
  const open = [];
  let deepest = 0;
  for (const bar of bars) {
    while (open.length && open.at(-1).end <= bar.start) open.pop();
    bar.depth = open.length;
    bar.own = bar.end - bar.start;
    if (open.length) open.at(-1).own -= bar.own;
    deepest = Math.max(deepest, bar.depth);
    open.push(bar);
  }
  return deepest + 1;
}

// Bytes allocated in the innermost bars of a lane, by their names. `bars` are in the order of nested().
function allocate(bars, events, sums) {
  const open = [];
  let next = 0;
  for (const { at, bytes } of events.sort((a, b) => a.at - b.at)) {
    for (; next < bars.length && bars[next].start <= at; next += 1) open.push(bars[next]);
    while (open.length && open.at(-1).end < at) open.pop();
    add(sums, open.at(-1)?.name ?? "outside operators", bytes);
  }
}

function add(sums, name, own) {
  const sum = sums.get(name) ?? { own: 0, calls: 0 };
  sum.own += own;
  sum.calls += 1;
  sums.set(name, sum);
}

export function traceOf(document) {
  const [lanes, processes, threads, memory] = [new Map(), new Map(), new Map(), []];
  const allocated = new Map(); // lane → its allocations
  let count = 0;
  for (const event of document.traceEvents ?? []) {
    const lane = `${event.pid}/${event.tid}`;
    if (event.ph === "M" && event.name === "process_name") processes.set(event.pid, event.args.name);
    else if (event.ph === "M" && event.name === "thread_name") threads.set(lane, event.args.name);
    else if (event.name === "[memory]") {
      memory.push([event.ts, event.args?.["Total Allocated"] ?? 0]);
      if (!allocated.has(lane)) allocated.set(lane, []);
      if (event.args?.Bytes > 0) allocated.get(lane).push({ at: event.ts, bytes: event.args.Bytes });
    }
    else if (event.ph === "X" && event.dur >= 0 && event.cat !== "Trace" && count < MOST_BARS) {
      if (!lanes.has(lane)) lanes.set(lane, { pid: event.pid, bars: [] });
      lanes.get(lane).bars.push({ name: event.name, start: event.ts, end: event.ts + event.dur });
      count += 1;
    }
  }
  if (!count) throw new Error("it has no events");
  const named = [...lanes].map(([lane, { pid, bars }]) => ({
    name: [processes.get(pid), threads.get(lane) ?? lane].filter(Boolean).join(" · "), bars, depth: nested(bars),
  })).sort((a, b) => b.bars.length - a.bars.length);
  let [from, to] = [Infinity, -Infinity];
  for (const { start, end } of named.flatMap(({ bars }) => bars)) {
    [from, to] = [Math.min(from, start), Math.max(to, end)];
  }
  memory.sort((a, b) => a[0] - b[0]);
  const events = `${count.toLocaleString("en")} events in ${named.length} lanes`;
  const sentence = `${((to - from) / 1000).toFixed(1)} ms, ${events}. Shares are summed over all threads.`;
  const table = memory.length ? allocations(lanes, allocated) : times(named, to - from);
  return { lanes: named, memory, from, to, sentence, unit: "us", table };
}

// What the table below a recording sums up: name → own and calls, in `scale` of a `unit`, of a `whole`.
function times(lanes, whole) {
  return { sums: summed(lanes), whole, scale: 1000, unit: "Own ms", counted: "Calls" };
}

function allocations(lanes, allocated) {
  const sums = new Map();
  for (const [lane, events] of allocated) allocate(lanes.get(lane)?.bars ?? [], events, sums);
  const whole = [...sums.values()].reduce((sum, { own }) => sum + own, 0);
  return { sums, whole, scale: 2 ** 20, unit: "Allocated MiB", counted: "Allocations" };
}

// The graph hangs from its threads: a bar is as wide as the share of the samples in which it was called.
export function flameOf(text) {
  const root = { children: new Map(), count: 0 };
  for (const line of text.split("\n")) {
    const cut = line.lastIndexOf(" ");
    const count = Number(line.slice(cut + 1));
    if (cut < 1 || !(count > 0)) continue;
    let node = root;
    node.count += count;
    for (const name of line.slice(0, cut).split(";")) {
      if (!node.children.has(name)) node.children.set(name, { children: new Map(), count: 0 });
      node = node.children.get(name);
      node.count += count;
    }
  }
  if (!root.count) throw new Error("it has no stacks");
  const bars = [];
  let deepest = 0;
  function place(node, start, depth) {
    let at = start;
    for (const [name, child] of [...node.children].sort((a, b) => b[1].count - a[1].count)) {
      const inner = [...child.children.values()].reduce((sum, { count }) => sum + count, 0);
      bars.push({ name, start: at, end: at + child.count, depth, own: child.count - inner });
      deepest = Math.max(deepest, depth);
      place(child, at, depth + 1);
      at += child.count;
    }
  }
  place(root, 0, 0);
  const stacks = `${root.count.toLocaleString("en")} stacks of ${root.children.size} threads`;
  const lane = { name: "Calls, outermost above", bars, depth: deepest + 1 };
  const sentence = `${stacks}, the widest first. Select a function to enlarge it.`;
  const table = { sums: summed([lane]), whole: root.count, scale: 1, unit: "Own samples", counted: "" };
  return { lanes: [lane], from: 0, to: root.count, sentence, unit: "samples", table };
}

function summed(lanes) {
  const sums = new Map();
  for (const { bars } of lanes) for (const { name, own } of bars) add(sums, name, own);
  return sums;
}
