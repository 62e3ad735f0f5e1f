// Makes elements: text from the store is only ever inserted as text, without characters that change the writing direction.
"use strict";

window.Prism = { manual: true }; // the library does nothing by itself

const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    made.setAttribute(key, value === true ? "" : value);
  }
  const shown = children.flat(Infinity).filter((child) => child !== null && child !== undefined);
  made.append(...shown.map((child) => child instanceof Node ? child : String(child).replace(TURNING, "\ufffd")));
  return made;
}

function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

function folded(title, text, isOpen) {
  return element("details", { open: isOpen, class: isOpen ? "prompt" : null }, element("summary", {}, title), element("pre", { tabindex: 0 }, text));
}

// A fold whose inside is made when it is opened first.
function foldedLater(title, attributes, inside) {
  const fold = element("details", attributes, element("summary", {}, title));
  fold.addEventListener("toggle", () => fold.childElementCount === 1 && fold.append(...inside()));
  return fold;
}

// Opens every fold around an element.
function unfold(inside) {
  for (let fold = inside.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
}

function saved(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
