"""The marts again, slowly and in plain Python, straight from the records: no SQL, nothing shared with the views."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb

INJECTED = ("inject_10", "inject_30", "inject_50", "inject_70", "inject_90")


@dataclass
class Attempt:
    """The records of one stream, sorted."""

    start: object
    number: int
    stream_id: str
    began_us: int = 0
    events: list = field(default_factory=list)

    def of(self, kind):
        """Events of one type, by class name."""
        return [event for event in self.events if type(event).__name__ == kind]


@dataclass
class Trial:
    """A trial as a reader of docs/metrics.md would see it."""

    keys: object
    state: str
    counted: Attempt | None
    actions: list
    is_course_known: bool
    questions: int | None
    first_ask_pct: float | None
    scores: list
    progress: Fraction | None
    is_success: bool | None
    after_action: int | None


def trials_of(envelopes, live):
    """Return every trial by id."""
    tasks = {}
    attempts = defaultdict(dict)
    for envelope in sorted(envelopes, key=lambda one: (one.stream_id, one.sequence)):
        name = type(envelope.event).__name__
        if name == "TaskRegistered":
            tasks[envelope.event.task_digest] = envelope.event.task
        if name == "TrialStarted":
            started = Attempt(envelope.event, envelope.attempt, envelope.stream_id)
            attempts[envelope.trial_id][envelope.stream_id] = started
        if envelope.trial_id is not None:
            attempt = attempts[envelope.trial_id][envelope.stream_id]
            attempt.events.append(envelope.event)
            attempt.began_us = envelope.began_at_us
    return {trial_id: _trial(list(streams.values()), tasks, live) for trial_id, streams in attempts.items()}


def _trial(attempts, tasks, live):
    valid = [attempt for attempt in attempts if _is_valid(attempt, tasks)]
    if not valid:
        is_running = any(attempt.stream_id in live for attempt in attempts)
        keys = max(attempts, key=lambda each: (each.number, each.stream_id)).start
        return Trial(keys, "running" if is_running else "missing", None, [], True, 0, None, [], None, None, None)
    attempt = max(valid, key=lambda each: (each.number, each.began_us, each.stream_id))
    actions = attempt.of("ActionStarted")
    asked = attempt.of("QuestionAsked")
    results = {event.checkpoint_id: event for event in attempt.of("CheckpointScored") if event.is_primary}
    ordered = [results[one.checkpoint_id] for one in tasks[attempt.start.task_digest].checkpoints]
    points, total = sum(Fraction(one.score) for one in ordered), sum(Fraction(one.total) for one in ordered)
    is_course_known = attempt.of("TrialFinished")[0].action_count is not None
    injected = [event.after_action for event in attempt.of("ClarificationInjected") if event.status == "injected"]
    return Trial(
        keys=attempt.start,
        state="valid",
        counted=attempt,
        actions=actions,
        is_course_known=is_course_known,
        questions=len(asked) if is_course_known else None,
        first_ask_pct=100 * min(one.action_index for one in asked) / len(actions) if asked else None,
        scores=[one.score for one in ordered],
        progress=points / total if total else None,
        is_success=attempt.of("TrialFinished")[0].is_success,
        after_action=injected[0] if injected else None,
    )


def _is_valid(attempt, tasks):
    if not attempt.of("TrialFinished"):
        return False
    found = Counter(event.checkpoint_id for event in attempt.of("CheckpointScored") if event.is_primary)
    return all(found[one.checkpoint_id] == 1 for one in tasks[attempt.start.task_digest].checkpoints)


def is_measured(trial, *, intention_to_treat=False):
    """Whether a trial stands in means."""
    if trial.state != "valid":
        return False
    return trial.keys.inject_percent is None or trial.after_action is not None or intention_to_treat


def cells_of(trials):
    """Return the trials of every (agent, kind, unit, condition)."""
    cells = defaultdict(list)
    for trial in trials.values():
        keys = trial.keys
        if keys.variant_id is not None:
            cells[keys.agent, "variant", keys.variant_id, keys.condition].append(trial)
        if keys.prompt_state == "full":
            cells[keys.agent, "task", keys.task_id, keys.condition].append(trial)
    return cells


def pass_at_k(n, c, k):
    """Return 1 - C(n-c, k) / C(n, k); None if n < k."""
    return None if n < k else 1 - Fraction(comb(n - c, k), comb(n, k))


def pass_hat_k(n, c, k):
    """Return C(c, k) / C(n, k); None if n < k."""
    return None if n < k else Fraction(comb(c, k), comb(n, k))


def pass_rows(trials, planned, k):
    """Return the rows of pass_at_k that a person would compute, by (agent, kind, unit, condition)."""
    rows = {}
    for key, cell in cells_of(trials).items():
        measured = [trial for trial in cell if is_measured(trial)]
        n, c = len(measured), sum(trial.is_success for trial in measured)
        valid = sum(trial.state == "valid" for trial in cell)
        running = sum(trial.state == "running" for trial in cell)
        progress = [trial.progress for trial in measured if trial.progress is not None]
        rows[key] = {
            "n_trials": n,
            "n_missing": max(planned, len(cell)) - valid - running,
            "n_failed": len(cell) - valid - running,
            "pass_at_k": pass_at_k(n, c, k),
            "pass_hat_k": pass_hat_k(n, c, k),
            "checkpoint_progress": sum(progress) / len(progress) if progress else None,
            "n_questions": _sum([trial.questions for trial in measured]),
            "n_asking_trials": _sum([trial.questions and 1 for trial in measured]),
        }
    return rows


def _sum(numbers):
    """The sum; None where one of them is unknown."""
    return None if None in numbers else sum(numbers)


def classes_of(trials, planned, reading):
    """Return the class that each agent's own underspecified trials give, by (agent, variant)."""
    found = {}
    for (agent, _, unit, condition), cell in cells_of(trials).items():
        if condition == "underspecified":
            states = [(trial.is_success, tuple(trial.scores)) for trial in cell if trial.state == "valid"]
            found[agent, unit] = _class(states, max(planned, len(cell)), reading)
    return found


