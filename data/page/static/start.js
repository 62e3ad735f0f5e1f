// Runs when the page opens: fills open tables, draws the list of trials, and opens the trial that the address names.

// Opens what a link leads to, and everything closed around it.
function uncover(target) {
  if (!target) return;
  unfold(target);
  target.scrollIntoView();
}

// Keeps what a link leads to below the header, whose height depends on the width of the page.
function keepClear() {
  const header = document.querySelector("header");
  const measure = () => document.documentElement.style.setProperty("--header", getComputedStyle(header).position === "sticky" ? `${header.offsetHeight}px` : "0px");
  new ResizeObserver(measure).observe(header);
  measure();
}

// Links inside the page keep the reader's choices in the address.
function followLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const at = decodeURIComponent(link.getAttribute("href").slice(1));
    if (state.get("at") === at) uncover(document.getElementById(at));
    else state.set({ at }, true);
  });
}

async function start() {
  const places = [...document.querySelectorAll("[data-table]")];
  for (const place of places) {
    const around = place.closest("details");
    around.addEventListener("toggle", () => around.open && fillTable(place));
  }
  if (IS_SERVED) document.querySelector("nav").prepend(element("a", { href: "/" }, "Experiments"));
  keepClear();
  followLinks();
  const trials = await unpack("data-trials");
  const list = new TrialList(trials);
  const timeline = new Timeline(list, trials);
  document.getElementById("findings").addEventListener("click", (event) => {
    const button = event.target.closest(".decides");
    if (button) openDeciding(list, button.dataset.cell);
  });
  const follow = () => uncover(document.getElementById(state.get("at")));
  state.onChange((changed) => {
    if (changed.has("at") && state.get("at")) follow();
    if (!["benchmark", "agent", "condition"].some((name) => changed.has(name))) return;
    places.forEach((place) => place.replaceChildren());
    places.filter((place) => place.closest("details").open).forEach(fillTable);
  });
  if (state.get("trial")) timeline.follow();
  follow();
  performance.mark("list-ready");
  await unpack("data-tables");
  await Promise.all(places.filter((place) => place.closest("details").open).map(fillTable));
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details:not(.request)").forEach((part) => { part.open = true; });
    places.forEach(fillTable); // synchronous, because the data is unpacked already
  });
  if (!state.get("trial")) follow(); // tables above the target have their height only now
  document.documentElement.dataset.ready = "true";
  performance.mark("ready");
}

start().catch((error) => {
  const problem = document.getElementById("problem");
  problem.hidden = false;
  problem.textContent = typeof DecompressionStream === "undefined"
    ? "This page needs a browser of 2024 or later: Chrome or Edge 123, Firefox 120 or Safari 17.5."
    : `The page could not be shown: ${error}`;
});
