// Trials in full: facts, the prompt, a strip with a block per action, and all events in order; one trial, or several side by side.

class Timeline {
  constructor(list, trials) {
    this.list = list;
    this.trials = trials;
    this.box = document.getElementById("timeline");
    this.shown = [];
    this.box.addEventListener("keydown", (event) => this.press(event));
    state.onChange((changed) => {
      if (changed.has("trial") || changed.has("beside")) this.follow();
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
    const [prompts, texts, ...chunks] = await Promise.all([unpack("data-prompts"), unpack("data-requests"), ...wanted.map((trial) => unpack(`data-chunk-${Math.floor(trial / this.trials.chunk)}`))]);
    if (wanted !== this.shown) return; // other trials were chosen meanwhile
    const columns = wanted.map((trial, number) => this.trial(trial, chunks[number][trial % this.trials.chunk], prompts, texts, number));
    this.box.replaceChildren(...[this.siblings(first, others), wanted.length > 1 ? element("div", { class: "columns" }, columns) : columns[0]].filter(Boolean));
    this.box.setAttribute("aria-labelledby", "timeline-title");
    showHits(this.box, this.list.terms, true);
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

  trial(trial, parts, prompts, texts, number) {
    const at = (name) => this.list.at(name, trial);
    const condition = labelOf("condition", at("condition"));
    const title = `${at("variant_id") || at("task_id")}, ${condition}, ${at("agent")} #${at("trial_index")}`;
    const isOne = this.shown.length === 1;
    const name = isOne ? title : [condition, element("span", { class: "aside" }, `${at("variant_id") || at("task_id")}, ${at("agent")} #${at("trial_index")}`)];
    const sections = [[this.facts(at, parts, isOne)], [...this.attempts(parts), ...this.notes(at, parts)], [this.strip(parts)], this.prompts(at, prompts), [this.checkpoints(parts)],
      [element("h4", {}, "What happened"), element("ol", { class: "events" }, this.events(parts, new Requests(parts, texts)))]];
    return element("article", { class: "trial-in-full", "aria-label": title }, element("h3", { title: at("condition"), tabindex: -1, id: number === 0 ? "timeline-title" : null }, name),
      sections.map((section) => element("div", {}, section)));
  }

  // Beside other trials, only what differs between them.
  facts(at, parts, isWhole) {
    const [mark, kind] = MARKS[at("outcome")];
    const last = parts.attempts[parts.attempts.length - 1];
    const usd = at("cost_usd");
    const facts = [
      ["outcome", element("span", { class: kind }, `${mark} ${at("outcome")}${last[3] ? `, ${last[3].replace("_", " ")}` : ""}`)],
      ...(isWhole ? [["benchmark", labelOf("benchmark", at("benchmark"))], ["task", at("task_id")], ["variant", at("variant_id")],
        ["class", at("ambiguity_class")], ["agent", at("agent")], ["role", at("role")]] : []),
      ["progress", at("checkpoint_progress") === null ? null : `${(100 * at("checkpoint_progress")).toFixed(1)} %`],
      ["actions", at("action_count")], ["questions", at("question_count")],
      ["cost", `${usd === null ? "unknown cost" : `${usd} USD`}, ${at("tokens") === null ? "unknown" : at("tokens").toLocaleString("en")} tokens`],
      ["time", last[4] === null ? null : `${last[4]} s`], ["trial", at("trial_id")],
    ];
    return element("dl", { class: "facts" }, facts.flatMap(([name, value]) =>
      value === null || value === undefined || value === "" ? [] : [element("dt", {}, name), element("dd", {}, value instanceof Node ? value : String(value))]));
  }

  // Shown if there are several attempts, or if the only one does not count.
  attempts(parts) {
    const shown = parts.attempts.length > 1 ? parts.attempts : parts.attempts.filter((attempt) => attempt[1] !== "valid");
    if (!shown.length) return [];
    return [element("h4", {}, "Attempts"), element("ul", {}, shown.map(([number, state, stream, , seconds, boundary, kind, message, isOwed]) =>
      element("li", {}, `${number}: ${state}`, kind ? ` at ${boundary === null ? "an unknown boundary" : boundary} (${kind}): ${message}` : "", seconds === null ? "" : `, ${seconds} s`,
        isOwed ? ", a retry is owed" : "", `, stream ${stream}`)))];
  }

  // A daemon has a page of each attempt, with a form for notes.
  notes(at, parts) {
    const stream = parts.attempts[parts.attempts.length - 1][2];
    const form = IS_SERVED ? element("p", {}, element("a", { href: `/experiments/${encodeURIComponent(at("experiment_id"))}/attempts/${encodeURIComponent(stream)}#note-it` }, "Write a note")) : null;
    if (!parts.notes) return form ? [form] : [];
    return [element("h4", {}, "Notes"), element("ul", {}, parts.notes.map(([attempt, author, cause, note]) =>
      element("li", {}, element("span", { class: "flag told" }, cause === null ? author : `${author} blames the ${cause.replace("_", " ")}`), `${parts.attempts.length > 1 ? ` (attempt ${attempt})` : ""}: ${note}`))), form];
  }

  strip(parts) {
    const actions = parts.actions || [];
    const after = this.injectedAfter(parts);
    const answered = new Set((parts.questions || []).filter(hasRevealed).map(([action]) => action));
    const blocks = actions.flatMap((action) => {
      const block = element("span", { class: this.kinds(action).join(" "), title: `${action[0]} ${action[2] || "text"}` });
      if (action[0] === after) return [block, element("span", { class: "told", title: "injection" })];
      return answered.has(action[0]) ? [block, element("span", { class: "told", title: "answer" })] : [block];
    });
    if (after === 0) blocks.unshift(element("span", { class: "told", title: "injection" }));
    const kinds = [["tool", "action"], ["text", "text only"], ["ask", "question"], ["error", "error"], ["wasted", "wasted"], ["told", "information arrives"]];
    const seen = kinds.filter(([kind]) => blocks.some((block) => block.classList.contains(kind)));
    const legend = seen.map(([kind, name]) => element("li", {}, element("span", { class: "strip" }, element("span", { class: kind })), name));
    const words = `${counted(actions.length, "action")}${after === null ? "" : `, injection after action ${after}`}, `
      + `${answered.size ? `answers with information to ${counted(answered.size, "question")}, ` : ""}`
      + `${counted(actions.filter((action) => action[8]).length, "wasted action")}`;
    return element("div", {}, element("div", { class: "strip", role: "img", "aria-label": words }, blocks), element("ul", { class: "legend", "aria-hidden": "true" }, legend));
  }

  kinds([, kind, name, , isError, , , , isWasted]) {
    const kinds = [kind === "text" ? "text" : "tool"];
    if (name === "ask_user") kinds.push("ask");
    if (isError) kinds.push("error");
    if (isWasted) kinds.push("wasted");
    return kinds;
  }

  injectedAfter(parts) {
    const told = (parts.injections || []).find(([status]) => status === "injected");
    return told ? told[3] : null;
  }

  prompts(at, prompts) {
    const [, removed] = prompts.variants[at("variant")] || [null, []];
    const task = prompts.tasks[at("task")];
    const isFull = at("variant_id") === null || /^full/.test(at("condition"));
    if (isFull) {
      const compared = this.shown.map((trial) => this.list.at("variant", trial)).find((digest) => prompts.variants[digest]?.[0]);
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

  checkpoints(parts) {
    if (!parts.checkpoints) return element("p", { class: "aside" }, "Not graded.");
    const rows = parts.checkpoints.map(([id, label, score, total, details]) => element("tr", {}, element("td", {}, id),
      element("td", { class: `number ${score >= total ? "success" : "failure"}` }, `${score} of ${total}`), element("td", {}, label), element("td", {}, details)));
    const head = ["checkpoint", "score", "what", "details"].map((name) => element("th", { scope: "col" }, name));
    return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Checkpoints" },
      element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows)));
  }

  events(parts, requests) {
    const after = this.injectedAfter(parts);
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
        if (requests.isOwn(call)) events.push(...this.said(call, (acting.get(call.id) || []).map(([, action]) => action), requests));
        else events.push(requests.begunBy(call));
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
    for (const [text] of parts.answers || []) events.push(element("li", { class: "event" }, element("p", {}, element("span", { class: "flag" }, "final answer")), element("pre", { tabindex: 0 }, text)));
    return events.filter(Boolean);
  }

  // The reasoning and the text of a reply of the agent's own thread; of one without actions also that it was.
  said(call, actions, requests) {
    const shown = [];
    if (call.reasoning !== null || call.reasoningTokens) shown.push(this.reasoning(call));
    const isText = actions.some(([, kind]) => kind === "text");
    if (actions.length && call.text && !isText) shown.push(this.reply(call));
    if (actions.length) return shown;
    const line = [element("span", { class: "flag" }, call.text === null ? "model call" : `${call.role} says`), call.text === null && call.error === null ? element("span", { class: "flag error" }, "no reply") : null,
      requests.failed(call), element("span", { class: "aside" }, requests.costs(call))];
    return [...shown, element("li", { class: "event" }, element("p", {}, line), call.text ? element("pre", { tabindex: 0 }, call.text) : null, requests.fold(call))];
  }

  reasoning({ role, reasoning, reasoningTokens }) {
    const size = reasoningTokens === null ? "" : `, ${counted(reasoningTokens, "token")}`;
    const shown = reasoning === null ? element("p", { class: "aside" }, `${role} reasons${size}, hidden by the provider`) : folded(`${role} reasons${size}`, reasoning);
    return element("li", { class: "event" }, shown);
  }

  reply({ role, text }) {
    return element("li", { class: "event" }, element("p", {}, element("span", { class: "flag" }, `${role} says`)), element("pre", { tabindex: 0 }, text));
  }

  action([number, kind, name, args, isError, result, ms, , isWasted, isOpen, at], questions, call, request, usd) {
    const line = [element("span", { class: "flag" }, `${number} ${kind === "text" ? "turn of text" : name}`)];
    if (questions.length) line.push(element("span", { class: "flag ask" }, "question"));
    if (kind === "malformed") line.push(element("span", { class: "flag error" }, "malformed call"));
    if (isError) line.push(element("span", { class: "flag error" }, "error"));
    if (isWasted) line.push(element("span", { class: "flag wasted" }, "wasted"));
    if (isOpen) line.push(element("span", { class: "flag error" }, "never finished"));
    const tokens = call && call.input !== null && call.output !== null ? `${call.input} + ${call.output} tokens` : null;
    const costs = [at === null ? null : `at ${at} s`, request && call.ms !== null ? `model ${call.ms} ms` : null, ms === null ? null : `action ${ms} ms`, tokens, usd === null ? null : `${Number(usd.toFixed(6))} USD so far`];
    line.push(element("span", { class: "aside" }, costs.filter(Boolean).join(" · ")));
    const body = questions.length ? questions.flatMap((question) => this.question(question)) : [
      kind === "text" && call ? element("pre", { tabindex: 0 }, call.text) : null,
      args && args !== "{}" ? element("pre", { tabindex: 0 }, argumentLines(args)) : null,
      result ? folded(`result, ${counted(result.length, "character")}`, result) : null,
    ];
    if (questions.some(hasRevealed)) line.push(element("span", { class: "flag told" }, "the information arrives"));
    return element("li", { class: `event${questions.length ? " question" : ""}${questions.some(hasRevealed) ? " arrival" : ""}${isWasted ? " wasted" : ""}` }, element("p", {}, line), body, request);
  }

  question([, question, context, answer, simulator, revealed]) {
    const told = revealed === null ? "what it revealed is unknown"
      : `revealed ${revealed.map(([segment, how]) => `${segment}${how ? ` (${how})` : ""}`).join(", ") || "nothing"}`;
    return [
      element("pre", { tabindex: 0 }, context ? `${question}\n\ncontext: ${context}` : question),
      simulator === null ? element("p", {}, element("span", { class: "flag error" }, "never answered"))
        : element("p", {}, element("span", { class: "flag ask" }, `${answer === null ? "unknown answer" : "answer"} by ${simulator}`), element("span", { class: "aside" }, told)),
      answer === null ? null : element("pre", { tabindex: 0 }, answer),
    ];
  }

  injection([status, percent, target, after, message, segments, reason]) {
    const isTold = status === "injected";
    const due = target === null ? "" : ` (due after ${isTold ? "" : "action "}${target})`;
    const words = isTold ? `injection at ${percent} % of the budget, after action ${after}${due}`
      : `no injection at ${percent} %: ${String(reason).replace("_", " ")}${due}`;
    return element("li", { class: `event injection${isTold ? " arrival" : ""}` },
      element("p", {}, element("span", { class: "flag told" }, words), element("span", { class: "aside" }, (segments || []).join(", "))),
      message ? element("pre", { tabindex: 0 }, message) : null);
  }
}

// Shows arguments one per line, texts with their own line breaks; JSON that is not an object, or was cut, stays as it is.
function argumentLines(json) {
  try {
    const given = JSON.parse(json);
    if (given === null || typeof given !== "object" || Array.isArray(given)) return json;
    return Object.entries(given).map(([name, value]) => {
      const text = typeof value === "string" ? value.trimEnd() : JSON.stringify(value, null, 1);
      return text.includes("\n") ? `${name}:\n${text}` : `${name}: ${text}`;
    }).join("\n");
  } catch {
    return json;
  }
}

function hasRevealed([, , , , , revealed]) {
  return revealed !== null && revealed !== undefined && revealed.length > 0;
}

// A prompt in which removed words are struck out and words that came instead stand out.
function marked(title, parts) {
  const shown = parts.map(([kind, text]) => kind === "same" ? text : element(kind === "removed" ? "del" : "ins", {}, text));
  return element("details", { open: true, class: "prompt" }, element("summary", {}, title), element("pre", { tabindex: 0 }, shown));
}

// Marks what was searched for; if asked, opens what hides it.
function showHits(box, terms, isOpening) {
  if (typeof Highlight === "undefined") return; // Firefox before 140
  CSS.highlights.delete("hits");
  if (!terms.length) return;
  const ranges = [];
  const texts = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const lower = node.data.toLowerCase();
    for (const term of terms) {
      for (let at = lower.indexOf(term); at >= 0 && lower.length === node.data.length; at = lower.indexOf(term, at + term.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + term.length);
        ranges.push(range);
      }
    }
  }
  if (isOpening) ranges.forEach((range) => { const fold = range.startContainer.parentElement.closest("details"); if (fold) fold.open = true; });
  CSS.highlights.set("hits", new Highlight(...ranges));
}

function grouped(questions) {
  const groups = new Map();
  for (const question of questions) groups.set(question[0], [...(groups.get(question[0]) || []), question]);
  return groups;
}
