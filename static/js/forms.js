// Small courtesies of forms: ask before what cannot be undone, do not send twice, copy, submit on change, select all.

// A form asks before all of its buttons, or one button for itself.
function askFirst(form, submitter) {
  const dialog = document.getElementById("confirm");
  const { confirm, confirmYes } = submitter?.dataset.confirm ? submitter.dataset : form.dataset;
  dialog.querySelector("[data-text]").textContent = confirm;
  dialog.querySelector("[data-yes]").textContent = confirmYes ?? "Yes, do it";
  dialog.returnValue = "";
  dialog.addEventListener("close", () => {
    if (dialog.returnValue === "yes") {
      form.dataset.confirmed = "1";
      form.requestSubmit(submitter);
    }
  }, { once: true });
  dialog.showModal();
}

function submitted(event) {
  const form = event.target;
  if (form.method === "dialog" || event.submitter?.formMethod === "dialog") return;
  if ((form.dataset.confirm || event.submitter?.dataset.confirm) && !form.dataset.confirmed) {
    event.preventDefault();
    event.stopImmediatePropagation();
    askFirst(form, event.submitter);
    return;
  }
  const isPost = (event.submitter?.formMethod || form.method) === "post";
  if (isPost && !form.hasAttribute("hx-post") && !event.submitter?.hasAttribute("hx-post")) {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "1";
  }
}

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  const text = source ? source.innerText : button.dataset.copyText ?? "";
  try {
    await navigator.clipboard.writeText(text);
    say(button, "Copied");
  } catch {
    if (source) getSelection().selectAllChildren(source);
    say(button, "Press Ctrl+C");
  }
}

function say(button, word) {
  button.dataset.word ??= button.textContent;
  button.textContent = word;
  setTimeout(() => (button.textContent = button.dataset.word), 1600);
}

function changed(event) {
  const control = event.target;
  if (control.closest("form")?.hasAttribute("data-auto")) control.form.requestSubmit();
  if (control.matches("[data-pick]")) picked(control.form ?? document.getElementById(control.getAttribute("form")));
}

// A search field of a filter form speaks while one types, not only on Enter.
let typing = null;
function typed({ target }) {
  if (!target.matches("form[data-auto] input[type='search']")) return;
  clearTimeout(typing);
  typing = setTimeout(() => target.form.requestSubmit(), 300);
}

function picked(form) {
  if (!form) return;
  const isPicked = (element) => element.matches("[data-pick]:checked, [data-kept]");
  const count = [...form.elements].filter(isPicked).length;
  for (const button of form.elements) {
    if (!button.dataset.needs) continue;
    button.disabled = count < Number(button.dataset.needs);
    if (button.hasAttribute("data-counted")) button.textContent = button.disabled ? "Compare" : `Compare ${count} runs`;
  }
}

// A slider with data-powers-of="ID" runs over powers of two; the number of that ID, which takes any, is what is sent.
function slid({ target }) {
  const number = Number(target.value);
  if (target.matches("[data-powers-of]")) document.getElementById(target.dataset.powersOf).value = 2 ** number;
  const slider = target.id && document.querySelector(`[data-powers-of="${CSS.escape(target.id)}"]`);
  if (slider && number > 0) slider.value = Math.round(Math.log2(number));
}

export function startForms() {
  document.addEventListener("input", slid);
  document.addEventListener("submit", submitted, true);
  document.addEventListener("change", changed);
  document.addEventListener("input", typed);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-copy-text]");
    if (button) copy(button);
  });
  document.querySelectorAll("form").forEach(picked);
  const count = () => document.querySelectorAll("form:has([data-needs])").forEach(picked);
  document.addEventListener("htmx:afterSettle", count);
  window.addEventListener("pageshow", () => {
    document.querySelectorAll("form[data-sent]").forEach((form) => delete form.dataset.sent);
  });
}
