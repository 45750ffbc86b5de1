// A search box with data-find-charts="ID" shows the charts of that element whose metric has the text in its name.
function find(box) {
  const wanted = box.value.trim().toLowerCase();
  const charts = document.getElementById(box.dataset.findCharts);
  if (!charts) return;
  let any = false;
  for (const section of charts.querySelectorAll("[data-section]")) {
    const cards = [...section.querySelectorAll("[data-metric-card]")];
    for (const card of cards) card.hidden = !card.dataset.metricCard.toLowerCase().includes(wanted);
    const matches = cards.some((card) => !card.hidden);
    section.hidden = !matches;
    any ||= matches;
  }
  const none = charts.querySelector("[data-no-metric]");
  if (none) none.hidden = any || !wanted;
}

export function startFindCharts() {
  document.addEventListener("input", ({ target }) => {
    if (target.matches("[data-find-charts]")) find(target);
  });
  // A block that was fetched again arrives whole.
  document.addEventListener("htmx:afterSettle", () => {
    for (const box of document.querySelectorAll("[data-find-charts]")) if (box.value) find(box);
  });
}
