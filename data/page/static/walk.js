// Walks through what happened in the shown trials: links to events, keys, and the event that the address names.

const STEPS = { j: [1, false], k: [-1, false], n: [1, true], p: [-1, true] }; // forwards or back, and whether only to stops
const HITS = { h: 1, H: -1 };

class Walk {
  constructor(box) {
    this.box = box;
    box.addEventListener("click", (event) => {
      const link = event.target.closest("[data-go]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      if (state.get("action") === link.dataset.go) this.follow();
      else state.set({ action: link.dataset.go, ...(location.hash ? {} : { trial: link.hash.match(/trial=([^&]*)/)[1] }) });
    });
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select, textarea")) return;
      if (Object.hasOwn(STEPS, event.key)) this.step(...STEPS[event.key]);
      else if (Object.hasOwn(HITS, event.key)) this.hit(HITS[event.key]);
      else return;
      event.preventDefault();
    });
    addEventListener("scroll", () => this.look(), { passive: true });
    state.onChange((changed) => changed.has("action") && this.follow());
  }

  // From the event of the address to the next or previous one, or question, injection or error; without a trial, to a finding.
  step(direction, isStop) {
    const events = [...this.box.querySelectorAll("[data-event]")];
    if (!events.length) {
      const findings = [...document.querySelectorAll(".decides")].filter((each) => each.checkVisibility());
      findings[Math.max(0, findings.indexOf(document.activeElement) + direction)]?.focus();
      return;
    }
    const here = events.findIndex((each) => each.classList.contains("current"));
    const rest = direction > 0 ? events.slice(here + 1) : events.slice(0, Math.max(0, here)).reverse();
    const next = rest.find((each) => !isStop || each.dataset.stop);
    if (next) state.set({ action: next.dataset.event });
  }

  // To the next or previous place of what is searched for, counted from the last one.
  hit(direction) {
    const last = Math.max(hits.indexOf(this.lastHit), direction > 0 ? -1 : 0); // at first the first, backwards the last
    this.lastHit = hits.at((last + direction) % hits.length);
    if (!this.lastHit) return;
    const parent = this.lastHit.startContainer.parentElement;
    unfold(parent);
    CSS.highlights.set("hit", new Highlight(this.lastHit));
    const text = parent.closest("pre") || parent;
    text.scrollIntoView({ block: "nearest" });
    text.scrollTop += this.lastHit.getBoundingClientRect().top - text.getBoundingClientRect().top - text.clientHeight / 2;
    scrollBy(0, this.lastHit.getBoundingClientRect().top - innerHeight / 2);
  }

  // The link of the outline to an event, if it has one.
  linkTo(key) {
    return this.box.querySelector(`.outline [data-go="${CSS.escape(key)}"]`);
  }

  // Marks in the outline what stands at the top of the window.
  look() {
    const events = this.box.querySelector(".happened .outline + div > .events");
    if (!events) return;
    const top = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0; // where an event stands that the reader went to
    const under = document.elementFromPoint(events.getBoundingClientRect().left + 8, top + 24);
    let event = under?.closest(".events [data-event]");
    while (event && !this.linkTo(event.dataset.event)) event = event.previousElementSibling;
    if (!event) return;
    const link = this.linkTo(event.dataset.event);
    this.box.querySelector(".outline .near")?.classList.remove("near");
    link.classList.add("near");
    inOutline(link);
  }

  follow() {
    if (state.get("action") === "first") { // at which information arrives, or is asked for; without any, the end
      const stop = this.box.querySelector("[data-stop=told], .arrival[data-stop], [data-stop=question]") ?? [...this.box.querySelectorAll(".trial-in-full:first-of-type [data-event]")].at(-1);
      if (stop) state.set({ action: stop.dataset.event });
    }
    const wanted = state.get("action");
    for (const each of this.box.querySelectorAll(".current")) {
      each.classList.remove("current");
      each.removeAttribute("aria-current");
    }
    const found = wanted ? this.box.querySelector(`[data-event="${CSS.escape(wanted)}"]`) : null;
    if (!found) return false;
    unfold(found.parentElement);
    found.classList.add("current");
    const link = this.linkTo(wanted);
    if (link) {
      link.classList.add("current");
      link.setAttribute("aria-current", "location");
      inOutline(link);
    }
    found.scrollIntoView();
    found.focus({ preventScroll: true });
    return true;
  }
}

// Scrolls the outline so that a link of it is seen.
function inOutline(link) {
  const outline = link.closest(".outline");
  if (link.offsetTop < outline.scrollTop || link.offsetTop > outline.scrollTop + outline.clientHeight - 40) outline.scrollTop = link.offsetTop - outline.clientHeight / 2;
}
