// The rules of platform_core.experiments.series, which a test compares with these. Each keeps the x of every point,
// passes gaps through, and counts the mean of `counts` reported points as that many.
const SIGMA_OF_SPAN = 0.1;
const WIDTH_OF_SPAN = 0.2;

// `span` is the width of the whole chart, so that runs of different lengths are smoothed alike.
export function smoothed({ kind, strength }, x, values, counts, span) {
  if (!strength) return [...values];
  if (kind === "gaussian") {
    const sigma = strength * SIGMA_OF_SPAN * span;
    return around(x, values, counts, 3 * sigma, (away) => Math.exp(-0.5 * (away / sigma) ** 2));
  }
  if (kind === "average") return around(x, values, counts, (strength * WIDTH_OF_SPAN * span) / 2, () => 1);
  return exponential(values, strength, counts);
}

function exponential(values, weight, counts) {
  let [average, correction] = [0, 1];
  return values.map((value, at) => {
    if (!Number.isFinite(value)) return value;
    const kept = weight ** (counts?.[at] ?? 1);
    average = kept * average + (1 - kept) * value;
    correction *= kept;
    return average / (1 - correction);
  });
}

function around(x, values, counts, reach, weightOf) {
  if (!(reach > 0)) return [...values];
  let [start, end] = [0, 0];
  return values.map((value, at) => {
    while (x[start] < x[at] - reach) start += 1;
    while (end < x.length && x[end] <= x[at] + reach) end += 1;
    if (!Number.isFinite(value)) return value;
    let [sum, weights] = [0, 0];
    for (let near = start; near < end; near += 1) {
      if (!Number.isFinite(values[near])) continue;
      const weight = weightOf(x[near] - x[at]) * (counts?.[near] ?? 1);
      sum += weight * values[near];
      weights += weight;
    }
    return sum / weights;
  });
}
