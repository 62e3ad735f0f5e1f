// The review workbench: shows variants one at a time and sends the decisions that single keys stand for. What a
// reviewer has typed, and a decision that the daemon has not confirmed yet, are kept in this browser.
"use strict";

const AGAIN_MS = 2000;
const CHECK_MS = 300;
const DECIDED = { accepted: "You accepted this variant", rejected: "You rejected this variant", edited: "You edited this variant" };

const part = (id) => document.getElementById(id);
const reviewer = part("workbench").dataset.reviewer;
const conditions = JSON.parse(part("workbench").dataset.conditions);
const api = `/api/reviews/${encodeURIComponent(reviewer)}`;
const chosen = new URLSearchParams(location.search);
const comparisons = new Map();
const sitting = { variants: [], at: 0, shown: null, decided: 0, beganMs: Date.now(), isBusy: true };
const seen = { ms: 0, sinceMs: Date.now() };

// What was typed about each variant: {note, text, pending}. All tabs of a browser share it.
const keyOf = (digest) => `review ${reviewer} ${digest}`;

function draft(digest) {
  try {
    return JSON.parse(localStorage.getItem(keyOf(digest))) ?? {};
  } catch {
    return {};
  }
}

function keep(digest, changes) {
  const kept = JSON.stringify({ ...draft(digest), ...changes });
  if (kept === "{}") localStorage.removeItem(keyOf(digest));
  else localStorage.setItem(keyOf(digest), kept);
}

// Asks the daemon. Throws an error with a kind if it refuses, and one without if it does not answer.
async function ask(path, body) {
  const reply = await post(api + path, body);
  const answer = await reply.json();
  if (reply.ok) return answer;
  throw Object.assign(new Error(answer.error.message), { kind: answer.error.kind });
}

