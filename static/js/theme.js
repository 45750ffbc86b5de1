// Light, dark, or as the system says. Kept in a cookie so that the server writes the right page and nothing flashes.
const root = document.documentElement;

function show() {
  const chosen = root.dataset.theme || "system";
  for (const button of document.querySelectorAll("[data-set-theme]")) {
    button.setAttribute("aria-pressed", String(button.dataset.setTheme === chosen));
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-set-theme]");
  if (!button) return;
  const theme = button.dataset.setTheme;
  const chosen = theme === "light" || theme === "dark";
  if (chosen) root.dataset.theme = theme;
  else delete root.dataset.theme;
  document.cookie = `theme=${chosen ? theme : ""}; path=/; samesite=lax; max-age=${chosen ? 31536000 : 0}`;
  show();
  document.dispatchEvent(new CustomEvent("trainmaster:theme"));
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  document.dispatchEvent(new CustomEvent("trainmaster:theme"));
});
show();
