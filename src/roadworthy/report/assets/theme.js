/* Light and dark, the same on every page; what draws in the page's colours is told when they change. */
(function () {
  "use strict";
  var root = document.documentElement, listeners = [];
  var theme = document.getElementById("theme");
  root.classList.add("js");
  function variable(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
  function isDark() { return variable("--shown") === "dark"; }
  function changed() {
    theme.textContent = isDark() ? "Light page" : "Dark page";
    listeners.forEach(function (draw) { draw(); });
  }
  theme.addEventListener("click", function () {
    root.setAttribute("data-theme", isDark() ? "light" : "dark");
    changed();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  window.roadworthy = { variable: variable, onTheme: function (draw) { listeners.push(draw); } };
  changed();
})();
