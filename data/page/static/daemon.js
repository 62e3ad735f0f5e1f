// Follows the live events, fetches the page again when something has changed, and sends orders.
"use strict";

const LEAST_MS = 500;
const LIVE_MS = 2000;
const problem = document.getElementById("problem");
const connection = document.getElementById("connection");
const follow = document.body.dataset.follow;
let isAsking = false;
let isStale = false;

function complain(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

async function refresh() {
  if (isAsking) { isStale = true; return; }
  isAsking = true;
  isStale = false;
  try {
    const reply = await fetch(location.href, { headers: { accept: "text/html" } });
    if (reply.redirected) { location.href = reply.url; return; }
    const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(part.id);
      if (other && other.innerHTML !== part.innerHTML) put(part, other);
    }
  } catch { /* the daemon does not answer; the event stream's status shows it */ }
  setTimeout(() => { isAsking = false; if (isStale) refresh(); }, LEAST_MS);
}

// Replaces content. The focus stays on the same link or order, and never moves to another order.
function put(part, other) {
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const sameAs = (each) => each.dataset.order === focused.dataset.order && each.href === focused.href;
  part.replaceChildren(...other.childNodes);
  if (focused) ([...part.querySelectorAll("a, button")].find(sameAs) ?? part).focus();
}

const SILENT = "The daemon does not answer; check that lhaw-record serve is running.";

function post(address, body) {
  return fetch(address, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

// Sends an order. Returns the reply, or nothing if it was refused, which the page then says.
async function send(address, body) {
  complain("");
  try {
    const reply = await post(address, body);
    if (reply.ok) return reply;
    complain((await reply.json()).error.message);
  } catch {
    complain(SILENT);
  }
  return null;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-order]");
  if (!button || (button.dataset.confirm && !confirm(button.dataset.confirm))) return;
  button.disabled = true;
  await send(button.dataset.order, { by: "web page" });
  button.disabled = false;
  refresh();
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.method === "dialog") return;
  event.preventDefault();
  if (form.id === "sign-in") {
    const token = document.getElementById("token").value;
    if (await send("/api/sign-in", { token })) location.href = "/";
  } else if (form.id === "submit") {
    const [text, path, by] = ["text", "path", "by"].map((id) => document.getElementById(id).value);
    const button = form.querySelector("button");
    button.disabled = true;
    const answer = await send("/api/experiments", { config_toml: text, path, by });
    button.disabled = false;
    if (answer) location.href = `/experiments/${encodeURIComponent((await answer.json()).overview.name)}`;
    else problem.scrollIntoView({ block: "nearest" });
  } else if (form.dataset.note) {
    const [author, note, cause] = ["author", "note", "cause"].map((name) => form.elements[name].value);
    if (await send(form.dataset.note, { author, note, cause: cause || null })) form.elements.note.value = "";
    dispatchEvent(new Event("noted"));
  } else if (form.dataset.answer) {
    const [by, text] = ["by", "text"].map((name) => form.elements[name].value);
    const saw_values = document.querySelector("[data-values]").dataset.seen === "true";
    const given = { by, text: event.submitter?.name === "decline" ? null : text, saw_values };
    if (await send(form.dataset.answer, given)) location.href = "/questions";
  } else if (form.dataset.order) {
    await send(form.dataset.order, { concurrency: Number(form.elements.concurrency.value), by: "web page" });
    refresh();
  }
});

document.querySelector("[data-values]")?.addEventListener("toggle", (event) => { event.target.dataset.seen = "true"; });

// A chosen file is read here and shown, so that it can be changed before it is submitted.
document.getElementById("file")?.addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  const path = document.getElementById("path");
  document.getElementById("text").value = await file.text();
  path.value = path.value.replace(/[^/]*$/, file.name);
});

if (follow !== undefined) {
  // Actions of live trials send no event; they are fetched while there are any and somebody looks.
  setInterval(() => { if (document.querySelector("#live tbody") && !document.hidden) refresh(); }, LIVE_MS);
  const events = new EventSource("/api/events" + (follow ? `?experiment=${encodeURIComponent(follow)}` : ""));
  for (const name of ["snapshot", "experiment", "trial"]) events.addEventListener(name, refresh);
  events.onopen = () => { connection.textContent = "live"; };
  events.onerror = () => { connection.textContent = "reconnecting …"; };
}
document.documentElement.dataset.ready = "true";
