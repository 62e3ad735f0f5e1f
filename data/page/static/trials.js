// The list of trials: filtered, drawn only in the visible part, navigated with the arrow keys.

const ROW_PIXELS = 48;
const FOUND_ROW_PIXELS = 68; // with a line for the words that were found
const GLOBAL = ["benchmark", "agent", "condition"];
const FURTHER = ["experiment_id", "outcome", "role", "ambiguity_class", "noted"];
const FACTS = {
  agent: (value) => value, condition: (value) => labelOf("condition", value), trial_index: (value) => `#${value}`, action_count: (value) => counted(value, "action"),
  question_count: (value) => value ? counted(value, "question") : null, checkpoint_progress: (value) => `${(100 * value).toFixed(1)} %`, cost_usd: (value) => `${Number(value.toFixed(4))} USD`,
  tokens: (value) => counted(value, "token"), ended_by: (value) => value.replaceAll("_", " "), ambiguity_class: (value) => value, role: (value) => value, strategy: (value) => value,
  persona: (value) => value, domain: (value) => value, experiment_id: (value) => value, trial_id: (value) => value.slice(0, 12),
};
const USUAL_FACTS = ["agent", "condition", "trial_index", "action_count", "question_count"];
const TYPING_MS = 60;
const SAVED = ["trial_id", "outcome", "benchmark", "task_id", "variant_id", "ambiguity_class", "agent", "role", "condition", "trial_index", "checkpoint_progress",
  "action_count", "question_count", "tokens", "cost_usd", "strategy", "persona", "ended_by", "domain", "experiment_id", "noted"];
const SORTS = { "most USD": "cost_usd", "most tokens": "tokens", "most actions": "action_count", "most questions": "question_count", "most progress": "checkpoint_progress" };

