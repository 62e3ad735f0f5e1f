// One trial in full: facts, the prompt, a strip with a block per action, an outline, and all events in order.

const MARKS = { success: ["✓", "success"], "no success": ["✗", "failure"], missing: ["?", "missing"], running: ["…", "running"] };

class Trial {
  // `at` gives a value of the list of trials. `beside` are the digests of the variants of all shown trials, `prompts` and `texts` what trials share, `atif` is its document for Harbor.
  constructor({ at, columns, parts, prompts, texts, atif = null, beside = [], number = 0, noteAddress = null }) {
    Object.assign(this, { at, columns, parts, prompts, atif, beside, number, noteAddress, isAlone: beside.length < 2, requests: new Requests(parts, texts) });
    const counts = new Map();
    for (const call of this.requests.calls.filter((each) => this.requests.isOwn(each))) counts.set(call.model, (counts.get(call.model) || 0) + 1);
    this.models = [...counts.keys()];
  }

  draw() {
    const { at, parts, isAlone } = this;
    const condition = labelOf("condition", at("condition"));
    const title = `${at("variant_id") || at("task_id")}, ${condition}, ${at("agent")} #${at("trial_index")}`;
    const name = isAlone ? title : [condition, element("span", { class: "aside" }, `${at("variant_id") || at("task_id")}, ${at("agent")} #${at("trial_index")}`)];
    const isWire = state.get("view") === "requests";
    const events = element("ol", { class: "events" }, isWire ? this.requests.calls.map((call) => this.requests.turn(call, this, true)) : this.events());
    const sections = [[this.facts()], [...this.attempts(), ...this.notes()], [this.strip()], this.promptParts(), [this.checkpoints()]].map((section) => element("div", {}, section));
    const happened = element("div", { class: isAlone ? "happened" : "" }, isAlone ? this.outline(events) : null, element("div", {}, element("h4", {}, isWire ? "Requests and replies" : "What happened", this.isAlone || this.number === 0 ? this.buttons(isWire) : null), events));
    const article = element("article", { class: "trial-in-full", "aria-label": title }, element("h3", { title: at("condition"), tabindex: -1, id: this.number === 0 ? "timeline-title" : null }, name), sections, happened);
    article.style.setProperty("--of", JSON.stringify(condition)); // beside other trials, every event says whose it is
    return article;
  }

  // What is shown, how, and the trial as a file.
  buttons(isWire) {
    const toggle = (name, value, words) => {
      const button = element("button", { type: "button", class: "switch", "aria-pressed": String(state.get(name) === value) }, words);
      button.addEventListener("click", () => state.set({ [name]: state.get(name) === value ? "" : value }, true));
      return button;
    };
    const file = (name, title, ending, made) => {
      const button = element("button", { type: "button", class: "switch", title }, name);
      button.addEventListener("click", () => saved(`${this.at("trial_id")}.${ending}`, "application/json", JSON.stringify(made(), null, 1)));
      return button;
    };
    const folds = element("button", { type: "button", class: "switch", title: "open all that is folded, or fold it again" }, "Open all");
    folds.addEventListener("click", () => {
      const isOpen = folds.getAttribute("aria-pressed") !== "true";
      folds.setAttribute("aria-pressed", isOpen);
      for (const each of folds.closest("#timeline").querySelectorAll(".events details")) each.open = isOpen;
    });
    const values = () => Object.fromEntries(Object.keys(this.columns).map((name) => [name, this.at(name)]));
    const whole = () => ({ trial: values(), task: this.prompts.tasks[this.at("task")], variant: this.prompts.variants[this.at("variant")], ...this.parts });
    return element("span", { class: "switches" }, this.requests.calls.length ? toggle("view", "requests", isWire ? "Requests" : `Requests (${this.requests.calls.length})`) : null, toggle("plain", "yes", "Plain text"), folds,
      file("JSON", "this trial as a file", "json", whole), this.atif ? file("ATIF", "this trial as a file for Harbor", "trajectory.json", () => this.atif) : null);
  }

  // An address of this trial and of what happened in it.
  address(action) {
    return `#${new URLSearchParams({ trial: this.at("trial_id").slice(0, 16), action })}`;
  }

