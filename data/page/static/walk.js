// Walks through what happened in the shown trials: links to events, keys, and the event that the address names.

const STEPS = { j: [1, false], k: [-1, false], n: [1, true], p: [-1, true] }; // forwards or back, and whether only to stops

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
      if (!Object.hasOwn(STEPS, event.key)) return;
      this.step(...STEPS[event.key]);
      event.preventDefault();
    });
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

  follow() {
    if (state.get("action") === "first") { // at which information arrives, or is asked for
      const stop = this.box.querySelector("[data-stop=told], .arrival[data-stop], [data-stop=question]");
      if (this.box.querySelector("[data-event]")) state.set({ action: stop?.dataset.event || "" });
    }
    const wanted = state.get("action");
    for (const each of this.box.querySelectorAll(".current")) {
      each.classList.remove("current");
      each.removeAttribute("aria-current");
    }
    const found = wanted ? this.box.querySelector(`[data-event="${CSS.escape(wanted)}"]`) : null;
    if (!found) return false;
    for (let fold = found.parentElement.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    found.classList.add("current");
    const link = this.box.querySelector(`.outline [data-go="${CSS.escape(wanted)}"]`);
    if (link) {
      link.classList.add("current");
      link.setAttribute("aria-current", "location");
      const outline = link.closest(".outline");
      if (link.offsetTop < outline.scrollTop || link.offsetTop > outline.scrollTop + outline.clientHeight - 40) outline.scrollTop = link.offsetTop - outline.clientHeight / 2;
    }
    found.scrollIntoView();
    found.focus({ preventScroll: true });
    return true;
  }
}
