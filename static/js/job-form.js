// The form of a job: templates that fill it in, and each problem that the check finds at the field that it is about.

const touched = new WeakSet(); // fields that the reader has changed: an untouched one is not blamed for being empty

function field(form, name) {
  return form.elements.namedItem(name);
}

function fill(form, values, button) {
  for (const [name, value] of Object.entries(values)) {
    const control = field(form, name);
    if (control) control.value = value;
  }
  for (const other of form.querySelectorAll("[data-fill]")) {
    other.setAttribute("aria-pressed", String(other === button));
  }
  field(form, "num_gpus").dispatchEvent(new Event("change", { bubbles: true }));
}

// The capacity of CPU nodes is counted in slots, that of others in GPUs.
function nameUnits(form) {
  const unit = field(form, "gpu_type").value === "cpu" ? "slots" : "gpus";
  for (const label of form.querySelectorAll("label[data-gpus]")) label.textContent = label.dataset[unit];
}

function placeProblems(form) {
  const found = new Map();
  for (const line of document.querySelectorAll("#check [data-problem]")) {
    found.set(line.dataset.problem, line.textContent.trim());
  }
  for (const line of form.querySelectorAll("[id^='problem-']")) {
    const name = line.id.replace("problem-", "");
    const control = field(form, name);
    if (!control || !(touched.has(control) || control.ariaInvalid)) continue;
    line.textContent = found.get(name) ?? "";
    if (found.has(name)) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  }
}

export function startJobForm() {
  const form = document.querySelector("[data-job-form]");
  if (!form) return;
  nameUnits(form);
  form.addEventListener("change", ({ target }) => {
    if (target.matches("[data-clone]") && target.value) {
      location.assign(`${target.dataset.clone}?clone=${target.value}`);
    }
    touched.add(target);
    nameUnits(form);
  }, true);
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-fill]");
    if (button) fill(form, JSON.parse(button.dataset.fill), button);
    const link = target.closest("a[href^='#id-']");
    document.getElementById(link?.hash.slice(1))?.closest("details")?.setAttribute("open", "");
  });
  document.addEventListener("htmx:afterSettle", ({ target }) => {
    if (target.closest("#check")) placeProblems(form);
    if (target.id === "code") field(form, "code").dispatchEvent(new Event("change", { bubbles: true }));
  });
}
