// The theme of the system, or the other one, which is kept in this browser.

function themeButton() {
  const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const show = (theme) => { document.documentElement.style.colorScheme = theme || ""; };
  const button = element("button", { type: "button", class: "switch theme", title: "Light or dark" }, "◐");
  button.setAttribute("aria-label", "Light or dark");
  button.addEventListener("click", () => {
    const isDark = (document.documentElement.style.colorScheme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    show(isDark ? "light" : "dark");
    try { localStorage.setItem("theme", isDark ? "light" : "dark"); } catch { /* a page opened as a file may keep nothing */ }
  });
  show(kept());
  return button;
}

(document.querySelector("header nav") ?? document.querySelector("header")).append(themeButton());
