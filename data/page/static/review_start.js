// Opens the workbench of the reviewer who gives a name, and remembers the name in this browser.
"use strict";

const start = document.getElementById("start");
const LAST_REVIEWER = "reviewer";

if (start) {
  start.reviewer.value = localStorage.getItem(LAST_REVIEWER) ?? "";
  start.addEventListener("submit", () => {
    const chosen = new URLSearchParams();
    for (const name of ["benchmark", "experiment"]) if (start[name].value) chosen.set(name, start[name].value);
    localStorage.setItem(LAST_REVIEWER, start.reviewer.value);
    location.href = `/review/${encodeURIComponent(start.reviewer.value)}?${chosen}`;
  });
}
