// The tables: agents side by side, or every column; filled when first opened, sorted by clicks on their headings.

const COUNTS = ["n_units", "n_clusters", "n_trials", "n_missing"];
const MOST_SIDE_BY_SIDE = 7;

function formatted(name, value) {
  const text = rounded(name, value);
  return value !== 0 && Number(text) === 0 ? String(Number(value.toPrecision(1))) : text; // never a 0 that is not 0
}

function rounded(name, value) {
  if (/_tokens$/.test(name)) return Math.round(value).toLocaleString("en");
  if (/_usd$/.test(name)) return String(Number(value.toPrecision(2)));
  if (/(_pct|_actions)$/.test(name)) return value.toFixed(1).replace(/\.0$/, "");
  return value.toFixed(2);
}

// The text of an estimate: its value, and what stands beside it.
function estimate(row) {
  if (row.value === null) return ["-", words(row.reason)];
  const isCount = row.reason === "count" && Number.isInteger(row.value);
  const value = isCount ? row.value.toLocaleString("en") : row.texts.value;
  if (row.low === null) return [value, row.reason === "count" ? "" : words(row.reason)];
  return [value, `[${row.texts.low}, ${row.texts.high}]`];
}

function words(reason) {
  return String(reason ?? "").replaceAll("_", " ");
}

function tableRows(table) {
  const at = (columns, place) => Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, valueAt(column, place)]));
  return Array.from({ length: table.count }, (_, place) => ({ ...at(table.rows, place), texts: at(table.texts, place) }));
}

// A view is { head, lines }. A head is { text, hint, name }, a cell { text, beside, sort, hint, row, bar }: the shown text, what
// stands beside it, the value to sort by, the tooltip, the row whose trials it opens, and its interval as a bar.
function everyColumn(table, rows) {
  const opening = hasTrials(table) ? ["value", "n_trials"] : [];
  return { head: heads(table, table.columns), lines: rows.map((row) => table.columns.map((name) => ({ ...plainCell(row[name]), row: opening.includes(name) && row.n_trials ? row : null }))) };
}

function heads(table, names) {
  return names.map((name) => ({ name, isKey: table.keys.includes(name), text: table.labels[table.columns.indexOf(name)] ?? name, hint: [name, table.meanings[table.columns.indexOf(name)]].filter(Boolean).join(": ") }));
}

function sideBySide(table, rows, measures) {
  const scales = scalesOf(table, measures);
  const keys = shownKeys(table, rows).filter((key) => key !== "agent");
  const agents = [...new Set(rows.map((row) => row.agent))];
  const groups = new Map();
  for (const row of rows) {
    const id = JSON.stringify(keys.map((key) => row[key]));
    if (!groups.has(id)) groups.set(id, new Map());
    groups.get(id).set(row.agent, row);
  }
  const lines = [...groups.values()].map((byAgent) => {
    const first = byAgent.values().next().value;
    const estimates = agents.map((agent) => byAgent.has(agent) ? estimateCell(table, byAgent.get(agent), scales) : { text: "", sort: null });
    return [...keys.map((key) => keyCell(key, first[key], measures)), ...estimates, ...COUNTS.map((name) => countCell(byAgent, name))];
  });
  return { head: [...heads(table, keys), ...agents.map((agent) => ({ text: agent === "all" ? "all agents" : agent, hint: `agent ${agent}` })), ...heads(table, COUNTS)], lines };
}

// One line per agent, with the columns that the table declares as shown.
function oneByOne(table, rows, measures) {
  const names = [...table.shown, ...COUNTS];
  const keys = shownKeys(table, rows);
  const scales = scalesOf(table, measures);
  const lines = rows.map((row) => [...keys.map((key) => keyCell(key, row[key], measures)), estimateCell(table, row, scales),
    ...names.map((name) => shownCell(name, row[name]))]);
  return { head: heads(table, [...keys, "value", ...table.shown, ...COUNTS]), lines };
}

// The rows without those that pool a single agent or benchmark, as analytics/tables/filters.py leaves them out of print.
function withoutLonePools(table, rows) {
  let kept = rows;
  for (const pooled of ["benchmark", "agent"].filter((key) => table.keys.includes(key))) {
    const id = (row) => JSON.stringify([...table.keys.filter((key) => key !== pooled), "n_trials"].map((key) => row[key] ?? null));
    const single = kept.filter((row) => row[pooled] !== "all");
    const known = new Set(single.map(id));
    const isLone = new Set(single.map((row) => row[pooled])).size === 1;
    if (isLone && kept.every((row) => row[pooled] !== "all" || known.has(id(row)))) kept = single;
  }
  return kept;
}

