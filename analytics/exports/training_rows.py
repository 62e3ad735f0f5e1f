"""The export ``training``: every valid trial as chat messages with tool calls, with rewards per trial and per step.

An undefined reward is null with its reason, never 0. docs/exports.md defines the rewards.

Source: docs/metrics.md 1, 3 and 4; Ask-F1: HiL-Bench (arXiv 2604.09408), ``compute_hil_metrics`` of its code.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from lhaw_record.analytics.exports.attempts import Said, conversations
from lhaw_record.analytics.exports.exported import ExportFolder, card
from lhaw_record.analytics.views.rows import rows_of
from lhaw_record.analytics.views.store import open as open_store

REWARDS = ("success", "progress", "net_value", "question_precision", "question_recall", "ask_f1", "timing")
STEPPED = ("success", "progress", "net_value", "ask_f1", "timing")
"""The rewards whose steps add up to the reward of the trial."""

PERCENTAGES = (10, 30, 50, 70, 90)
FEATURES = {
    **dict.fromkeys(("trial_id", "benchmark", "task_id", "variant_id", "condition", "agent", "model"), "string"),
    "instruments": "string",
    "trial_index": "int64",
    "messages": [
        {
            "role": "string",
            "content": "string",
            "reasoning_content": "string",
            "tool_calls": [{"id": "string", "type": "string", "function": {"name": "string", "arguments": "string"}}],
            "tool_call_id": "string",
        }
    ],
    "tools": "string",
    "rewards": dict.fromkeys(REWARDS, "float64"),
    "reasons": dict.fromkeys(REWARDS, "string"),
    "first_ask_pct": "float64",
    "first_ask_timing": "string",
    "steps": [{"message_index": "int64", "question_count": "int64", **dict.fromkeys(STEPPED, "float64")}],
}

_TRIALS = """
    with budgets as (
        select trials.benchmark, trials.agent_name, trials.agent_digest, trials.settings_digest, trials.oracle_scope,
            case trials.oracle_scope when 'task' then trials.task_id else trials.variant_id end as unit_id,
            max(trials.budget_actions) as budget
        from trials
        inner join int_trials_screened as screened on trials.trial_id = screened.trial_id
        where trials.budget_actions is not null and screened.exclusion is null
            and trials.ambiguity_class is distinct from 'new_task'
        group by all
    )
    select trials.*,
        coalesce(screened.exclusion, case trials.ambiguity_class when 'new_task' then 'new_task' end) as exclusion,
        budgets.budget, without.unit_value as value_without, ledger.precision,
        ledger.recall, ledger.met_count, ledger.removed_count, ledger.reason as ledger_reason
    from trials
    inner join int_trials_screened as screened on trials.trial_id = screened.trial_id
    left join budgets
        on trials.benchmark = budgets.benchmark and trials.agent_name = budgets.agent_name
            and trials.agent_digest = budgets.agent_digest and trials.settings_digest = budgets.settings_digest
            and trials.oracle_scope = budgets.oracle_scope
            and budgets.unit_id = case trials.oracle_scope when 'task' then trials.task_id else trials.variant_id end
    left join unit_values as without
        on trials.benchmark = without.benchmark and trials.agent = without.agent
            and trials.variant_id = without.unit_id and without.unit_kind = 'variant'
            and without.condition = 'underspecified' and without.measure = 'pass_at_1'
    left join question_ledger as ledger on trials.trial_id = ledger.trial_id
    where screened.exclusion is distinct from 'other_experiment'
    order by trials.benchmark, trials.task_id, trials.variant_id nulls first, trials.agent, trials.condition,
        trials.trial_index, trials.trial_id