class TrialList {
  constructor(trials) {
    this.trials = trials;
    this.box = document.getElementById("list");
    this.rows = document.getElementById("rows");
    this.found = [];
    this.active = -1;
    this.opened = -1;
    this.index = new TextIndex(trials);
    this.ids = this.idTexts();
    this.behind = null;
    this.terms = [];
    this.hasBenchmarks = this.choices("benchmark").length > 1;
    const clear = document.getElementById("clear");
    document.getElementById("count").before(...GLOBAL.map((name) => chooser(name, this.choices(name))).filter(Boolean));
    document.getElementById("more").append(...FURTHER.map((name) => chooser(name, this.choices(name))).filter(Boolean), this.trials.count > 1 ? chooser("sort", Object.keys(SORTS), "by task") : "");
    const save = element("button", { type: "button", class: "switch", title: "save the trials in the list" }, "CSV");
    save.addEventListener("click", () => saveCsv({ name: "trials", columns: SAVED }, this.found.map((place) => Object.fromEntries(SAVED.map((name) => [name, this.at(name, place)])))));
    document.getElementById("more").append(save, this.columns());
    clear.addEventListener("click", () => state.set(Object.fromEntries([...CHOICES, "cell"].map((name) => [name, ""])), true));
    this.search = document.getElementById("search");
    this.search.value = state.get("q");
    this.search.addEventListener("focus", () => this.index.load(() => this.progressed()));
    this.search.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => state.set({ q: this.search.value.trim() }), TYPING_MS);
    });
    this.search.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown" && event.key !== "Enter") return;
      event.preventDefault();
      clearTimeout(this.typing);
      state.set({ q: this.search.value.trim() });
      document.getElementById("trials").scrollIntoView();
      this.box.focus({ preventScroll: true });
    });
    addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.search.focus();
    });
    for (const id of ["filters", "more"]) document.getElementById(id).addEventListener("submit", (event) => event.preventDefault());
    this.box.addEventListener("scroll", () => this.draw());
    this.box.addEventListener("keydown", (event) => this.press(event));
    this.box.addEventListener("click", (event) => {
      const row = event.target.closest(".trial");
      if (row) this.choose(Number(row.dataset.place), true);
    });
    addEventListener("resize", () => this.draw());
    state.onChange((changed) => {
      if (changed.has("q") && document.activeElement !== this.search) this.search.value = state.get("q");
      if (changed.has("cell")) this.showCell();
      else if (CHOICES.some((name) => changed.has(name))) this.filter();
    });
    this.filter();
    if (state.get("cell")) this.showCell();
  }

  // Which facts a line of the list has, kept in the address.
  get facts() {
    return state.get("columns") ? state.get("columns").split(",").filter((name) => FACTS[name]) : USUAL_FACTS;
  }

  columns() {
    const boxes = Object.keys(FACTS).map((name) => element("label", {}, element("input", { type: "checkbox", value: name }), name.replaceAll("_", " ")));
    const inputs = boxes.map((each) => each.firstChild);
    const show = () => inputs.forEach((each) => { each.checked = this.facts.includes(each.value); });
    const made = element("details", { class: "choice" }, element("summary", {}, "columns"), element("div", {}, boxes));
    made.addEventListener("change", () => state.set({ columns: inputs.filter((each) => each.checked).map((each) => each.value).join(",") }));
    show();
    state.onChange((changed) => { if (changed.has("columns")) { show(); this.draw(); } });
    return made;
  }

  at(name, place) {
    return valueAt(this.trials.columns[name], place);
  }

  // The names that the agent of a trial has in the tables.
  armsOf(place) {
    return (this.at("arms", place) || this.at("agent", place)).split("\n");
  }

  idTexts() {
    return Array.from({ length: this.trials.count }, (_, place) =>
      ["trial_id", "task_id", "variant_id", "agent", "condition"].map((name) => this.at(name, place) || "").concat(labelOf("condition", this.at("condition", place))).join(" ").toLowerCase());
  }

  choices(name) {
    const values = Array.from({ length: this.trials.count }, (_, place) => name === "agent" ? this.armsOf(place) : [this.at(name, place)]);
    return [...new Set(values.flat())].filter((value) => value !== null);
  }

  progressed() {
    if (this.terms.length) this.filter(true);
  }

  async showCell() {
    const name = state.get("cell");
    const found = name ? await rowNamed(name) : null;
    if (name !== state.get("cell")) return;
    this.behind = found && { ...found, trials: new Set(trialsBehind(this, found.table, found.row)) };
    const place = document.getElementById("behind");
    place.hidden = !found;
    if (found) {
      const { table, row } = this.behind;
      const number = this.behind.trials.size;
      const { measures } = await unpack("data-tables");
      const keys = table.keys.map((key) => key === "measure" ? measures[row[key]]?.[0] ?? row[key] : labelOf(key, row[key])).filter((value) => value !== null && value !== "all");
      const other = row.n_trials === number ? "" : ` The value is computed from ${counted(row.n_trials, "trial")}; the list shows the trials with the same keys.`;
      const undo = element("button", { type: "button" }, "All trials");
      undo.addEventListener("click", () => state.set({ cell: "" }, true));
      place.replaceChildren(element("strong", {}, `${counted(number, "trial")} behind ${estimate(row).filter(Boolean).join(" ")}`), ` (${keys.join(", ")}; table `,
        element("a", { href: `#table-${table.name}` }, table.name), `).${other} `, undo);
    }
    this.filter();
  }

  filter(isSame = false) {
    const began = performance.now();
    this.terms = searchTerms(state.get("q"));
    if (this.terms.length && !this.index.isReady) this.index.load(() => this.progressed());
    const size = (found) => found.reduce((sum, each) => sum + each, 0);
    const hits = this.terms.map((term) => [term, this.index.search(term)]).sort(([, one], [, other]) => size(one) - size(other));
    this.terms = hits.map(([term]) => term); // the rarest first: its place is what a line shows
    const chosen = [...GLOBAL, ...FURTHER].filter((name) => state.get(name));
    this.found = [];
    for (let place = 0; place < this.trials.count; place++) {
      const fits = (!this.behind || this.behind.trials.has(place))
        && hits.every(([term, found]) => found[place] || this.ids[place].includes(term))
        && chosen.every((name) => name === "agent" ? this.armsOf(place).includes(state.get(name)) : this.at(name, place) === state.get(name));
      if (fits) this.found.push(place);
    }
    this.sorted = SORTS[state.get("sort")];
    if (this.sorted) this.found.sort((one, other) => (this.at(this.sorted, other) ?? -1) - (this.at(this.sorted, one) ?? -1) || one - other);
    this.pixels = this.terms.length ? FOUND_ROW_PIXELS : ROW_PIXELS;
    if (!isSame || this.active >= this.found.length || this.active < 0) this.active = this.found.length ? 0 : -1;
    this.rows.style.height = `${this.found.length * this.pixels}px`;
    if (!isSame) this.box.scrollTop = 0;
    this.tell(chosen);
    this.draw();
    performance.measure("filter", { start: began });
  }

  tell(chosen) {
    const all = this.trials.count.toLocaleString("en");
    const isPartial = this.terms.length && !this.index.isReady;
    const words = `${this.found.length.toLocaleString("en")} of ${all} trials`;
    document.getElementById("count").replaceChildren(element("a", { href: "#trials" }, words), isPartial ? `, ${Math.round(100 * this.index.chunks.length / this.index.count)} % searched` : "");
    document.getElementById("clear").hidden = !(chosen.length || this.sorted || this.terms.length || this.behind);
    const only = chosen.filter((name) => GLOBAL.includes(name)).map((name) => `${name} ${labelOf(name, state.get(name))}`);
    for (const place of document.querySelectorAll("p.chosen:not(#behind)")) {
      place.hidden = !only.length;
      place.replaceChildren("Only ", element("strong", {}, only.join(", ")), ".");
    }
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.pixels) - 4);
    const last = Math.min(this.found.length, first + Math.ceil(this.box.clientHeight / this.pixels) + 8);
    const places = Array.from({ length: Math.max(0, last - first) }, (_, offset) => first + offset);
    const none = this.trials.count ? "No trial matches the search and the filters." : "The store has no trials.";
    this.rows.replaceChildren(...(this.found.length ? places.map((place) => this.row(place)) : [element("p", { class: "none" }, none)]));
    if (this.active >= first && this.active < last) this.box.setAttribute("aria-activedescendant", `trial-${this.active}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  row(place) {
    const trial = this.found[place];
    const [mark, kind] = MARKS[this.at("outcome", trial)];
    const names = this.sorted && !this.facts.includes(this.sorted) ? [this.sorted, ...this.facts] : this.facts;
    const facts = names.map((name) => this.at(name, trial) === null ? null : FACTS[name](this.at(name, trial))).filter(Boolean);
    if (this.at("noted", trial) !== "no note") facts.unshift(`noted: ${this.at("noted", trial)}`);
    const found = this.terms.map((term) => this.index.around(trial, term)).find(Boolean);
    const row = element("div", {
      class: `trial${trial === this.opened ? " open" : ""}`, role: "option", id: `trial-${place}`, "data-place": place,
      "aria-selected": String(place === this.active), "aria-setsize": this.found.length, "aria-posinset": place + 1,
    },
    element("span", { class: `mark ${kind}`, role: "img", "aria-label": this.at("outcome", trial) }, mark),
    element("span", {}, this.at("variant_id", trial) || this.at("task_id", trial),
      this.hasBenchmarks ? element("span", { class: "aside" }, labelOf("benchmark", this.at("benchmark", trial))) : null),
    element("span", { class: "second", title: this.at("condition", trial) }, facts.join(" · ")),
    found ? element("span", { class: "found" }, found[0], element("mark", {}, found[1]), found[2]) : null);
    row.style.height = `${this.pixels}px`;
    row.style.top = `${place * this.pixels}px`;
    return row;
  }

  press(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.pixels) - 1);
    const last = this.found.length - 1;
    const steps = {
      ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page, PageUp: this.active - page,
      Home: 0, End: last,
    };
    if (event.ctrlKey || event.altKey || event.metaKey || last < 0) return;
    if (event.key in steps) this.choose(Math.min(last, Math.max(0, steps[event.key])), false);
    else if (event.key === "Enter" || event.key === " ") this.choose(this.active, true);
    else return;
    event.preventDefault();
  }

  // Makes a found trial the active one, scrolls to it, and opens it if asked.
  choose(place, isOpened) {
    if (place < 0 || place >= this.found.length) return;
    this.active = place;
    const top = place * this.pixels;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    const bottom = top + this.pixels - this.box.clientHeight;
    if (bottom > this.box.scrollTop) this.box.scrollTop = bottom;
    this.draw();
    if (isOpened) state.set({ trial: this.at("trial_id", this.found[place]), beside: "", action: "" }, true);
  }

  // The place of the trial with an id, or with its first characters; -1 if there is none.
  withId(prefix) {
    return prefix ? this.ids.findIndex((text) => text.startsWith(prefix.toLowerCase())) : -1;
  }

  // Shows an opened trial in the list, without filters if they hide it.
  reveal(trial) {
    this.opened = trial;
    const place = this.found.indexOf(trial);
    if (place >= 0) this.choose(place, false);
    else this.draw();
  }
}
