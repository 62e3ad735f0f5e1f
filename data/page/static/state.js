// What the reader has chosen, kept in the part of the address after #, so that an address shows another reader the same.

const LABELS = JSON.parse(document.body.dataset.labels);
const IS_SERVED = location.protocol.startsWith("http"); // by a daemon
const CHOICES = ["q", "benchmark", "agent", "condition", "experiment_id", "outcome", "role", "ambiguity_class", "noted", "sort"];

class State {
  constructor() {
    this.values = State.read();
    this.listeners = [];
    addEventListener("popstate", () => this.follow());
    addEventListener("hashchange", () => this.follow());
  }

  // "#table-overall" names a place on the page; "#agent=a&trial=7f" has names and values.
  static read() {
    const text = location.hash.slice(1);
    if (text.includes("=")) return Object.fromEntries(new URLSearchParams(text));
    return text ? { at: decodeURIComponent(text) } : {};
  }

  get(name) {
    return this.values[name] || "";
  }

  // Changes values ("" takes one away). A step can be taken back with the browser's button, other changes cannot.
  set(changes, isStep = false) {
    const before = this.values;
    const merged = { ...before, ...changes };
    this.values = Object.fromEntries(Object.entries(merged).filter(([, value]) => value));
    const names = Object.keys(this.values);
    const hash = names.length === 1 && names[0] === "at" ? this.values.at : new URLSearchParams(this.values).toString();
    const address = location.href.split("#")[0] + (hash ? `#${hash}` : "");
    if (address === location.href) return;
    if (isStep) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    this.tell(before);
  }

  follow() {
    const before = this.values;
    this.values = State.read();
    if (JSON.stringify(before) !== JSON.stringify(this.values)) this.tell(before);
  }

  onChange(listener) {
    this.listeners.push(listener);
  }

  tell(before) {
    const changed = new Set([...Object.keys(before), ...Object.keys(this.values)].filter((name) => before[name] !== this.values[name]));
    this.listeners.forEach((listener) => listener(changed));
  }
}

const state = new State();

// What people call a value of a key, for example "may ask" for the condition ask_user.
function labelOf(key, value) {
  return Object.hasOwn(LABELS, key) && Object.hasOwn(LABELS[key], value) ? LABELS[key][value] : value;
}

// A labelled selection of one of several values, bound to a name of the state; none if there is nothing to choose.
function chooser(name, values, first = "all") {
  if (values.length < 2) return null;
  const label = { ambiguity_class: "class", experiment_id: "experiment", noted: "note" }[name] || name;
  const select = element("select", { "data-choice": name }, element("option", { value: "" }, first), values.map((value) => element("option", { value, title: value }, labelOf(name, value))));
  const show = () => { select.value = state.get(name); };
  select.addEventListener("change", () => state.set({ [name]: select.value }, true));
  state.onChange(show);
  show();
  return element("label", {}, label, select);
}