  // Everything that happened is an item with an address: the number of an action, or a word. `stop` is what n and p stop at.
  event(key, { kind = "", stop = null, name, line = [] }, ...body) {
    const copy = element("button", { type: "button", class: "copy", title: "Copy the text" }, "copy");
    const item = element("li", { class: `event${kind && ` ${kind}`}`, "data-event": key, "data-stop": stop, tabindex: -1 },
      element("p", {}, element("a", { class: "flag", href: this.address(key), "data-go": key }, name), line, copy), body);
    copy.addEventListener("click", () => copied(copy, [...item.querySelectorAll(":scope > pre, :scope > .prose, :scope > details:not(.request) pre")].map((each) => each.source ?? each.textContent).join("\n\n")));
    return item;
  }

  // The steps, questions, injection, threads and compactions of the trial, each a link.
  outline(events) {
    const entries = (list) => [...list.children].filter((item) => item.dataset.event && !item.classList.contains("minor")).map((item) => {
      const inner = item.querySelector(":scope > details > .events");
      const kind = item.dataset.stop || (item.classList.contains("wasted") ? "wasted" : null);
      const name = item.querySelector(".flag").textContent;
      return element("li", {}, element("a", { href: this.address(item.dataset.event), "data-go": item.dataset.event, class: kind }, name, kind && kind !== "told" ? ` · ${kind}` : null),
        inner ? element("ol", {}, entries(inner)) : null);
    });
    return element("nav", { class: "outline", "aria-label": "What happened" }, element("ol", {}, entries(events)));
  }

  // Beside other trials, only what differs between them.
  facts() {
    const { at, parts, isAlone } = this;
    const [mark, kind] = MARKS[at("outcome")];
    const last = parts.attempts[parts.attempts.length - 1];
    const usd = at("cost_usd");
    const facts = [
      ["outcome", element("span", { class: kind }, `${mark} ${at("outcome")}${last[3] ? `, ${last[3].replace("_", " ")}` : ""}`)],
      ...(isAlone ? [["benchmark", labelOf("benchmark", at("benchmark"))], ["task", at("task_id")], ["variant", at("variant_id")],
        ["class", at("ambiguity_class")], ["agent", at("agent")], ["model", this.models.join(", ")], ["role", at("role")]] : []),
      ["progress", at("checkpoint_progress") === null ? null : `${(100 * at("checkpoint_progress")).toFixed(1)} %`],
      ["actions", at("action_count")], ["questions", at("question_count")],
      ["cost", `${usd === null ? "unknown cost" : `${usd} USD`}, ${at("tokens") === null ? "unknown" : at("tokens").toLocaleString("en")} tokens`],
      ["time", last[4] === null ? null : `${last[4]} s`], ["trial", at("trial_id")],
    ];
    return element("dl", { class: "facts" }, facts.flatMap(([name, value]) =>
      value === null || value === undefined || value === "" ? [] : [element("dt", {}, name), element("dd", {}, value instanceof Node ? value : String(value))]));
  }

  // Shown if there are several attempts, or if the only one does not count.
  attempts() {
    const { parts } = this;
    const shown = parts.attempts.length > 1 ? parts.attempts : parts.attempts.filter((attempt) => attempt[1] !== "valid");
    if (!shown.length) return [];
    return [element("h4", {}, "Attempts"), element("ul", {}, shown.map(([number, state, stream, , seconds, boundary, kind, message, isOwed]) =>
      element("li", {}, `${number}: ${state}`, kind ? ` at ${boundary === null ? "an unknown boundary" : boundary} (${kind}): ${message}` : "", seconds === null ? "" : `, ${seconds} s`,
        isOwed ? ", a retry is owed" : "", `, stream ${stream}`)))];
  }

  notes() {
    const { notes, attempts } = this.parts;
    const form = this.noteAddress ? element("p", {}, element("a", { href: this.noteAddress }, "Write a note")) : null;
    if (!notes) return form ? [form] : [];
    return [element("h4", {}, "Notes"), element("ul", {}, notes.map(([attempt, author, cause, note]) =>
      element("li", {}, element("span", { class: "flag told" }, cause === null ? author : `${author} blames the ${cause.replace("_", " ")}`), `${attempts.length > 1 ? ` (attempt ${attempt})` : ""}: ${note}`))), form];
  }