def _class(states, planned, reading):
    if len(states) < planned:
        return None
    successes = sum(is_success for is_success, _ in states)
    if successes == 0:
        return "outcome-critical"
    one_state = len({scores for _, scores in states}) == 1
    if successes == len(states) and (one_state or reading == "readme"):
        return "benign"
    return "divergent"


def gains_of(rows, measure):
    """Return value(ask_user) - value(underspecified) by (agent, variant); None where an arm has no value."""
    units = {(agent, unit) for agent, kind, unit, _ in rows if kind == "variant"}
    found = {}
    for agent, unit in units:
        arms = [rows.get((agent, "variant", unit, condition)) for condition in ("ask_user", "underspecified")]
        if any(arm is not None for arm in arms):
            values = [arm[measure] if arm else None for arm in arms]
            found[agent, unit] = None if None in values else values[0] - values[1]
    return found


def voi_of(rows, variants, cases):
    """Return (mean pass@k, units) by (dimension, condition), agents pooled; ``variants`` gives dimensions and task."""
    found = defaultdict(list)
    for agent, variant_id in sorted({(key[0], key[2]) for key in rows if key[1] == "variant"}):
        dimensions, task_id = variants[variant_id]
        values = {}
        for condition in ("full", "underspecified", *INJECTED):
            row = rows.get((agent, "variant", variant_id, condition))
            if condition == "full" and row is None:
                row = rows.get((agent, "task", task_id, "full"))
            values[condition] = row["pass_at_k"] if row else None
        if not any((agent, "variant", variant_id, condition) in rows for condition in INJECTED):
            continue
        is_complete = all(values[condition] is not None for condition in ("full", *INJECTED))
        for dimension in dimensions:
            for condition, value in values.items():
                found[dimension, condition].append(value if is_complete or cases == "available" else None)
    return {key: (mean(values), sum(value is not None for value in values)) for key, values in found.items()}


def wasted_of(trials, match, supply_rule):
    """Return (pre-injection actions, wasted ones) of every measured injected trial; None if unknown.

    Wasted is None without an oracle, too.
    """
    found = {}
    for trial_id, trial in trials.items():
        if trial.keys.inject_percent is None or not is_measured(trial):
            continue
        if not trial.is_course_known:
            found[trial_id] = (None, None)
            continue
        traces = _oracle_traces(trials, trial.keys)
        before = [_key(one, match) for one in trial.actions if one.action_index <= trial.after_action and _counts(one)]
        if not traces:
            found[trial_id] = (len(before), None)
            continue
        left = _supply(traces, match, supply_rule)
        wasted = 0
        for key in before:
            if left[key] > 0:
                left[key] -= 0 if supply_rule == "set" else 1
            else:
                wasted += 1
        found[trial_id] = (len(before), wasted)
    return found


def _oracle_traces(trials, keys):
    full = [
        trial
        for trial in trials.values()
        if trial.state == "valid"
        and trial.is_course_known
        and trial.keys.condition == "full"
        and trial.keys.agent == keys.agent
    ]
    own = [trial for trial in full if trial.keys.variant_id == keys.variant_id]
    shared = [trial for trial in full if trial.keys.task_id == keys.task_id and trial.keys.variant_id is None]
    return sorted(own or shared, key=lambda trial: trial.keys.trial_index)


def _supply(traces, match, rule):
    counts = [Counter(_key(one, match) for one in trial.actions if _counts(one)) for trial in traces]
    if rule == "single":
        return counts[0]
    total = Counter()
    for count in counts:
        total = total | count if rule in ("max", "set") else total + count
    return total


def _counts(action):
    return action.kind != "text" and action.name not in ("ask_user", "submit")


def _key(action, match):
    if match == "name":
        return action.name
    if action.kind == "malformed":
        return action.name, action.arguments_json.strip()
    return action.name, action.arguments_json.replace('" ', '"').replace(' "', '"')


def mean(values):
    """Return the mean of the values that there are; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