"""
_CURVES = """
    with arms as (
        select distinct trials.benchmark, trials.agent_name, trials.agent_digest, trials.settings_digest, used.agent
        from int_trials_evaluated as used
        inner join trials on used.trial_id = trials.trial_id
        where used.inject_percent is not null
    )
    select arms.benchmark, arms.agent_name, arms.agent_digest, arms.settings_digest, arms.agent, voi.dimension,
        voi.has_oracle_gap, voi.condition, voi.value
    from arms
    inner join voi on arms.benchmark = voi.benchmark and arms.agent = voi.agent
    where voi.measure = 'pass_at_1' and voi.condition like 'inject%'
"""
_QUESTIONS = """
    select questions.stream_id, placed.sequence, questions.requested_segment_ids, actions.model_call_id
    from questions
    inner join int_questions_placed as placed
        on questions.stream_id = placed.stream_id and questions.question_id = placed.question_id
    left join actions
        on questions.stream_id = actions.stream_id and questions.action_index = actions.action_index
    where questions.is_counted
    order by questions.stream_id, questions.question_number
"""
_CALLS = """
    select calls.stream_id, calls.call_id, calls.sequence, calls.call_kind in ('main', 'retry') as is_main,
        calls.outcome = 'responded' and calls.call_kind = 'main' as is_reply, sent.model_called.tools_json as tools_json
    from model_calls as calls
    inner join events as sent on calls.stream_id = sent.stream_id and calls.sequence = sent.sequence
    where calls.is_counted and calls.role = 'agent'
    order by calls.stream_id, calls.sequence