  strip() {
    const { parts } = this;
    const actions = parts.actions || [];
    const after = this.injectedAfter();
    const answered = new Set((parts.questions || []).filter(hasRevealed).map(([action]) => action));
    const blocks = actions.flatMap((action) => {
      const block = this.block(action[0], this.kinds(action).join(" "), `${action[0]} ${action[2] || "text"}`);
      if (action[0] === after) return [block, this.block("injection", "told", "injection")];
      return answered.has(action[0]) ? [block, this.block(action[0], "told", "answer")] : [block];
    });
    if (after === 0) blocks.unshift(this.block("injection", "told", "injection"));
    const kinds = [["tool", "action"], ["text", "text only"], ["ask", "question"], ["error", "error"], ["wasted", "wasted"], ["told", "information arrives"]];
    const seen = kinds.filter(([kind]) => blocks.some((block) => block.classList.contains(kind)));
    const legend = seen.map(([kind, name]) => element("li", {}, element("span", { class: "strip" }, element("span", { class: kind })), name));
    const isJudged = actions.some((action) => typeof action[8] === "boolean"); // only of injections, and not of single attempts
    const words = `${counted(actions.length, "action")}${after === null ? "" : `, injection after action ${after}`}`
      + `${answered.size ? `, answers with information to ${counted(answered.size, "question")}` : ""}`
      + `${isJudged ? `, ${counted(actions.filter((action) => action[8]).length, "wasted action")}` : ""}`;
    const times = this.times(actions);
    if (times) legend.push(element("li", {}, "below: time of each, with its model call"));
    return element("div", {}, element("div", { class: "strip", role: "img", "aria-label": words }, blocks), times, element("ul", { class: "legend", "aria-hidden": "true" }, legend));
  }

  // The same actions, as wide as the time that each took with the model call that asked for it; null if no time is known.
  times(actions) {
    const asked = new Set();
    const blocks = actions.map((action) => {
      const ms = (action[6] ?? 0) + (asked.has(action[7]) ? 0 : this.requests.byId.get(action[7])?.ms ?? 0);
      asked.add(action[7]);
      const block = this.block(action[0], this.kinds(action).join(" "), `${action[0]} ${action[2] || "text"}: ${(ms / 1000).toFixed(1)} s`);
      block.style.flexGrow = ms;
      return block;
    });
    return blocks.some((block) => Number(block.style.flexGrow) > 0) ? element("div", { class: "strip times", "aria-hidden": "true" }, blocks) : null;
  }

  // The outline leads to the same places by the keyboard.
  block(key, kind, title) {
    return element("a", { class: kind, title, href: this.address(key), "data-go": key, tabindex: -1 });
  }

  kinds([, kind, name, , isError, , , , isWasted]) {
    const kinds = [kind === "text" ? "text" : "tool"];
    if (name === "ask_user") kinds.push("ask");
    if (isError) kinds.push("error");
    if (isWasted) kinds.push("wasted");
    return kinds;
  }

  injectedAfter() {
    const told = (this.parts.injections || []).find(([status]) => status === "injected");
    return told ? told[3] : null;
  }

  promptParts() {
    const { at, prompts } = this;
    const [, removed] = prompts.variants[at("variant")] || [null, []];
    const task = prompts.tasks[at("task")];
    const isFull = at("variant_id") === null || /^full/.test(at("condition"));
    if (isFull) {
      const compared = this.beside.find((digest) => prompts.variants[digest]?.[0]);
      if (!task || !compared) return [folded("Prompt", task || "not recorded", true)];
      return [marked("Prompt, with what the variant lacks", difference(task, prompts.variants[compared][0]).filter(([kind]) => kind !== "added"))];
    }
    const given = (prompts.variants[at("variant")] || [])[0];
    if (!task || !given) return [folded("Prompt as given", given || "not recorded", true)];
    const shown = [marked("Prompt, with what was removed from it", difference(task, given)), folded("Prompt as given", given)];
    if (removed.length) {
      shown.push(element("h4", {}, "What was removed"), element("ul", {}, removed.map(([id, dimension, sub, value]) =>
        element("li", {}, `${id} (${dimension}${sub ? `, ${sub}` : ""}): `, element("q", {}, value)))));
    }
    return shown;
  }

