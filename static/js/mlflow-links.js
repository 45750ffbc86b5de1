// MLflow clients print links such as HOST/#/experiments/3/runs/ID. What stands behind # never reaches a server: this
// leads on to the page of the run, experiment or model. A login in between forgets it, so it is kept.
const KEPT = "mlflow-link";

function target(hash) {
  const [kind, id = "", below, run = ""] = hash.slice(2).split(/[/?]/);
  if (kind === "experiments" && below === "runs" && /^[\w-]+$/.test(run)) return `/runs/${run}/`;
  if (kind === "experiments") return /^[1-9]\d*$/.test(id) ? `/experiments/${id}/` : "/experiments/";
  return kind === "models" ? "/models/" : "";
}

const hash = location.hash.startsWith("#/") ? location.hash : sessionStorage.getItem(KEPT) || "";
if (hash && document.querySelector("[data-login]")) {
  sessionStorage.setItem(KEPT, hash);
} else if (hash) {
  sessionStorage.removeItem(KEPT);
  const page = target(hash);
  if (page) location.replace(page);
}
