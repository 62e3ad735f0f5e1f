// Shows Markdown and code. Both libraries only split texts into tokens; elements are made here, so that no text becomes markup.

const MOST_FORMATTED = 50_000; // longer texts are shown as they are
const INLINE_CHARACTERS = 4000; // a longer result of a tool is folded
const INLINE_LINES = 60;
const LINK = /^(https?:|mailto:)/i;
const LANGUAGES = { command: "bash", cmd: "bash", script: "bash", code: "python", query: "sql", patch: "diff", diff: "diff" };
const ENDINGS = { py: "python", sh: "bash", js: "javascript", ts: "javascript", json: "json", sql: "sql", diff: "diff", patch: "diff", yml: "yaml", yaml: "yaml", toml: "toml", html: "markup", xml: "markup" };
const HEADING = /^h[1-6]$/;
const parser = markdownit({ html: false, breaks: true }).disable(["image", "autolink"]);

function prose(text) {
  const isLong = text.length > MOST_FORMATTED || state.get("plain");
  const made = isLong ? element("pre", { tabindex: 0 }, text) : element("div", { class: "prose" }, built(parser.parse(text, {})));
  made.source = text;
  return made;
}

// Elements of a list of tokens, which open and close each other.
function built(tokens) {
  const root = document.createDocumentFragment();
  const open = [root];
  for (const token of tokens) {
    const parent = open.at(-1);
    if (token.nesting === -1) open.pop();
    else if (token.nesting === 1) {
      const made = token.hidden ? parent : opened(token);
      if (made !== parent) parent.append(made);
      open.push(made);
    } else parent.append(leaf(token));
  }
  return root;
}

function opened(token) {
  const link = token.tag === "a" && token.attrGet("href");
  if (link && LINK.test(link)) return element("a", { href: link, title: link, target: "_blank", rel: "noopener noreferrer" });
  if (HEADING.test(token.tag)) return element("p", { class: "heading" });
  return element(token.tag === "a" ? "span" : token.tag, { start: token.tag === "ol" ? token.attrGet("start") : null });
}

function leaf(token) {
  if (token.type === "inline") return built(token.children);
  if (token.type === "fence" || token.type === "code_block") return code(token.content.replace(/\n$/, ""), token.info.trim().toLowerCase());
  if (token.type === "code_inline") return element("code", {}, token.content);
  if (token.tag === "br" || token.tag === "hr") return element(token.tag);
  return element("span", {}, token.content).firstChild ?? "";
}

function code(text, language) {
  const name = ENDINGS[language] || language;
  const grammar = Object.hasOwn(Prism.languages, name) && typeof Prism.languages[name] === "object" && text.length <= MOST_FORMATTED && !state.get("plain");
  return element("pre", { tabindex: 0 }, grammar ? coloured(Prism.tokenize(text, Prism.languages[name])) : text);
}

function coloured(tokens) {
  return tokens.map((each) => typeof each === "string" ? each : element("span", { class: `token ${each.type}` }, coloured([each.content].flat())));
}

// Arguments of a tool: code as code, other texts with their own line breaks; JSON that is not an object, or was cut, stays as it is.
function shownArguments(json) {
  const given = objectOf(json);
  if (!given) return [element("pre", { tabindex: 0 }, json)];
  const ending = String(given.path ?? given.file_path ?? given.filename ?? given.file ?? "").split(".").pop().toLowerCase();
  const languageOf = (name) => LANGUAGES[name] || (["content", "text", "file_text", "new_str", "old_str"].includes(name) ? ENDINGS[ending] : null);
  const isCode = ([name, value]) => typeof value === "string" && languageOf(name);
  const plain = Object.entries(given).filter((each) => !isCode(each));
  return [plain.length ? element("pre", { tabindex: 0 }, argumentLines(JSON.stringify(Object.fromEntries(plain)))) : null,
    ...Object.entries(given).filter(isCode).map(([name, value]) => code(value.trimEnd(), languageOf(name)))];
}

function objectOf(json) {
  const given = parsed(json);
  return given !== null && typeof given === "object" && !Array.isArray(given) ? given : null;
}

// The value of a JSON text, or the text itself if it is none.
function parsed(json) {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}

function argumentLines(json) {
  const given = objectOf(json);
  if (!given) return json;
  return Object.entries(given).map(([name, value]) => {
    const text = typeof value === "string" ? value.trimEnd() : JSON.stringify(value, null, 1);
    return text.includes("\n") ? `${name}:\n${text}` : `${name}: ${text}`;
  }).join("\n");
}

// What a tool returned; a long text is folded.
function result(text) {
  const lines = text.split("\n").length;
  const shown = code(text, /^\s*[[{]/.test(text) ? "json" : null);
  if (text.length <= INLINE_CHARACTERS && lines <= INLINE_LINES) return shown;
  return element("details", {}, element("summary", {}, `result, ${counted(text.length, "character")}, ${counted(lines, "line")}`), shown);
}

// JSON with line breaks; a text that was cut stays as it is.
function indented(json) {
  const value = parsed(json);
  return typeof value === "string" ? json : JSON.stringify(value, null, 1);
}
