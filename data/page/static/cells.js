// Which trials are behind a row of a table: those with the keys of the row, under the conditions that its measure compares.

const WITHOUT_TRIALS = new Set(["variant_breakdown", "review_agreement", "segment_labels", "task_selection", "experiment_setup", "trajectory", "grader_agreement"]);
const PAIR = ["underspecified", "ask_user"];
const INJECTED = /^inject_\d+$/;
const CURVE = /^(full|underspecified|inject_\d+)$/;
const MAY_ASK = /ask_user$/;
const COMPARED = {
  gain_tests: PAIR, net_value: PAIR, natural_ask: ["ask_user"], archetypes: ["ask_user"], question_quality: ["ask_user"],
  failure_modes: ["ask_user"], failure_modes_failed: ["ask_user"], failure_modes_by_class: ["ask_user"],
};
const COMPARED_BY_MEASURE = {
  early_minus_late_decay: ["inject_10", "inject_50", "inject_90"], decay_10_to_90: ["inject_10", "inject_90"], gain_at_90: ["underspecified", "inject_90"],
  window_threshold: ["inject_10"], ask_in_window_pct: ["ask_user"], ask_in_pooled_window_pct: ["ask_user"],
};
const WITH_QUESTIONS = /^(failure_modes|simulator_fidelity)/;

function hasTrials(table) {
  return !WITHOUT_TRIALS.has(table.name);
}

// Returns a test of a condition.
function comparedConditions(table, row) {
  const measure = row.measure || "";
  if (row.condition && row.condition !== "all") {
    if (/_gain$|per_question(_per_variant)?$/.test(measure)) return (condition) => condition === row.condition || condition === "underspecified";
    if (/_recovered_share$/.test(measure)) return (condition) => condition === row.condition || condition === "underspecified" || condition === "full";
    if (/_loss$|_difference$|_share_of_full$/.test(measure)) return (condition) => condition === row.condition || condition === "full";
    return (condition) => condition === row.condition;
  }
  const listed = COMPARED[table.name] || COMPARED_BY_MEASURE[measure];
  if (listed) return (condition) => listed.includes(condition);
  if (table.name === "simulator_fidelity") return (condition) => MAY_ASK.test(condition);
  if (row.timing === "all") return (condition) => condition !== "full" && CURVE.test(condition);
  if (row.timing !== undefined) return (condition) => condition === (row.timing === "0" ? "full" : `inject_${row.timing}`) || condition === "underspecified";
  if (table.name === "kendall" || table.name === "optimal_window") return (condition) => INJECTED.test(condition);
  return () => true;
}

// What a row says about the variants of its trials, as pairs of a column of the trials and a value.
function variantFacts(table, row) {
  const facts = [["ambiguity_class", row.ambiguity_class], ["severity", row.severity], ["fault", row.fault], ["dimension", row.dimension]];
  if (table.name === "fidelity") facts.push(["ambiguity_class", "outcome-critical"]);
  if (row.split === "ambiguity_class" || row.split === "dimension") facts.push([row.split, row.level]);
  return facts.filter(([, value]) => value !== undefined && value !== null && value !== "all");
}

function hasFact(list, place, [name, value]) {
  if (name === "dimension") return (list.at("dimensions", place) || "").split(" ").includes(value);
  return list.at(name, place) === (name === "severity" && value === "unknown" ? null : value);
}

// Returns the trials (places in the list) behind a row. A trial with the full prompt has the facts of the task's variants.
function trialsBehind(list, table, row) {
  const isCompared = comparedConditions(table, row);
  const facts = variantFacts(table, row);
  const direct = ["benchmark", "role", "task_id", "ended_by", "user_simulator", "strategy", "persona", "domain"]
    .filter((name) => typeof row[name] === "string" && row[name] !== "all");
  const agents = ["agent", "other_agent"].map((name) => row[name]).filter((name) => name && name !== "all");
  const isOwn = (place) => direct.every((name) => (list.at(name, place) ?? "none") === row[name])
    && (!agents.length || list.armsOf(place).some((name) => agents.includes(name)));
  const every = Array.from({ length: list.trials.count }, (_, place) => place).filter(isOwn);
  const needsVariant = facts.length > 0 || table.name === "losses" || Number(row.segments_removed) > 0;
  const taskOf = (place) => JSON.stringify([list.at("task", place), list.at("agent", place)]);
  const fits = (place) => facts.every((fact) => hasFact(list, place, fact))
    && (row.segments_removed === undefined || row.segments_removed === null || list.at("segments_removed", place) === row.segments_removed);
  const tasks = new Set(every.filter((place) => list.at("variant_id", place) !== null && fits(place)).map(taskOf));
  const isOfAll = table.keys.includes("role") || table.name === "agent_health" || /^candidate/.test(row.measure); // also trials that only classify
  const isCounted = (place) => (isOfAll ? /success$/.test(list.at("outcome", place)) : list.at("is_used", place))
    && (!WITH_QUESTIONS.test(table.name) || list.at("question_count", place) > 0)
    && (table.name !== "failure_modes_failed" || list.at("outcome", place) === "no success");
  return every.filter((place) => {
    if (!isCounted(place) || !isCompared(list.at("condition", place))) return false;
    if (list.at("variant_id", place) === null) return !needsVariant || tasks.has(taskOf(place));
    return (!facts.length && row.segments_removed === undefined) || fits(place);
  });
}

// A row's name in an address: the table and the values of its keys.
function cellName(table, row) {
  return JSON.stringify([table.name, ...table.keys.map((key) => row[key])]);
}

async function rowNamed(name) {
  try {
    const [wanted, ...keys] = JSON.parse(name);
    const table = (await unpack("data-tables")).tables.find((each) => each.name === wanted);
    const row = table && tableRows(table).find((each) => table.keys.every((key, place) => each[key] === keys[place]));
    return row ? { table, row } : null;
  } catch {
    return null; // an address that somebody cut or wrote by hand
  }
}

// A success among the trials behind a row, and beside it a trial without success of the same task, agent and number under
// another condition; the first trial and nothing beside it if no outcome differs so.
function decidingTrials(list, places) {
  const pairOf = (place) => JSON.stringify(["task", "agent", "role", "trial_index"].map((name) => list.at(name, place)));
  const failed = new Map(places.filter((place) => list.at("outcome", place) === "no success").map((place) => [pairOf(place), place]));
  const informed = (place) => Number(/ask_user$|^inject/.test(list.at("condition", place)));
  const won = places.filter((place) => list.at("outcome", place) === "success" && failed.has(pairOf(place)));
  const [first] = (won.length ? won : [...places]).sort((one, other) => informed(other) - informed(one) || one - other);
  return [first, won.length ? failed.get(pairOf(first)) : undefined].filter((place) => place !== undefined);
}

// Opens the trials that decide a finding.
async function openDeciding(list, cell) {
  const found = await rowNamed(cell);
  if (!found) return;
  const [first, beside] = decidingTrials(list, trialsBehind(list, found.table, found.row)).map((place) => list.at("trial_id", place).slice(0, 16));
  if (first) state.set({ at: "", cell, trial: first, beside: beside || "", action: "first" }, true);
}
