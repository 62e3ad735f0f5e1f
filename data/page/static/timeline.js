// The open trials of the report: one, or several side by side with what happened in them aligned.

class Timeline {
  constructor(list, trials) {
    this.list = list;
    this.trials = trials;
    this.box = document.getElementById("timeline");
    this.shown = [];
    this.walk = new Walk(this.box);
    this.box.addEventListener("keydown", (event) => this.press(event));
    state.onChange((changed) => {
      if (changed.has("trial") || changed.has("beside") || changed.has("plain") || changed.has("view")) this.follow();
      else if (changed.has("q")) showHits(this.box, this.list.terms);
    });
  }

  press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") this.leave();
    else if (event.key === "ArrowRight" && !event.target.closest("pre, .scroll, .columns")) this.list.choose(this.list.active + 1, true);
    else if (event.key === "ArrowLeft" && !event.target.closest("pre, .scroll, .columns")) this.list.choose(this.list.active - 1, true);
    else return;
    event.preventDefault();
  }

  // From several trials back to the first, and from there to the list.
  leave() {
    if (state.get("beside")) state.set({ beside: "" }, true);
    else this.list.box.focus();
  }

  // Shows the trials that the address names.
  async follow() {
    const first = this.list.withId(state.get("trial"));
    const others = state.get("beside").split(",").map((id) => this.list.withId(id)).filter((place) => place >= 0 && place !== first);
    const wanted = first < 0 ? [] : [first, ...others];
    this.shown = wanted;
    document.querySelector(".browser").classList.toggle("beside", wanted.length > 1);
    if (!wanted.length) {
      this.list.opened = -1;
      this.list.draw();
      this.box.replaceChildren(element("p", { class: "aside" }, state.get("trial") ? `There is no trial ${state.get("trial")} on this page.` : "No trial is open."));
      return;
    }
    this.list.reveal(first);
    const inChunks = (kind) => Promise.all(wanted.map((trial) => unpack(`data-${kind}-${Math.floor(trial / this.trials.chunk)}`)));
    const [prompts, texts, chunks, documents] = await Promise.all([unpack("data-prompts"), unpack("data-requests"), inChunks("chunk"), inChunks("atif")]);
    if (wanted !== this.shown) return; // other trials were chosen meanwhile
    const beside = wanted.map((trial) => this.list.at("variant", trial));
    const columns = wanted.map((trial, number) => {
      const parts = chunks[number][trial % this.trials.chunk];
      const at = (name) => this.list.at(name, trial);
      const noteAddress = IS_SERVED ? `/experiments/${encodeURIComponent(at("experiment_id"))}/attempts/${encodeURIComponent(parts.attempts.at(-1)[2])}#note-it` : null;
      return new Trial({ at, columns: this.trials.columns, parts, prompts, texts, atif: documents[number]?.[trial % this.trials.chunk], beside, number, noteAddress });
    });
    const articles = columns.map((each) => each.draw());
    this.box.replaceChildren(...[this.siblings(first, others), wanted.length > 1 ? alignedColumns(articles) : articles[0]].filter(Boolean));
    this.box.setAttribute("aria-labelledby", "timeline-title");
    showHits(this.box, this.list.terms, true);
    if (this.walk.follow()) return;
    const heading = document.getElementById("timeline-title");
    heading.focus({ preventScroll: true });
    (getComputedStyle(this.list.box).position === "sticky" ? document.querySelector(".browser") : this.box).scrollIntoView();
    for (const text of this.box.querySelectorAll(".prompt pre")) {
      const change = text.querySelector("del, ins");
      if (change) text.scrollTop = change.offsetTop - text.clientHeight / 3;
    }
  }

  // Buttons for the trials of the same task and agent under the other conditions: they are shown beside the open one.
  siblings(first, others) {
    const list = this.list;
    const same = (place, names) => names.every((name) => list.at(name, place) === list.at(name, first));
    const variant = list.at("variant", first);
    const best = new Map();
    for (let place = 0; place < this.trials.count; place++) {
      if (place === first || !same(place, ["task", "agent", "role", "strategy", "persona"])) continue;
      const other = list.at("variant", place);
      if (variant !== null && other !== null && other !== variant) continue;
      const key = JSON.stringify([other, list.at("condition", place)]);
      const held = best.get(key);
      const rank = (each) => (others.includes(each) ? 0 : 2) + (list.at("trial_index", each) === list.at("trial_index", first) ? 0 : 1);
      if (held === undefined || rank(place) < rank(held)) best.set(key, place);
    }
    if (!best.size) return null;
    const variants = new Set([...best.values()].map((place) => list.at("variant_id", place)).filter((each) => each !== null));
    const hasRows = variant === null && variants.size > 1;
    const button = (place) => {
      const [mark, kind] = MARKS[list.at("outcome", place)];
      const isShown = others.includes(place);
      const id = list.at("trial_id", place).slice(0, 16);
      const name = `${labelOf("condition", list.at("condition", place))}${list.at("trial_index", place) === list.at("trial_index", first) ? "" : ` #${list.at("trial_index", place)}`}`;
      const made = element("button", { type: "button", "aria-pressed": String(isShown), title: list.at("condition", place) }, element("span", { class: kind, "aria-label": list.at("outcome", place) }, mark), ` ${name}`);
      const ids = others.map((each) => list.at("trial_id", each).slice(0, 16));
      made.addEventListener("click", () => state.set({ beside: (isShown ? ids.filter((each) => each !== id) : [...ids, id]).join(",") }, true));
      return made;
    };
    const back = element("button", { type: "button", class: "back" }, "Back to the list");
    back.addEventListener("click", () => this.leave());
    const own = [...best.values()].filter((place) => !hasRows || list.at("variant_id", place) === null);
    const task = `${list.at("task_id", first)}/`;
    const row = (id) => element("p", { class: "siblings of-variant" }, element("span", { class: "aside" }, `${id.startsWith(task) ? id.slice(task.length) : id}:`),
      [...best.values()].filter((place) => list.at("variant_id", place) === id).map(button));
    return element("div", { class: "beside-it", tabindex: hasRows ? 0 : null, role: hasRows ? "group" : null, "aria-label": hasRows ? "Beside it" : null },
      element("p", { class: "siblings" }, others.length ? back : null, element("span", { class: "aside" }, "Beside it:"), own.map(button)), hasRows ? [...variants].map(row) : null);
  }
}