// A benchmark is named only where there are several.
function shownKeys(table, rows) {
  return table.keys.filter((key) => key !== "benchmark" || new Set(rows.map((row) => row.benchmark)).size > 1);
}

function plainCell(value) {
  return value === null ? { text: "-", sort: null } : { text: String(value), sort: value };
}

function shownCell(name, value) {
  if (/^p_/.test(name) && value !== null) return { text: value < 0.001 ? "<0.001" : value.toFixed(3), sort: value, hint: String(value) };
  return typeof value === "number" && !Number.isInteger(value) ? { text: formatted(name, value), sort: value, hint: String(value) } : plainCell(value);
}

function keyCell(key, value, measures) {
  if (labelOf(key, value) !== value) return { text: labelOf(key, value), sort: value, hint: value };
  if (key !== "measure" || !measures[value]) return plainCell(value);
  const [label, meaning] = measures[value];
  return { text: label, sort: label, hint: `${value}: ${meaning}` };
}

// The ends of the bars of each measure in a table: those of all its intervals and 0, or the whole of a share.
function scalesOf(table, measures) {
  const scales = new Map();
  for (const { measure, low, value, high } of tableRows(table)) {
    if (low === null || value === null) continue;
    const [least, most] = scales.get(measure) ?? [0, measures[measure]?.[2] ?? 0];
    scales.set(measure, [Math.min(least, low, value), Math.max(most, high, value)]);
  }
  return scales;
}

function bar(row, scales) {
  const [least, most] = scales.get(row.measure) ?? [0, 0];
  if (row.value === null || row.low === null || least === most) return null;
  const part = (value) => `${(100 * (value - least) / (most - least)).toFixed(1)}%`;
  return element("span", { class: "bar", "aria-hidden": "true", style: `--low: ${part(row.low)}; --at: ${part(row.value)}; --high: ${part(row.high)}; --zero: ${part(0)}` }, element("i"));
}

function estimateCell(table, row, scales) {
  const [text, beside] = estimate(row);
  const hint = `${row.n_units} units, ${row.n_clusters} clusters, ${row.n_trials} trials, ${row.n_missing} missing`;
  return { text, beside, sort: row.value, hint, bar: bar(row, scales), row: hasTrials(table) && row.n_trials ? row : null };
}

function countCell(byAgent, name) {
  const counts = [...byAgent.values()].map((row) => row[name]);
  return { text: new Set(counts).size === 1 ? String(counts[0]) : counts.join("/"), sort: Math.max(...counts) };
}

function compare(one, other) {
  if (one === null || other === null) return (one === null) - (other === null);
  return typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en");
}

function isNumber(cell) {
  return typeof cell.sort === "number";
}

// Says whether a line starts a new benchmark; never if the table is sorted by a column.
function beginsBenchmark(view, lines, place) {
  return lines === view.lines && place > 0 && view.head[0].name === "benchmark" && lines[place][0].text !== lines[place - 1][0].text;
}

// Keys that repeat those of the line above are shown paler, so that the eye finds where something changes.
function repeats(view, lines, place, column) {
  if (lines !== view.lines || place === 0 || !view.head[column].isKey) return false;
  for (let before = 0; before <= column; before++) if (lines[place][before].text !== lines[place - 1][before].text) return false;
  return true;
}

function drawCell(table, cell, isRepeated) {
  const shown = [cell.text, cell.beside ? element("span", { class: "interval" }, ` ${cell.beside}`) : null];
  const inside = cell.row ? element("button", { type: "button", class: "cell", tabindex: -1, title: cell.hint ? `${cell.hint}: press to see the trials` : "press to see the trials" }, shown) : shown;
  if (cell.row) inside.addEventListener("click", () => {
    state.set({ cell: cellName(table, cell.row), at: "trials", trial: "", beside: "", q: "", condition: "", outcome: "", role: "", ambiguity_class: "" }, true);
    document.getElementById("list").focus({ preventScroll: true });
  });
  return element("td", { class: isNumber(cell) || cell.row ? "number" : isRepeated ? "again" : null, title: cell.row ? null : cell.hint }, inside, cell.bar);
}

// Arrow keys move between the cells that open trials; Tab reaches only the one used last.
function moveAmongCells(event) {
  const cell = event.target.closest("button.cell");
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!cell || !step) return;
  const place = cell.closest("td").cellIndex;
  let [line, column] = [cell.closest("tr"), place];
  let next = null;
  while (line && !next) {
    line = step[0] ? (step[0] < 0 ? line.previousElementSibling : line.nextElementSibling) : line;
    column += step[1];
    if (!line || !line.cells[column]) break;
    next = line.cells[column].querySelector("button.cell");
  }
  event.preventDefault();
  if (next) next.focus();
}

