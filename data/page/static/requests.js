// The model calls of a trial: every request, rebuilt from what was new in it, and the threads beside the agent's own as a tree.

const CALL = ["id", "role", "text", "input", "output", "usd", "ms", "reasoning", "reasoningTokens", "thread", "kind", "change", "parent", "shared",
  "model", "finish", "error", "failure", "tools", "parameters", "toolCalls"];

class Requests {
  // `texts` are those that several requests of the page have, by their numbers.
  constructor(parts, texts) {
    this.texts = texts;
    this.calls = (parts.calls || []).map((row) => Object.fromEntries(CALL.map((name, place) => [name, row[place]])));
    this.byId = new Map(this.calls.map((call) => [call.id, call]));
    this.added = grouped(parts.messages || []);
    this.results = new Map((parts.actions || []).map((action) => [action[0], action[5]]));
    const acting = new Set((parts.actions || []).map((action) => action[7]));
    this.own = new Set(this.calls.filter((call) => call.role === "agent" && (call.kind === "main" || acting.has(call.id))).map((call) => call.thread));
  }

  isOwn(call) {
    return this.own.has(call.thread);
  }

  // What is new in a request.
  news(call) {
    return (this.added.get(call.id) || []).map(([, role, number, text, action, toolCalls, answered]) =>
      ({ role, text: (number === null ? text : this.texts[number]) ?? this.results.get(action) ?? "", toolCalls, answered }));
  }

  // All messages of a request: the first of its parent's with the reply, then what is new.
  messages(call) {
    const parent = this.byId.get(call.parent);
    const before = parent ? this.messages(parent) : [];
    if (parent && parent.text !== null) before.push({ role: "assistant", text: parent.text, toolCalls: parent.toolCalls });
    return [...before.slice(0, call.shared), ...this.news(call)];
  }

  // The tools are recorded in the first call of a thread, and when they change.
  toolsOf(call) {
    const mine = this.calls.slice(0, this.calls.indexOf(call) + 1).filter((each) => each.thread === call.thread && each.tools !== null);
    return mine.length ? this.texts[mine.at(-1).tools] : null;
  }

  // A request and its reply, drawn when opened: a conversation has as many requests as replies, each longer than the one before.
  fold(call) {
    const count = this.news(call).length;
    return foldedLater(`request of ${counted(call.shared + count, "message")}, ${count} new${call.change ? `, ${call.change}` : ""}`, { class: "request" }, () => this.inside(call));
  }

  inside(call) {
    const messages = this.messages(call);
    const tools = this.toolsOf(call);
    const facts = [call.model, call.finish === null ? null : `ended by ${call.finish}`, `call ${call.id} of thread ${call.thread}`].filter(Boolean).join(" · ");
    const earlier = messages.slice(0, call.shared);
    return [element("p", { class: "aside" }, facts),
      call.parameters === null ? null : folded("parameters", indented(this.texts[call.parameters])),
      tools === null ? null : folded("tools", indented(tools)),
      earlier.length ? element("details", {}, element("summary", {}, counted(earlier.length, "earlier message")), earlier.map((each) => this.message(each))) : null,
      ...messages.slice(call.shared).map((each) => this.message(each)),
      call.text === null ? null : this.message({ role: "reply", text: call.text, toolCalls: call.toolCalls }),
      foldedLater("as JSON", {}, () => [element("pre", { tabindex: 0 }, JSON.stringify(this.json(call), null, 1))])].filter(Boolean);
  }

  // A request and its reply with the names of `show --requests`, messages in the form of OpenAI's API.
  json(call) {
    const called = (toolCalls) => typeof toolCalls === "string" ? parsed(toolCalls) : toolCalls.map(([id, name, args]) => ({ id, type: "function", function: { name, arguments: args } }));
    const said = ({ role, text, toolCalls, answered }) => ({ role, content: text, ...(toolCalls?.length ? { tool_calls: called(toolCalls) } : {}), ...(answered ? { tool_call_id: answered } : {}) });
    return { call_id: call.id, role: call.role, thread_id: call.thread, call_kind: call.kind, model: call.model,
      parameters: call.parameters === null ? null : parsed(this.texts[call.parameters]), tools: parsed(this.toolsOf(call)), messages: this.messages(call).map(said),
      failure: call.error === null ? null : { error_kind: call.error, message: call.failure },
      reply: call.text === null ? null : { message: said({ role: "assistant", text: call.text, toolCalls: call.toolCalls }), finish_reason: call.finish } };
  }

  message({ role, text, toolCalls }) {
    const calls = typeof toolCalls === "string" ? indented(toolCalls) : (toolCalls || []).map(([id, name, args]) => `${name} (${id})\n${argumentLines(args)}`).join("\n\n");
    return element("div", {}, element("span", { class: "flag" }, role), [text, calls].filter(Boolean).map((each) => element("pre", { tabindex: 0 }, each)));
  }

  // What stands beside the name of a call: its size, time and price.
  costs(call) {
    const tokens = call.input !== null && call.output !== null ? `${call.input} + ${call.output} tokens` : null;
    return [call.ms === null ? null : `${call.ms} ms`, tokens, call.usd === null ? null : `${call.usd} USD`].filter(Boolean).join(" · ");
  }

  failed(call) {
    return call.error === null ? null : [element("span", { class: "flag error" }, `failed: ${call.error.replaceAll("_", " ")}`), element("span", {}, call.failure)];
  }

  // The threads that a call begins: a sub-agent's, a summary's, that of the simulated user. Those that it forks are inside.
  begunBy(call, trial) {
    const first = this.calls.find((each) => each.thread === call.thread);
    const parent = this.byId.get(call.parent);
    const isInside = parent && parent.thread !== call.thread && !this.isOwn(parent);
    return first === call && !this.isOwn(call) && !isInside ? this.thread(call.thread, trial) : null;
  }

  thread(name, trial) {
    const mine = this.calls.filter((each) => each.thread === name);
    const usd = mine.every((each) => each.usd !== null) ? `${Number(mine.reduce((sum, each) => sum + each.usd, 0).toFixed(6))} USD` : null;
    const kind = mine[0].role === "agent" ? `${mine[0].kind.replace("_", "-")}${mine[0].kind === "side" ? " call" : ""}` : mine[0].role.replace("_", " ");
    const title = [element("span", { class: "flag" }, kind), element("span", { class: "aside" }, [name, counted(mine.length, "model call"), usd].filter(Boolean).join(" · "))];
    const inside = mine.flatMap((call) => {
      const forks = this.calls.filter((each) => each.parent === call.id && each.thread !== name && !this.isOwn(each)).map((each) => each.thread);
      return [this.turn(call, trial), ...[...new Set(forks)].map((each) => this.thread(each, trial))];
    });
    return element("li", { class: "event thread", "data-event": `thread-${name}`, tabindex: -1 }, element("details", {}, element("summary", {}, title), element("ol", { class: "events" }, inside)));
  }

  // One call of a thread beside the agent's own: what is new in it, and what the model replied.
  turn(call, trial, isOpen = false) {
    const line = [this.failed(call), element("span", { class: "aside" }, this.costs(call))];
    return trial.event(`call-${call.id}`, { name: call.id, line, stop: call.error === null ? null : "error" }, this.news(call).map((each) => folded(`${each.role}, ${counted(each.text.length, "character")}`, each.text, isOpen)),
      call.reasoning ? folded("reasoning", call.reasoning) : null,
      call.text === null ? null : this.message({ role: "reply", text: call.text, toolCalls: call.toolCalls }), this.fold(call));
  }
}