// Asks the daemon until it answers.
async function askAgain(path, body) {
  for (;;) {
    try {
      const answer = await ask(path, body);
      complain("");
      return answer;
    } catch (error) {
      if (error.kind) throw error;
      complain(`${SILENT} Your texts and decisions are kept, and are sent when it answers.`);
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
}

function setBusy(isBusy) {
  sitting.isBusy = isBusy;
  part("workbench").setAttribute("aria-busy", isBusy);
}

const digestAt = (at) => sitting.variants[at]?.variant_digest;
const nextAfter = (at) => {
  const found = sitting.variants.findIndex((each, place) => place > at && !each.decision);
  return found < 0 ? sitting.variants.length : found;
};

// Returns the comparison of a variant, which may have been fetched before it is needed.
function compared(digest) {
  if (!comparisons.has(digest)) {
    const asked = askAgain("/comparison", { variant_digest: digest });
    asked.catch(() => comparisons.delete(digest));
    comparisons.set(digest, asked);
  }
  return comparisons.get(digest);
}

async function show(at) {
  setBusy(true);
  sitting.at = Math.max(0, at);
  try {
    if (sitting.at < sitting.variants.length) await showVariant(digestAt(sitting.at));
    else showEnd();
  } catch (refusal) {
    complain(refusal.message);
  }
  setBusy(false);
}

async function showVariant(digest) {
  const found = await compared(digest);
  sitting.shown = found;
  history.replaceState(null, "", `#${digest}`);
  leaveEditor();
  part("task").textContent = `${found.task_id}, ${found.kind}`;
  say("own", found.own && `${DECIDED[found.own.decision]}${found.own.reason ? `: ${found.own.reason}` : ""}. A new decision replaces it.`);
  showNote();
  showStanding();
  part("end").hidden = true;
  part("shown").hidden = false;
  window.scrollTo(0, 0);
  part("task").focus({ preventScroll: true });
  Object.assign(seen, { ms: 0, sinceMs: document.hidden ? null : Date.now() });
  const next = digestAt(nextAfter(sitting.at));
  if (next) compared(next).catch(() => {}); // refused again, and said, when it is shown
}

function showStanding() {
  const done = sitting.variants.filter((each) => each.decision).length;
  const hours = (Date.now() - sitting.beganMs) / 3_600_000;
  const rate = sitting.decided > 1 ? `, ${Math.round(sitting.decided / hours)} an hour` : "";
  part("standing").replaceChildren(
    `${sitting.at + 1} of ${counted(sitting.variants.length, "variant")}; `,
    element("progress", { value: done, max: sitting.variants.length, "aria-label": "decided" }),
    ` ${done} decided${rate}`,
  );
}

function showEnd() {
  sitting.shown = null;
  history.replaceState(null, "", location.pathname + location.search);
  leaveEditor();
  const left = sitting.variants.filter((each) => !each.decision).length;
  const none = sitting.variants.length === 0;
  part("task").textContent = none ? "No variants to review" : left ? "The end of the list" : "Everything is decided";
  part("standing").textContent = "";
  for (const id of ["own", "note", "shown"]) part(id).hidden = true;
  part("end").hidden = false;
  part("end").textContent = none
    ? "The store has no variants of this benchmark and experiment."
    : left ? `${counted(left, "variant")} left for later: press s to see the first of them.` : "Press q to end the review, or b to go back to the last variant.";
  part("task").focus({ preventScroll: true });
}

function say(id, text) {
  part(id).textContent = text || "";
  part(id).hidden = !text;
}

function showNote() {
  const { note } = draft(sitting.shown.variant_digest);
  say("note", note && `Note: ${note}`);
}

// Both prompts line by line. Both cells of a line have all of it; the style hides what is not of the column.
function showPrompts({ pieces }) {
  const lines = [[]];
  for (const piece of pieces) {
    const texts = piece.kind === "same" ? piece.text.split("\n") : [piece.text];
    texts.forEach((text, place) => {
      if (place) lines.push([]);
      if (text) lines.at(-1).push({ ...piece, text });
    });
  }
  part("prompts").tBodies[0].replaceChildren(...lines.map((line) => {
    const isChanged = line.some((piece) => piece.kind !== "same");
    const cells = ["full", "variant"].map((column) => element("td", { class: column }, line.map(marked)));
    return element("tr", { class: isChanged ? "changed" : null }, cells);
  }));
}

function marked(piece, place, line) {
  const isValue = piece.segment !== null;
  const isLast = isValue && line[place + 1]?.segment !== piece.segment;
  const number = isLast && sitting.shown.segments.length > 1 ? element("sup", {}, piece.segment + 1) : null;
  const inner = isValue ? element("mark", {}, piece.text, number) : piece.text;
  if (piece.kind === "same") return inner;
  return element(piece.kind === "removed" ? "del" : "ins", {}, inner);
}

function showFacts({ segments, changes_environment, findings, unjudged, judged, questions, outcomes }) {
  const section = (title, ...content) => element("section", { "data-about": title }, element("h3", {}, title), ...content);
  const list = (items, attributes) => element("ul", attributes, items.map((each) => element("li", {}, each)));
  const removed = segments.map((each) => [
    element("mark", {}, each.value), ` ${each.dimension}/${each.subdimension}`, each.decoy && `, replaced by: ${each.decoy}`,
  ]);
  part("facts").replaceChildren(
    section("Removed", element("ol", {}, removed.map((each) => element("li", {}, each))), changes_environment ? element("p", {}, "The environment is changed, not the prompt.") : null),
    section("The gate", findings.length ? found(findings) : element("p", {}, passing({ unjudged, judged }))),
    section("Expected questions", questions.length ? list(questions) : element("p", {}, "None.")),
    section("Trials that succeeded", outcomes.length
      ? list(Object.entries(Object.groupBy(outcomes, (each) => each.agent)).map(succeeded))
      : element("p", {}, "None yet.")),
  );
}

const passing = ({ unjudged, judged }) => {
  if (unjudged) return `The gate cannot judge this: ${unjudged}.`;
  return judged ? `Result: ${judged}.` : "The gate finds nothing. It does not judge how the prompt reads.";
};

const succeeded = ([agent, rows]) => `${agent}: ${rows.map((each) => `${conditions[each.condition] ?? each.condition} ${each.successes} of ${each.trials}`).join(", ")}`;

const found = (findings) => element("ul", { class: "finding" }, findings.map((each) => element("li", {}, element("b", {}, each.check), ` ${each.message}`)));

async function decide(decision, reason = null, prompt = null) {
  const { variant_digest: digest, own } = sitting.shown;
  const decided = {
    variant_digest: digest, decision, reason, prompt, note: draft(digest).note ?? null,
    shown_s: Math.round((seen.ms + (seen.sinceMs ? Date.now() - seen.sinceMs : 0)) / 100) / 10,
    replaces: own?.decision ?? null,
  };
  keep(digest, { pending: decided });
  await deliver(decided);
}

// Sends a decision until the daemon answers. It is recorded when the next variant is shown.
async function deliver(decided) {
  const digest = decided.variant_digest;
  const at = sitting.variants.findIndex((each) => each.variant_digest === digest);
  setBusy(true);
  try {
    await askAgain("/decisions", decided);
  } catch (refusal) {
    const { note, prompt } = decided; // another tab may have removed them with its own decision
    keep(digest, { pending: undefined, note: note ?? undefined, ...(prompt !== null && { text: prompt }) });
    comparisons.delete(digest);
    await show(at); // with the decision that counts now
    if (decided.prompt !== null) openEditor();
    complain(refusal.message);
    return;
  }
  localStorage.removeItem(keyOf(digest));
  comparisons.delete(digest);
  sitting.variants[at].decision = decided.decision;
  sitting.decided += 1;
  await show(nextAfter(at));
}

// Lets the reviewer choose a reason. The result is empty if they went back.
function reasonOf(question, findings = []) {
  const dialog = part("reasons");
  part("why").textContent = question;
  part("why-not").replaceChildren(...(findings.length ? [element("p", {}, "The gate finds in your text:"), found(findings)] : []));
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true }));
}