  checkpoints() {
    const { parts } = this;
    if (!parts.checkpoints) return element("p", { class: "aside" }, "Not graded.");
    const rows = parts.checkpoints.map(([id, label, score, total, details]) => element("tr", {}, element("td", {}, id),
      element("td", { class: `number ${score >= total ? "success" : "failure"}` }, `${score} of ${total}`), element("td", {}, label), element("td", {}, details)));
    const head = ["checkpoint", "score", "what", "details"].map((name) => element("th", { scope: "col" }, name));
    return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Checkpoints" },
      element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows)));
  }

  events() {
    const { parts, requests } = this;
    const after = this.injectedAfter();
    const told = (parts.injections || []).map((injection) => this.injection(injection));
    const questions = grouped(parts.questions || []);
    const acting = grouped((parts.actions || []).map((action) => [action[7], action]));
    const waiting = [...requests.calls];
    const events = after === 0 ? [...told] : [];
    let usd = 0;
    // What was said up to a call, without the actions that it asked for; up to the end without a call.
    const say = (last) => {
      while (waiting.length) {
        const call = waiting.shift();
        usd = call.usd === null || usd === null ? null : usd + call.usd;
        if (requests.isOwn(call)) events.push(this.changed(call), ...this.said(call, (acting.get(call.id) || []).map(([, action]) => action)));
        else events.push(requests.begunBy(call, this));
        if (call.id === last) return;
      }
    };
    for (const action of parts.actions || []) {
      const call = requests.byId.get(action[7]);
      const isFirst = call !== undefined && waiting.includes(call);
      if (isFirst) say(call.id);
      else if (action[7] === null) usd = null; // no model call is known
      events.push(this.action(action, questions.get(action[0]) || [], call, isFirst ? requests.fold(call) : null, usd));
      if (action[0] === after) events.push(...told);
    }
    say(null);
    if (after === null) events.push(...told);
    for (const [text] of parts.answers || []) events.push(this.event("answer", { name: "final answer" }, prose(text)));
    for (const [role, name, size, text] of parts.artifacts || []) events.push(this.event(`file-${name}`, { name: `${role.replaceAll("_", " ")}: ${name}` }, folded(counted(size, "byte"), text)));
    return events.filter(Boolean);
  }

  // A program has shortened or rewritten its own history.
  changed({ id, change }) {
    if (!change || change === "promoted") return null;
    const words = { compacted: "compaction: earlier replies are gone from here on", restarted: "the history begins anew", rewound: "the end of the history is taken back" };
    return this.event(`change-${id}`, { kind: "compaction", name: words[change] || change });
  }

  // The reasoning and the text of a reply of the agent's own thread; of one without actions also that it was.
  said(call, actions) {
    const shown = [];
    if (call.reasoning !== null || call.reasoningTokens) shown.push(this.reasoning(call));
    const isText = actions.some(([, kind]) => kind === "text");
    if (actions.length && call.text && !isText) shown.push(this.event(`text-${call.id}`, { kind: "minor", name: `${call.role} says` }, prose(call.text)));
    if (actions.length) return shown;
    const isWaiting = this.at("outcome") === "running";
    const line = [call.text === null && call.error === null ? element("span", { class: isWaiting ? "flag" : "flag error" }, isWaiting ? "no reply yet" : "no reply") : null,
      this.requests.failed(call), element("span", { class: "aside" }, this.requests.costs(call))];
    return [...shown, this.event(`call-${call.id}`, { name: call.text === null ? "model call" : `${call.role} says`, line, stop: call.error === null ? null : "error" },
      call.text ? prose(call.text) : null, this.requests.fold(call))];
  }

  reasoning({ id, role, reasoning, reasoningTokens }) {
    const size = reasoningTokens === null ? "" : `, ${counted(reasoningTokens, "token")}`;
    const name = `${role} reasons${size}${reasoning === null ? ", hidden by the provider" : ""}`;
    return this.event(`thought-${id}`, { kind: "minor", name }, reasoning === null ? null : element("details", {}, element("summary", {}, counted(reasoning.length, "character")), prose(reasoning)));
  }

  action([number, kind, name, given, isError, returned, ms, , isWasted, isOpen, at], questions, call, request, usd) {
    const line = [];
    if (questions.length) line.push(element("span", { class: "flag ask" }, "question"));
    if (kind === "malformed") line.push(element("span", { class: "flag error" }, "malformed call"));
    if (isError) line.push(element("span", { class: "flag error" }, "error"));
    if (isWasted) line.push(element("span", { class: "flag wasted" }, "wasted"));
    if (isOpen) line.push(element("span", { class: "flag error" }, "never finished"));
    const tokens = call && call.input !== null && call.output !== null ? `${call.input} + ${call.output} tokens` : null;
    const costs = [at === null ? null : `at ${at} s`, request && call.ms !== null ? `model ${call.ms} ms` : null, ms === null ? null : `action ${ms} ms`, tokens, usd === null ? null : `${Number(usd.toFixed(6))} USD so far`];
    line.push(element("span", { class: "aside" }, costs.filter(Boolean).join(" · ")));
    const arrives = questions.some(hasRevealed);
    if (arrives) line.push(element("span", { class: "flag told" }, "the information arrives"));
    const body = questions.length ? questions.flatMap((question) => this.question(question)) : [
      kind === "text" && call ? prose(call.text) : null,
      given && given !== "{}" ? shownArguments(given) : null,
      returned ? result(returned) : null,
    ];
    const stop = questions.length ? "question" : isError || isOpen || kind === "malformed" ? "error" : null;
    return this.event(number, { kind: [questions.length && "question", arrives && "arrival", isWasted && "wasted"].filter(Boolean).join(" "), stop, name: `${number} ${kind === "text" ? "turn of text" : name}`, line }, body, request);
  }

  question([, question, context, answer, simulator, revealed]) {
    const told = revealed === null ? "what it revealed is unknown"
      : `revealed ${revealed.map(([segment, how]) => `${segment}${how ? ` (${how})` : ""}`).join(", ") || "nothing"}`;
    return [
      prose(context ? `${question}\n\ncontext: ${context}` : question),
      simulator === null ? element("p", {}, element("span", { class: "flag error" }, "never answered"))
        : element("p", {}, element("span", { class: "flag ask" }, `${answer === null ? "unknown answer" : "answer"} by ${simulator}`), element("span", { class: "aside" }, told)),
      answer === null ? null : prose(answer),
    ];
  }

  injection([status, percent, target, after, message, segments, reason]) {
    const isTold = status === "injected";
    const due = target === null ? "" : ` (due after ${isTold ? "" : "action "}${target})`;
    const name = isTold ? `injection at ${percent} % of the budget, after action ${after}${due}`
      : `no injection at ${percent} %: ${String(reason).replace("_", " ")}${due}`;
    return this.event("injection", { kind: `injection${isTold ? " arrival" : ""}`, stop: "told", name, line: [element("span", { class: "aside" }, (segments || []).join(", "))] }, message ? prose(message) : null);
  }
}