"""
TRAINING_VIEWS = {
    *("trials", "int_trials_screened", "int_trials_evaluated", "unit_values", "voi"),
    *("question_ledger", "questions", "int_questions_placed", "actions", "model_calls"),
}

_PLAIN_AGENT = ("benchmark", "agent_name", "agent_digest", "settings_digest")
_Curve = tuple[float, ...] | str
"""The value under each of ``PERCENTAGES``, or the reason why there is none."""


class AskedQuestion(msgspec.Struct, frozen=True):
    """A question: the model call that asked it, and the requested segments that its answer gave.

    ``sequence`` is its position among the events of the attempt.
    """

    call_id: str | None
    sequence: int
    requested: frozenset[str]


class Timing(msgspec.Struct, frozen=True):
    """When a trial first asked, in % of its unit's budget, and how that compares with the curve.

    ``reward`` is the value of an injection at that time minus the highest value of the curve. ``verdict`` is early,
    late or in_time.
    """

    first_ask_pct: float | None = None
    reward: float | None = None
    verdict: str | None = None
    reason: str | None = None


def training_rows(
    store: Path, experiment: str | None = None, *, test_share: float = 0.1, question_cost_pp: float = 5.0
) -> ExportFolder:
    """Return the trials as JSON Lines for each split, with a card."""
    with open_store(store, parameters={"experiment": experiment}, only=TRAINING_VIEWS) as connection:
        return training_of(connection, test_share=test_share, question_cost_pp=question_cost_pp)


def training_of(connection: duckdb.DuckDBPyConnection, *, test_share: float, question_cost_pp: float) -> ExportFolder:
    """Return the same as :func:`training_rows`, from an open store that has ``TRAINING_VIEWS``."""
    trials = rows_of(connection, _TRIALS)
    curves, questions, said = _curves(connection), _questions(connection), conversations(connection)
    replies, places, tools = _calls(connection)
    ((window_pp,),) = connection.execute("select getvariable('window_pp')").fetchall()
    splits: dict[str, list[bytes]] = {"train": [], "test": []}
    tasks: dict[str, set[tuple[str, str]]] = {"train": set(), "test": set()}
    missing = silent = changed = 0
    unused: Counter[str] = Counter()
    for trial in trials:
        stream = trial["stream_id"]
        spoken = said.get(stream, [])
        if trial["trial_state"] != "valid":
            missing += 1
        elif trial["exclusion"] is not None:
            unused[trial["exclusion"]] += 1
        elif not any(each.call_id for each in spoken):
            silent += 1
        elif not replies[stream] <= {each.call_id for each in spoken}:
            changed += 1
        else:
            timing = first_ask(trial, [curves.get(key, "no_curve") for key in _curve_keys(trial)], window_pp)
            asked = _asked(spoken, questions[stream], places[stream])
            row = _row(trial, spoken, tools.get(stream), asked, timing, question_cost_pp / 100)
            split = split_of(trial["benchmark"], trial["task_id"], test_share)
            splits[split].append(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            tasks[split].add((trial["benchmark"], trial["task_id"]))
    files = {f"{split}.jsonl": b"".join(rows) for split, rows in splits.items() if rows}
    told = [
        f"{split}: {len(rows)} trials of {len(tasks[split])} tasks ({share:g} of the tasks expected)"
        for (split, rows), share in zip(splits.items(), (round(1 - test_share, 6), test_share), strict=True)
    ]
    text = "\n".join(
        (
            "Written by `lhaw-record export training`. Rewards: docs/exports.md of lhaw-record.",
            "",
            *(f"- {each}" for each in told),
            f"- a question costs {question_cost_pp:g} percentage points in `net_value`",
        )
    )
    readme = card("Trials with rewards", text, FEATURES, {name.removesuffix(".jsonl"): name for name in files})
    return ExportFolder(
        files={**files, "README.md": readme} if files else {},
        count=sum(map(len, splits.values())),
        what="trials",
        notes=tuple(told),
        left_out=(
            *((f"{missing} trials without a valid attempt and so without a reward",) if missing else ()),
            *(f"{count} trials that no table uses ({reason})" for reason, count in sorted(unused.items())),
            *((f"{silent} trials without a recorded conversation",) if silent else ()),
            *((f"{changed} trials whose conversation was rewritten or compacted on the way",) if changed else ()),
        ),
    )


def split_of(benchmark: str, task_id: str, test_share: float) -> str:
    """Return the split of a task: ``test`` if its hash, a number from 0 to 1, is below the share.

    All variants, versions and trials of a task are therefore in one split, in every export.
    """
    number = int.from_bytes(sha256(f"{benchmark}/{task_id}".encode()).digest()[:8], "big") / 2**64
    return "test" if number < test_share else "train"


def ask_f1(question_count: int, requested_count: int, removed_count: int) -> float:
    """Return Ask-F1 of HiL-Bench: the harmonic mean of blockers found / questions and blockers found / blockers.

    It is 0 if no question was asked. In HiL-Bench an answer resolves one blocker; here it may reveal more, so precision
    is capped at 1.
    """
    precision = min(1.0, requested_count / question_count) if question_count else 0.0
    recall = requested_count / removed_count
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def first_ask(trial: Mapping[str, Any], curves: Iterable[_Curve], window_pp: float) -> Timing:
    """Locate the first question of a trial on the curve of its variant, the mean curve of the variant's dimensions.

    The value of an answer is the value of the last injection up to that time (before 10 %, the value at 10 %). A
    question is late if an earlier injection is worth more by over ``window_pp`` percentage points, and early if a later
    one is.
    """
    if trial["condition"] != "ask_user":
        return Timing(reason="not_ask_user")
    if trial["question_count"] == 0:
        return Timing(reason="nobody_asked")
    if trial["first_ask_action"] is None:
        return Timing(reason="unknown_actions")
    if trial["budget"] is None:
        return Timing(reason="no_budget")
    pct = 100 * trial["first_ask_action"] / trial["budget"]
    found = list(curves)
    reasons = [each for each in found if isinstance(each, str)]
    if reasons or not found:
        return Timing(first_ask_pct=pct, reason=reasons[0] if reasons else "no_curve")
    values = [
        sum(points) / len(found) for points in zip(*(each for each in found if not isinstance(each, str)), strict=True)
    ]
    place = max((n for n, percent in enumerate(PERCENTAGES) if percent <= pct), default=0)
    best = max(values)
    is_worse = round(best - values[place], 6) > window_pp / 100
    verdict = "in_time" if not is_worse else "late" if values.index(best) < place else "early"
    return Timing(pct, values[place] - best, verdict)


def _curve_keys(trial: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [(*(trial[name] for name in _PLAIN_AGENT), dimension) for dimension in trial["dimensions"] or ()]


def _curves(connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, ...], _Curve]:
    """Return the curve of each agent, settings and dimension.

    If the store has several simulators or injection templates, trials that asked and injected trials have different
    arms, but the same agent and settings. With several templates, no single curve applies.
    """
    points: defaultdict[tuple[str, ...], dict[str, float | None]] = defaultdict(dict)
    gaps: dict[tuple[str, ...], bool | None] = {}
    arms: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for row in rows_of(connection, _CURVES):
        key = (*(row[name] for name in _PLAIN_AGENT), row["dimension"])
        points[key][row["condition"]] = row["value"]
        gaps[key] = row["has_oracle_gap"]
        arms[key].add(row["agent"])
    found: dict[tuple[str, ...], _Curve] = {}
    for key, values in points.items():
        known = [value for percent in PERCENTAGES if (value := values.get(f"inject_{percent}")) is not None]
        if len(arms[key]) > 1:
            found[key] = "several_curves"
        elif len(known) < len(PERCENTAGES):
            found[key] = "no_curve"
        elif gaps[key] is None:
            found[key] = "unknown_oracle_gap"
        else:
            found[key] = tuple(known) if gaps[key] else "no_oracle_gap"
    return found


def _questions(connection: duckdb.DuckDBPyConnection) -> defaultdict[str, list[AskedQuestion]]:
    found: defaultdict[str, list[AskedQuestion]] = defaultdict(list)
    for row in rows_of(connection, _QUESTIONS):
        requested = frozenset(row["requested_segment_ids"] or ())
        found[row["stream_id"]].append(AskedQuestion(row["model_call_id"], row["sequence"], requested))
    return found


def _calls(
    connection: duckdb.DuckDBPyConnection,
) -> tuple[defaultdict[str, set[str]], defaultdict[str, dict[str, int]], dict[str, str]]:
    """Return the reply ids of each attempt, where its calls were made, and its initial tools."""
    replies: defaultdict[str, set[str]] = defaultdict(set)
    places: defaultdict[str, dict[str, int]] = defaultdict(dict)
    tools: dict[str, str] = {}
    for row in rows_of(connection, _CALLS):
        places[row["stream_id"]][row["call_id"]] = row["sequence"]
        if row["is_reply"]:
            replies[row["stream_id"]].add(row["call_id"])
        if row["is_main"] and row["tools_json"]:
            tools.setdefault(row["stream_id"], row["tools_json"])
    return replies, places, tools


def _asked(
    said: Sequence[Said], questions: Iterable[AskedQuestion], places: Mapping[str, int]
) -> defaultdict[str, list[AskedQuestion]]:
    """Return the questions of each reply.

    A question without a known reply in the conversation, for example from a sub-agent, belongs to the first reply that
    was requested after it, or else to the last reply.
    """
    replies = [each.call_id for each in said if each.call_id is not None]
    asked: defaultdict[str, list[AskedQuestion]] = defaultdict(list)
    for question in questions:
        after = (call_id for call_id in replies if places[call_id] > question.sequence)
        own = question.call_id if question.call_id in replies else None
        asked[own or next(after, replies[-1])].append(question)
    return asked


def _row(
    trial: Mapping[str, Any],
    said: Sequence[Said],
    tools: str | None,
    asked: Mapping[str, Sequence[AskedQuestion]],
    timing: Timing,
    question_cost: float,
) -> dict[str, Any]:
    rewards, reasons = _rewards(trial, timing, question_cost)
    return {
        **{name: trial[name] for name in FEATURES if name in trial},
        "messages": [_message(each) for each in said],
        "tools": tools,
        "rewards": rewards,
        "reasons": reasons,
        "first_ask_pct": timing.first_ask_pct,
        "first_ask_timing": timing.verdict,
        "steps": _steps(trial, said, asked, rewards, question_cost),
    }


def _message(said: Said) -> dict[str, Any]:
    message = said.message
    text = message.get("content")
    return {
        "role": message["role"],
        "content": text if isinstance(text, str) else "" if text is None else json.dumps(text, ensure_ascii=False),
        "reasoning_content": said.reasoning,
        "tool_calls": message.get("tool_calls") or None,
        "tool_call_id": message.get("tool_call_id"),
    }


def _rewards(
    trial: Mapping[str, Any], timing: Timing, question_cost: float
) -> tuple[dict[str, float | None], dict[str, str | None]]:
    """Return the rewards of a trial, and the reasons for null rewards."""
    rewards: dict[str, float | None] = dict.fromkeys(REWARDS)
    reasons: dict[str, str | None] = dict.fromkeys(REWARDS)
    rewards["success"] = float(trial["is_success"])
    rewards["progress"], reasons["progress"] = _known(trial["checkpoint_progress"], "no_points")
    rewards["timing"], reasons["timing"] = timing.reward, timing.reason
    if trial["condition"] != "ask_user":
        reasons.update(dict.fromkeys(("net_value", "question_precision", "question_recall", "ask_f1"), "not_ask_user"))
        return rewards, reasons
    count, without, why = trial["question_count"], trial["value_without"], trial["ledger_reason"]
    if count is None or without is None:
        reasons["net_value"] = "unknown_actions" if count is None else "no_underspecified_trials"
    else:
        rewards["net_value"] = rewards["success"] - without - question_cost * count
    rewards["question_precision"], reasons["question_precision"] = _known(trial["precision"], why)
    rewards["question_recall"], reasons["question_recall"] = _known(trial["recall"], why)
    if why in (None, "nobody_asked") and trial["removed_count"]:
        rewards["ask_f1"] = ask_f1(count, trial["met_count"], trial["removed_count"])
    else:
        reasons["ask_f1"] = why or "unknown_segments"
    return rewards, reasons


def _known(value: float | None, reason: str | None) -> tuple[float | None, str | None]:
    return (value, None) if value is not None else (None, reason)


def _steps(
    trial: Mapping[str, Any],
    said: Sequence[Said],
    asked: Mapping[str, Sequence[AskedQuestion]],
    rewards: Mapping[str, float | None],
    question_cost: float,
) -> list[dict[str, Any]]:
    """Return a step for each reply of the agent. The rewards of the steps add up to the reward of the trial.

    ``ask_f1`` of a step is the change by its questions, ``timing`` belongs to the step of the first question, each
    question costs where it is asked, and the rest is in the last step.
    """
    places = [place for place, each in enumerate(said) if each.call_id is not None]
    steps: list[dict[str, Any]] = []
    known: frozenset[str] = frozenset()
    count, before = 0, 0.0
    for place in places:
        mine = asked.get(said[place].call_id or "", [])
        known = known.union(*(each.requested for each in mine))
        is_first, count = bool(mine) and count == 0, count + len(mine)
        after = ask_f1(count, len(known), trial["removed_count"]) if rewards["ask_f1"] is not None else 0.0
        is_last = place == places[-1]
        values = {
            "success": (rewards["success"] or 0.0) * is_last,
            "progress": (rewards["progress"] or 0.0) * is_last,
            "net_value": (rewards["success"] or 0.0) * is_last
            - (trial["value_without"] or 0.0) * is_last
            - question_cost * len(mine),
            "ask_f1": after - before,
            "timing": (rewards["timing"] or 0.0) * is_first,
        }
        known_values = {name: None if rewards[name] is None else value for name, value in values.items()}
        steps.append({"message_index": place, "question_count": len(mine), **known_values})
        before = after
    return steps
