// Light, dark or as the system says; kept in this browser. A classic script in the head, so that the first
// paint is right already. Buttons with data-theme-toggle switch it.
(() => {
  const KEY = "cpor-theme";
  const root = document.documentElement;
  const kept = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage may be forbidden; the system's choice then stands
    }
  };
  const isDark = () =>
    (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const chosen = kept();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;

  function label(button) {
    button.textContent = isDark() ? "☀" : "☾";
    button.title = isDark() ? "Use light colours" : "Use dark colours";
    button.setAttribute("aria-label", button.title);
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("[data-theme-toggle]")) {
      label(button);
      button.addEventListener("click", () => {
        root.dataset.theme = isDark() ? "light" : "dark";
        try {
          localStorage.setItem(KEY, root.dataset.theme);
        } catch {
          // not kept, but it holds until the page is closed
        }
        label(button);
      });
    }
  });
})();