async function reject() {
  const reason = await reasonOf("Why do you reject the variant?");
  if (reason) await decide("rejected", reason);
}

function setEditing(isEditing) {
  part("edit").hidden = !isEditing;
  part("keys").hidden = isEditing;
  part("workbench").classList.toggle("editing", isEditing);
  part("prompts").tHead.rows[0].cells[0].textContent = isEditing ? "Full prompt with your changes" : "Full prompt";
}

function openEditor() {
  const { variant_digest: digest, prompt, pieces } = sitting.shown;
  part("text").value = draft(digest).text ?? prompt;
  setEditing(true);
  part("text").focus();
  const firstChange = pieces.findIndex((each) => each.kind !== "same");
  const place = pieces.slice(0, Math.max(0, firstChange)).reduce((sum, each) => sum + each.text.length, 0);
  part("text").setSelectionRange(place, place);
  checkText();
}

// Shows the variant as it is. What was typed stays.
function leaveEditor() {
  clearTimeout(checkText.timer);
  checkText.number = (checkText.number ?? 0) + 1;
  setEditing(false);
  if (!sitting.shown) return;
  showPrompts(sitting.shown);
  showFacts(sitting.shown);
  const kept = draft(sitting.shown.variant_digest).text;
  part("keys").querySelector("[data-key=e]").lastChild.data = kept === undefined ? " Edit" : " Go on editing";
  part("task").focus({ preventScroll: true });
}

// A text field has only line feeds.
function typed() {
  const { prompt } = sitting.shown;
  const text = part("text").value;
  return prompt.includes("\r\n") ? text.replaceAll("\n", "\r\n") : text;
}

// Shows what the reviewer typed beside the full prompt, with what the gate finds. Returns that, or null.
async function checkText() {
  clearTimeout(checkText.timer);
  const number = checkText.number = (checkText.number ?? 0) + 1;
  part("checked").textContent = "The gate is checking …";
  try {
    const checked = await ask("/comparison", { variant_digest: sitting.shown.variant_digest, prompt: typed() });
    if (number !== checkText.number) return null;
    showPrompts(checked);
    showFacts(checked);
    part("checked").replaceChildren(...(checked.findings.length ? ["The gate finds:", found(checked.findings)] : [passing(checked)]));
    return checked;
  } catch (error) {
    if (number === checkText.number) part("checked").textContent = `The gate could not check the text: ${error.kind ? error.message : SILENT} Your text is kept.`;
    return null;
  }
}

async function keepText() {
  const prompt = typed();
  if (prompt === sitting.shown.prompt) {
    part("checked").textContent = "You changed nothing.";
    return;
  }
  const checked = await checkText();
  if (!checked) return;
  const question = checked.findings.length ? "Keep it anyway? Why did you edit the variant?" : "Why did you edit the variant?";
  const reason = await reasonOf(question, checked.findings);
  if (reason) await decide("edited", reason, prompt);
  else part("text").focus();
}

