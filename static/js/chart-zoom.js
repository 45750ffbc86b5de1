// What the reader has zoomed to, by axis. It stands in the address, so that a link shows the same: zoom=step,50,90.
const DIGITS = 4; // of a ten-thousandth of the window

export const zooms = new Map(); // axis → [from, to]

for (const text of new URLSearchParams(location.search).getAll("zoom")) {
  const [axis, from, to] = text.match(/^(.+),([^,]+),([^,]+)$/)?.slice(1) ?? [];
  const ends = [Number(from), Number(to)];
  if (axis && ends.every(Number.isFinite) && ends[0] < ends[1]) zooms.set(axis, ends);
}

export function keepZooms() {
  const query = new URLSearchParams(location.search);
  query.delete("zoom");
  for (const [axis, ends] of zooms) query.append("zoom", [axis, ...rounded(ends)].join(","));
  const text = query.toString().replaceAll("%2C", ",").replaceAll("%2F", "/");
  history.replaceState(history.state, "", `${location.pathname}${text && `?${text}`}${location.hash}`);
}

function rounded([from, to]) {
  const digits = Math.min(20, Math.max(0, DIGITS - Math.floor(Math.log10(to - from))));
  return [from, to].map((end) => Number(end.toFixed(digits)));
}