function drawTable(table, view) {
  const body = element("tbody");
  const fill = (lines) => {
    body.replaceChildren(...lines.map((cells, place) => element("tr", { class: beginsBenchmark(view, lines, place) ? "begins" : null }, cells.map((cell, column) => drawCell(table, cell, repeats(view, lines, place, column))))));
    body.querySelector("button.cell")?.setAttribute("tabindex", 0);
  };
  body.addEventListener("keydown", moveAmongCells);
  body.addEventListener("focusin", (event) => {
    body.querySelector("button.cell[tabindex='0']")?.setAttribute("tabindex", -1);
    event.target.closest("button.cell")?.setAttribute("tabindex", 0);
  });
  const titles = view.head.map(({ name, text, hint }, place) => {
    const button = element("button", { type: "button", title: hint }, text);
    const isRight = view.lines.some((cells) => isNumber(cells[place]) || cells[place].row);
    const head = element("th", { scope: "col", class: isRight ? "number" : null, "data-name": name }, button);
    button.addEventListener("click", () => {
      const isDown = head.getAttribute("aria-sort") === "ascending";
      titles.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      const sign = isDown ? -1 : 1;
      fill([...view.lines].sort((one, other) => {
        const [a, b] = [one[place].sort, other[place].sort];
        return a === null || b === null ? compare(a, b) : sign * compare(a, b);
      }));
    });
    return head;
  });
  fill(view.lines);
  const drawn = element("table", {}, element("thead", {}, element("tr", {}, titles)), body);
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": table.name }, drawn);
}

// Returns the rows that the filters leave; a table is filtered by those of its keys that the reader has chosen.
function chosenRows(table) {
  const chosen = ["benchmark", "agent", "condition"].filter((name) => state.get(name) && table.keys.includes(name));
  return tableRows(table).filter((row) => chosen.every((name) => row[name] === state.get(name) || (name === "agent" && row.other_agent === state.get(name))));
}

// The rows of a table as `lhaw-record tables --format csv` writes them; other rows have no reading: text that a spreadsheet would run as a formula gets an apostrophe.
// Both spell blanks out, because \s is not the same in JavaScript and Python.
function toCsv(table, rows) {
  const isFormula = (text) => /^([\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]*[=+\-@＝＋－＠]|[\t\r\n])/.test(text) && !/^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|nan)$/.test(text);
  const cell = (value) => {
    if (value === null) return "";
    if (typeof value === "boolean") return value ? "True" : "False";
    const text = typeof value === "string" && isFormula(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const [head, reading] = table.reading === undefined ? [[], []] : [["reading"], [table.reading]];
  const lines = [[...table.columns, ...head], ...rows.map((row) => [...table.columns.map((name) => row[name]), ...reading])];
  return lines.map((line) => `${line.map(cell).join(",")}\n`).join("");
}

function saveCsv(table, rows) {
  saved(`${table.name}.csv`, "text/csv", toCsv(table, rows));
}

async function fillTable(place) {
  if (place.firstChild) return;
  const { measures, tables } = await unpack("data-tables");
  if (place.firstChild) return;
  const table = tables.find((each) => each.name === place.dataset.table);
  const rows = chosenRows(table);
  document.querySelector(`[data-count="${table.name}"]`).textContent = rows.length === table.count ? counted(table.count, "row") : `${rows.length} of ${counted(table.count, "row")}`;
  if (!rows.length) return void place.append(element("p", { class: "aside" }, "No row matches the filters."));
  const isEstimates = table.columns.includes("measure") && table.keys.includes("agent");
  const isNarrow = !table.shown.length && new Set(rows.map((row) => row.agent)).size <= MOST_SIDE_BY_SIDE;
  const views = isEstimates ? [isNarrow ? sideBySide : oneByOne, everyColumn] : [everyColumn];
  const drawn = (view) => drawTable(table, view(table, view === everyColumn ? rows : withoutLonePools(table, rows), measures));
  let shown = drawn(views[0]);
  const save = element("button", { type: "button", class: "switch" }, "CSV");
  save.addEventListener("click", () => saveCsv(table, rows));
  const buttons = element("p", { class: "switches" }, save);
  if (views.length > 1) {
    const button = element("button", { type: "button", class: "switch", "aria-pressed": "false" }, "Every column");
    button.addEventListener("click", () => {
      const isLong = button.getAttribute("aria-pressed") === "false";
      button.setAttribute("aria-pressed", String(isLong));
      const next = drawn(views[Number(isLong)]);
      shown.replaceWith(next);
      shown = next;
    });
    buttons.prepend(button);
  }
  place.append(buttons, shown);
}