async function stop() {
  try {
    await ask("/close", {});
  } finally { // a daemon that is gone has no sitting open
    location.href = "/review";
  }
}

function noteDown() {
  part("noted").value = draft(sitting.shown.variant_digest).note ?? "";
  part("noting").showModal();
}

const scrollTo = (place) => window.scrollBy(0, place);
function showNextChange() {
  const changes = [...document.querySelectorAll("#prompts tr.changed")];
  const below = changes.find((each) => each.getBoundingClientRect().top > innerHeight / 2 + 1) ?? changes[0];
  below?.scrollIntoView({ block: "center" });
}

const KEYS = {
  a: () => decide("accepted"), r: reject, e: openEditor, n: noteDown,
  j: () => scrollTo(60), k: () => scrollTo(-60), c: showNextChange,
  b: () => show(sitting.at - 1),
  s: () => show(nextAfter(sitting.shown ? sitting.at : -1)),
  q: stop,
};
const WITHOUT_VARIANT = ["b", "s", "q"];

function obey(key) {
  if (sitting.isBusy && key !== "q" && !"jkc".includes(key)) return;
  if (sitting.shown || WITHOUT_VARIANT.includes(key)) KEYS[key]?.();
}

document.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (part("reasons").open) {
    if (!/^[1-9]$/.test(event.key)) return;
    event.preventDefault(); // the number is no text of the editor, which has the focus again
    part("reasons").querySelectorAll("button")[event.key - 1]?.click();
  } else if (!part("edit").hidden && !part("noting").open) {
    if (event.key === "Escape") leaveEditor();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !sitting.isBusy) keepText();
    else return;
    event.preventDefault();
  } else if (!part("noting").open && !event.ctrlKey && !event.metaKey && !event.altKey && event.key in KEYS) {
    if (event.repeat && !"jk".includes(event.key)) return;
    event.preventDefault(); // the key is no text of the note
    obey(event.key);
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.key) obey(button.dataset.key);
  else if (button?.dataset.reason) part("reasons").close(button.dataset.reason);
  else if (button?.dataset.edit === "leave") leaveEditor();
  else if (button?.dataset.edit === "discard") {
    keep(sitting.shown.variant_digest, { text: undefined });
    leaveEditor();
  }
});

part("edit").addEventListener("submit", () => { if (!sitting.isBusy) keepText(); });

part("text").addEventListener("input", () => {
  const { variant_digest: digest, prompt } = sitting.shown;
  keep(digest, { text: typed() === prompt ? undefined : part("text").value });
  clearTimeout(checkText.timer);
  checkText.timer = setTimeout(checkText, CHECK_MS);
});

part("noted").addEventListener("input", () => {
  keep(sitting.shown.variant_digest, { note: part("noted").value.trim() || undefined });
  showNote();
});

document.addEventListener("visibilitychange", () => {
  if (document.hidden && seen.sinceMs) Object.assign(seen, { ms: seen.ms + Date.now() - seen.sinceMs, sinceMs: null });
  else if (!document.hidden) seen.sinceMs ??= Date.now();
});

addEventListener("storage", (event) => {
  const isEditing = sitting.shown && !part("edit").hidden;
  if (isEditing && event.key === keyOf(sitting.shown.variant_digest)) complain("This variant is also being edited or decided on in another tab of this browser.");
});

async function begin() {
  try {
    const wanted = { benchmark: chosen.get("benchmark"), experiment: chosen.get("experiment") };
    sitting.variants = (await askAgain("", wanted)).variants;
  } catch (refusal) {
    part("task").textContent = "The review could not start";
    complain(refusal.message);
    part("end").replaceChildren(element("button", { id: "again" }, "Try again"));
    part("end").hidden = false;
    part("again").addEventListener("click", begin);
    part("again").focus();
    return;
  }
  sitting.beganMs = Date.now();
  part("keys").hidden = false;
  const pending = sitting.variants.map((each) => draft(each.variant_digest).pending).find(Boolean);
  const linked = sitting.variants.findIndex((each) => `#${each.variant_digest}` === location.hash);
  if (pending) await deliver(pending);
  else await show(linked < 0 ? nextAfter(-1) : linked);
}

begin().finally(() => { part("workbench").dataset.begun = "true"; });
