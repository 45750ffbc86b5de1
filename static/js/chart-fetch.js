// The values of charts, asked for together: what is wanted within a few milliseconds and differs only in its metric is
// one request. The browser keeps the answers and asks with their ETag; a server without news answers in a few bytes.
const TOGETHER_MS = 20;
const MOST_KEYS = 6; // of a request: the first charts need not wait for all

const wanted = new Map(); // address without key → key → the promises of those who wait
let timer = 0;

// Resolves to {chart, tag}; a tag that is known means the same values.
export function fetchChart(address) {
  const url = new URL(address, location.href);
  const key = url.searchParams.get("key") ?? "";
  url.searchParams.delete("key");
  return new Promise((resolve, reject) => {
    if (!wanted.has(url.href)) wanted.set(url.href, new Map());
    const keys = wanted.get(url.href);
    keys.set(key, [...(keys.get(key) ?? []), { resolve, reject }]);
    timer ||= setTimeout(send, TOGETHER_MS);
  });
}

function send() {
  timer = 0;
  for (const [base, keys] of wanted) {
    const entries = [...keys];
    while (entries.length) request(base, new Map(entries.splice(0, MOST_KEYS)));
  }
  wanted.clear();
}

async function request(base, keys) {
  const url = new URL(base);
  for (const key of [...keys.keys()].sort()) if (key) url.searchParams.append("key", key);
  try {
    const answer = await fetch(url, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const body = await answer.json();
    const charts = (body.charts ?? [body]).map(unfolded); // an address without a key answers with its only chart
    for (const [key, waiting] of keys) {
      const chart = key ? charts.find((candidate) => candidate.key === key) : charts[0];
      const tag = `${url.search} ${answer.headers.get("ETag")} ${key}`;
      for (const { resolve, reject } of waiting) {
        if (chart) resolve({ chart: waiting.length > 1 ? structuredClone(chart) : chart, tag });
        else reject(new Error(`no run reports ${key} any more`));
      }
    }
  } catch (error) {
    for (const waiting of keys.values()) for (const { reject } of waiting) reject(error);
  }
}

// Columns that an earlier series of the chart has as well came as the number of that series.
function unfolded(chart) {
  for (const series of chart.series) {
    for (const name of ["x", "counts"]) {
      if (typeof series[name] === "number") series[name] = [...chart.series[series[name]][name]];
    }
  }
  return chart;
}