// Puts what happened in several trials into rows: an event of the first trial and the same events of the others share one.
function alignedColumns(articles) {
  const lists = articles.map((each) => [...each.querySelector(".events").children]);
  const names = lists.map((list) => list.map((each) => (each.querySelector(".flag")?.textContent ?? "").replace(/^\d+ /, "")));
  // For each event of a list: the place among the events of the first list after which it stands, and whether it shares that row.
  const places = names.map((list) => {
    let place = -1;
    return aligned(names[0], list).flatMap(([kind]) => {
      if (kind !== "added") place++;
      return kind === "removed" ? [] : [[place, kind === "same"]];
    });
  });
  const extra = names[0].map(() => 0);
  const rowsOf = (each) => {
    const used = new Map();
    return each.map(([place, isSame]) => {
      const beyond = isSame ? 0 : (used.get(place) || 0) + 1;
      used.set(place, beyond);
      extra[place] = Math.max(extra[place] || 0, beyond);
      return [place, beyond];
    });
  };
  const rows = places.map(rowsOf);
  const starts = [1 + (extra[-1] || 0)];
  for (const each of extra) starts.push(starts.at(-1) + 1 + each);
  rows.forEach((list, number) => list.forEach(([place, beyond], at) => { lists[number][at].style.gridRow = String((place < 0 ? 0 : starts[place]) + beyond + 1); }));
  const count = starts.at(-1);
  const box = element("div", { class: "columns" }, articles);
  box.style.setProperty("--rows", String(count + 6));
  box.style.setProperty("--happened", String(count));
  return box;
}