// A page that a daemon sends to another machine without encryption has no clipboard of its own.
async function copied(button, text) {
  let isDone = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { readonly: true });
    area.value = text;
    button.after(area);
    area.select();
    isDone = document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = isDone ? "copied" : "refused";
}

function hasRevealed([, , , , , revealed]) {
  return revealed !== null && revealed !== undefined && revealed.length > 0;
}

// A prompt in which removed words are struck out and words that came instead stand out.
function marked(title, parts) {
  const shown = parts.map(([kind, text]) => kind === "same" ? text : element(kind === "removed" ? "del" : "ins", {}, text));
  return element("details", { open: true, class: "prompt" }, element("summary", {}, title), element("pre", { tabindex: 0 }, shown));
}

let hits = []; // of the search in the open trials, in order

// Marks what was searched for; if asked, opens what hides it.
function showHits(box, terms, isOpening) {
  if (typeof Highlight === "undefined") return; // Firefox before 140
  CSS.highlights.clear();
  hits = [];
  if (!terms.length) return;
  const texts = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const lower = node.data.toLowerCase();
    for (const term of terms) {
      for (let at = lower.indexOf(term); at >= 0 && lower.length === node.data.length; at = lower.indexOf(term, at + term.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + term.length);
        hits.push(range);
      }
    }
  }
  if (isOpening) hits.forEach((range) => { const fold = range.startContainer.parentElement.closest("details"); if (fold) fold.open = true; });
  CSS.highlights.set("hits", new Highlight(...hits));
}

function grouped(questions) {
  const groups = new Map();
  for (const question of questions) groups.set(question[0], [...(groups.get(question[0]) || []), question]);
  return groups;
}
