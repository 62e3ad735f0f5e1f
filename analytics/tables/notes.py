"""Write the notes under a table: its parameters, exclusions, missing data and cautions."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from lhaw_record.analytics.views.parameters import Setting, current, reading_of
from lhaw_record.recorder.events.values import DIMENSIONS

if TYPE_CHECKING:
    import duckdb

_LEFT_OUT = "tasks_left_out"
_EVERYWHERE = {
    "missing_trials": "missing trials of {benchmark}: {n}, not counted as failures; {some} of them started but have "
    "no result, and any others never started, were set aside or are left out",
    "discarded": "set aside by hand (discard): {n} trials of {benchmark}; they cost {cost}, which no other sum "
    "includes, and count as missing if their cell has other trials",
    "discarded_replaced": "set aside by hand (discard) and replaced by another attempt: {n} trials of {benchmark}; "
    "the attempts that were set aside cost {cost}, which no other sum includes",
    _LEFT_OUT: "tasks of {benchmark} that were left out (allow_left_out): {n}; the numbers cover only the other tasks",
    "running_trials": "trials of {benchmark} that are running now: {n}",
    "unstarted_trials": "trials of the last plan that have not started yet: {n}; they count as missing if their cell "
    "has other trials",
    "superseded": "left out of {benchmark}, because their task or variant has changed since: {n} trials",
    "other_user_simulator": "left out of {benchmark}, because they have another user simulator: {n} trials",
    "other_experiment": "left out of {benchmark}, because they belong to other experiments: {n} trials",
    "injection_lost": "left out of {benchmark}, because the injected message did not reach the agent (flag "
    "injection_lost; keep_flagged keeps them): {n} trials; agent_health names the agents",
    "flagged_injection_lost": "flagged in {benchmark}: {n} kept trials whose injected message did not reach the agent",
    "flagged_actions_uncounted": "flagged in {benchmark}: {n} trials with actions of the agent that were not "
    "counted; action counts are too small (agent_health names the agents)",
    "flagged_no_main_thread": "flagged in {benchmark}: {n} trials whose main thread was not recognised; "
    "action counts are guesses (agent_health names the agents)",
    "late_recorder": "trials of {benchmark} in which the recording process was late by over 5 % of the agent's time: "
    "{n}; this delay does not count as the agent's time, but run fewer trials at once or use more workers",
    "flagged_asking_unanswered": "flagged in {benchmark}: {n} trials whose program offered its own way to ask, but "
    "nobody answers there (agent_health names the agents)",
    "classifying_trial": "left out of {benchmark}, because they gave the variants their class: {n} trials",
    "baseline_reused_cells": "baseline_reused: in {n} cells of {benchmark} the trials that gave the class are also "
    "the baseline, so gains contain regression to the mean",
    "excluded_ending": "left out of {benchmark}, because of how they ended (exclude_endings): {n} trials, "
    "which count as missing",
    "new_task": "left out of {benchmark}, because their variant is new_task: {n} trials",
    "new_task_variants": "new_task variants of {benchmark}: {n}; no table includes them",
    "other_settings": "left out of {benchmark}, because they have other settings: {n} trials",
    "arms_by_version": "some agents ran in several versions (program, model, parameters, prompts). Each NAME#DIGEST is "
    "a separate agent; the view arms has its program and first day. To remove a mistaken version from all tables, "
    "use 'discard STORE --agent NAME#DIGEST --reason WHY'",
    "arms_by_settings": "some agents of {benchmark} ran under several settings (limits, prompts, grader, simulator, "
    "image). Each NAME#DIGEST is a separate arm. The view arms says what differs; the parameter settings selects arms",
}
_DIFFER = (
    "agents of {benchmark} ran on different {units}{how}: {some} {units} are common to all agents with the condition "
    "and {n} are not, so a difference between agents is partly a difference between {units} (compare uses only common "
    "{units})"
)
_FULL = {"tasks_not_common": _DIFFER.replace("{units}", "tasks").replace("{how}", " under the full prompt")}
_ASKED = {"variants_not_common": _DIFFER.replace("{units}", "variants").replace("{how}", "")}
_INJECTED = {"injected_not_common": _DIFFER.replace("{units}", "variants").replace("{how}", " under injections")}
ARM_KINDS = {
    "no_tool_called": ("no tool was ever called", "trials", "The agent may be unable to act; see docs/models.md."),
    "calls_in_text": (
        "tool calls were left in the text, because the server did not recognise them",
        "trials",
        "Switch on the server's tool parser or template (vLLM and SGLang: --tool-call-parser; llama.cpp: --jinja).",
    ),
    "redacted_tools": (
        "a tool's name contains a secret, so the name is recorded as [redacted]",
        "trials",
        "The agent could call the tool, but its actions and questions cannot be distinguished here; rename the tool.",
    ),
    "split_replies": (
        "tool calls in a streamed reply had no index of their own and were separated by their ids or names",
        "replies",
        "A client that uses only the index ran one malformed call, or none.",
    ),
    "cut_replies": (
        "replies were cut off at their length limit",
        "replies",
        "The rest of each reply is unknown; increase max_tokens.",
    ),
    "refused": ("the model or a filter refused", "trials", "The work that these trials left is graded."),
    "overflowed": (
        "the conversation became too long for the model",
        "trials",
        "The work that these trials left is graded; exclude_endings = context_limit leaves them out.",
    ),
    "identical_trials": (
        "trials are identical: all trials of a cell have the same actions",
        "cells",
        "They are copies, not repetitions (temperature 0?), so more trials of a cell add no information.",
    ),
    "nothing_revealed": (
        "the simulated user never revealed anything",
        "questions",
        "Asking cannot have helped; check the simulator and the questions.",
    ),
    "echoed_questions": (
        "questions were echoed: the answer only repeats the question",
        "answers",
        "The simulated user's model is too weak for its role.",
    ),
    "failed_asking": (
        "failures are unanswered questions: the agent ended by asking its user in prose",
        "failures, in conditions where most failures end like this",
        "Nobody answers such questions, so the agent did not fail at the task itself; the table endings counts them.",
    ),
    "hung_up": (
        "the program closed its model call before the reply, or never made a call",
        "attempts",
        "An agent that can hang up at will selects which trials count; see docs/metrics.md 1, hang-ups.",
    ),
    "missing_unequally": (
        "more trials are missing under one condition than under another",
        "planned trials of both",
        "Gains and losses between them may be due to missing trials; see worst_low and best_high in their rows.",
    ),
    "missing_in_hard_tasks": (
        "trials are missing mostly in hard tasks",
        "planned trials",
        "Levels are too high, because missing trials would often have failed.",
    ),
}
"""Cautions about single arms, by kind in the view arm_cautions: title, what is counted, meaning."""
MOST_HANG_UPS = 5.0
"""The percentage of attempts that may end by hanging up before an arm is flagged and not compared: a choice."""
_LEAST_PERCENT = dict.fromkeys(ARM_KINDS, 0.0) | {
    "cut_replies": 1.0,
    "identical_trials": 50.0,
    "hung_up": MOST_HANG_UPS,
}
_ABOUT_TRIALS = frozenset({"overall", "endings", "trial_counts_and_cost"})
_NO_SEGMENTS = {
    "variants_without_segments": "variants of {benchmark} whose removed segments are unknown: {n}; they have no "
    "dimension and no number of segments",
}
_NOT_CHOSEN = {
    "several_classifiers": "variants of {benchmark} without a class, because several agents classified them, or one "
    "under several settings: {n}; choose with classifier_agent = NAME or NAME#DIGEST, or settings = DIGEST",
}
_UNCLASSIFIED = {
    "unclassified_variants": "variants of {benchmark} without a class: {n}; tables by class leave them out, and the "
    "view ambiguity_classes says why",
}
_OF_TIMING = {
    "not_injected_trials": "trials of {benchmark} that ended before their injection: {n}; with intention_to_treat "
    "they count under their planned condition, otherwise they do not count; wasted compute counts them only with "
    "wasted_uninjected",
    "collapsed_units": "collapsed: in {n} (variant, agent) units of {benchmark} the budget is so small that "
    "several percentages give the same action",
}
COUNTED = {
    **_EVERYWHERE,
    **_UNCLASSIFIED,
    **_NOT_CHOSEN,
    **_OF_TIMING,
    "cells_with_too_few_trials": "cells of {benchmark} with fewer than k valid trials: {n}; their pass@k is undefined, "
    "and means leave them out",
    "unjudged_variants": "new_task candidates of {benchmark} without a verdict: {n}; they count as outcome-critical",
}
"""Templates by the kind in the view exclusions: those of all tables, and those of the report only."""
_TIMED = ("voi", "point_of_no_return", "optimal_window", "commitment", "timing_hypotheses")
_BY_DIMENSION = ("by_dimension_pass", "by_dimension_progress", "by_segments_removed")
_MEANS = ("overall", "claims", "losses", "by_class", *_BY_DIMENSION, "fidelity", "generality")
_OF_GAINS = (*_MEANS, "by_severity", "by_strategy", "by_persona", "gain_tests", "net_value", "natural_ask")
_FAILURES = ("failure_modes", "failure_modes_failed", "failure_modes_by_class")
_BY_CLASS = ("fidelity", "by_severity", "by_strategy", "by_persona", "gain_tests", "failure_modes_by_class")
_NOTES_OF: Sequence[tuple[Mapping[str, str], Sequence[str]]] = (
    (_UNCLASSIFIED, ("by_class", "point_of_no_return")),
    (_OF_TIMING, (*_TIMED, "overall", "claims", "losses", "wasted", "kendall")),
    (_NOT_CHOSEN, ("by_class", "point_of_no_return", *_BY_CLASS, "variant_breakdown")),
    (_NO_SEGMENTS, (*_BY_DIMENSION, *_TIMED, "variant_breakdown", "gain_tests", "effects")),
    (
        _ASKED,
        (
            *(*_MEANS, *_FAILURES, "by_severity", "by_strategy", "by_persona", "gain_tests", "effects"),
            *("net_value", "natural_ask", "archetypes", "question_quality"),
        ),
    ),
    (_INJECTED, (*_TIMED, "overall", "claims", "losses", "effects", "wasted")),
    (_FULL, (*_MEANS, "over_asking", "voi", "commitment")),
)
"""Templates of notes, and the tables that they belong to."""
_NOT_LEFT_OUT = {"segment_labels": {"classifying_trial"}}
"""By table, what it includes although other tables exclude it."""
_UNJUDGED = "unjudged_variants"
_ALWAYS_SHOWN = (
    "experiment",
    "settings",
    "user_simulator",
    "reuse_classifying_trials",
    "keep_flagged",
    "exclude_endings",
)
_REASONS = ("reason", "tokens_reason", "cost_reason")
MEANINGS = {
    "too_few_trials": "pass@k needs k valid trials of a unit; --set k=1 needs only one",
    "one_arm_only": "no unit has trials in both arms, so there are no pairs",
    "incomplete_unit": "only units with a value under full and all injections count; "
    "--set voi_cases=available uses every unit of a condition",
    "too_few_clusters": "an interval needs 5 tasks for levels, 6 for gains, 7 for ratios and 15 for tau; results from "
    "fewer tasks are inconclusive",
    "one_task_has_N_pct": "in rows with a ? at the interval, one task has N % of the variants, so all tasks together "
    "give no more information than four equal tasks; the interval is wide and depends on few tasks",
    "rare_effect": "in rows with a ? at the interval, hardly any task shows this effect, so the interval may be too "
    "short; more tasks help most",
    "no_variation": "all tasks have this value, so its uncertainty is unknown",
    "no_gain_shown": "information is not shown to help at the earliest injection, so there is no window",
    "flat_curve": "no injection time is shown to be better than another, so there is no window",
    "no_oracle_gap": "full does not exceed underspecified, so there is nothing to recover",
    "unbounded": "full may not exceed underspecified, so any recovered share is possible",
    "one_of_few": "the value is one of a few percentages, so it has no interval; the gains behind it have intervals",
}
"""The meanings of reason values, in the order of the notes."""


class Background(NamedTuple):
    """The data for notes about the whole store, the same for every table of a connection.

    ``values`` are the values of all parameters. ``counted`` and ``cost_usd`` are the counts and costs of the view
    exclusions by kind and benchmark. ``arms`` are the lines of :func:`lines_of_arms`.
    ``instruments`` are the versions of :func:`instruments_of`, ``users`` the lines of :func:`lines_of_users`.
    """

    values: Mapping[str, Setting]
    counted: Mapping[tuple[str, str], int]
    cost_usd: Mapping[tuple[str, str], float | None]
    arms: Mapping[str, Sequence[str]]
    instruments: Sequence[str]
    users: Sequence[str]


def background(connection: "duckdb.DuckDBPyConnection") -> Background:
    """Read the background of notes from a connection."""
    rows = connection.execute("select benchmark, kind, n, cost_usd from exclusions order by kind, benchmark").fetchall()
    return Background(
        values=current(connection),
        counted={(kind, benchmark): n for benchmark, kind, n, _ in rows},
        cost_usd={(kind, benchmark): cost for benchmark, kind, _, cost in rows},
        arms=lines_of_arms(connection),
        instruments=instruments_of(connection),
        users=lines_of_users(connection),
    )


KEPT_RECALL = {"rules/3": 0.79, "rules/4": 0.79, "encoder/3": 0.84, "encoder/4": 0.84}
"""The share of well-aimed questions that ``exact`` answered, by its judge (docs/matcher.md, both kept sets)."""


def kept_recall(judge: str | None) -> tuple[float, str] | None:
    """Return what was measured of the user ``exact`` with this judge, and on what."""
    version = re.match(r"\w+/\d+", judge or "")
    if version is None or version[0] not in KEPT_RECALL:
        return None
    return KEPT_RECALL[version[0]], f"{version[0]} on both kept sets, docs/matcher.md"


def lines_of_users(connection: "duckdb.DuckDBPyConnection") -> list[str]:
    """Return how much of what agents asked for each simulated user gave, by medium, and what was measured of it."""
    rows = connection.execute("""select simulator, medium, exchange_judge, sum(len(requested_segment_ids)) as n_met,
            sum(len(requested_segment_ids) + len(withheld_segment_ids)) as n_all
        from questions where is_counted and simulator is not null and answer is not null
        group by simulator, medium, exchange_judge having n_all > 0 order by all""").fetchall()
    lines = []
    for simulator, medium, judge, met, asked in rows:
        kept = kept_recall(judge) if simulator == "exact" else None
        unseen = f" (recall on unseen questions {kept[0]:.2f}: {kept[1]})" if kept else ""
        lines.append(f"{simulator} (judge {judge}) gave {met} of {asked} segments asked for through {medium}{unseen}")
    return lines


_EARLIER = "an earlier version"


def instruments_of(
    connection: "duckdb.DuckDBPyConnection", where: str = "true", values: Mapping[str, Any] = MappingProxyType({})
) -> list[str]:
    """Return the versions of the instruments with which the counted trials were recorded. Imported ones have none."""
    query = f"""select distinct instruments from stg_trials_started where origin = 'recorded' and stream_id in
            (select stream_id from int_trials_evaluated where stream_id is not null and {where})
        order by instruments nulls first"""  # noqa: S608
    return [instruments or _EARLIER for (instruments,) in connection.execute(query, dict(values)).fetchall()]


def caption_notes(found: Background) -> list[str]:
    """Return what captions say as well: several versions of the instruments, and tasks that were left out."""
    versions = "; ".join(found.instruments)
    left = {benchmark: n for (kind, benchmark), n in found.counted.items() if kind == _LEFT_OUT}
    return [
        *([f"mixed instruments: {versions}"] if len(found.instruments) > 1 else []),
        *(_EVERYWHERE[_LEFT_OUT].format(n=n, benchmark=benchmark) for benchmark, n in left.items()),
    ]


def notes_for(
    found: Background, table: str, parameters: Sequence[str], rows: Sequence[dict[str, Any]]
) -> tuple[str, ...]:
    """Return the notes of a table, the most general first."""
    values, counted = found.values, found.counted
    drawn = f"{values['draws']} draws, {values['permutations']} permutations, seed {values['seed']}"
    notes = [
        f"reading: {reading_of(values)}",
        f"intervals and tests: {values['confidence']:.0%}, clustered by task ({drawn})",
    ]
    chosen = [name for name in dict.fromkeys((*parameters, *_ALWAYS_SHOWN)) if name]
    shown = [f"{name} = {_shown(values[name])}" for name in chosen if name in parameters or values[name]]
    if shown:
        notes.append("parameters: " + ", ".join(shown))
    if found.instruments not in ([], [_EARLIER]):
        mixed = "mixed " if len(found.instruments) > 1 else ""
        notes.append(f"{mixed}instruments: {'; '.join(found.instruments)}")
    templates = dict(_EVERYWHERE)
    for its_own, names in _NOTES_OF:
        templates |= its_own if table in names else {}
    for (kind, benchmark), n in counted.items():
        if kind in templates and kind not in _NOT_LEFT_OUT.get(table, ()):
            cost = found.cost_usd[kind, benchmark]
            spent = "an unknown sum" if cost is None else f"{cost:.4g} USD"
            part = "failed_trials" if kind == "missing_trials" else kind.replace("not_common", "common")
            some = counted.get((part, benchmark), 0)
            notes.append(templates[kind].format(n=n, benchmark=benchmark, cost=spent, some=some))
        if kind == "classifiers" and n > 1 and table == "by_class":
            notes.append(
                f"mixed classifiers: {n} sources gave the classes of {benchmark}, and a class depends on its classifier"
            )
    if found.users and table in _OF_GAINS:
        notes.append(f"requests that simulated users miss lower gains from asking: {'; '.join(found.users)}")
    notes.extend(_arm_notes(found.arms, table))
    unjudged = sum(n for (kind, _), n in counted.items() if kind == _UNJUDGED)
    if unjudged:
        notes.append(f"new_task candidates without a verdict: {unjudged}; they count as outcome-critical")
    return (*notes, *_row_notes(rows))


def lines_of_arms(connection: "duckdb.DuckDBPyConnection") -> dict[str, list[str]]:
    """Return cautions about single arms: for each kind in :data:`ARM_KINDS`, one line per arm."""
    found: dict[str, list[str]] = {kind: [] for kind in ARM_KINDS}
    rows = connection.execute("select kind, benchmark, agent, n, n_all from arm_cautions order by all").fetchall()
    for kind, benchmark, agent, n, n_all in rows:
        if 100 * n >= _LEAST_PERCENT[kind] * n_all:
            found[kind].append(f"{benchmark}, {agent}: {n} of {n_all} {ARM_KINDS[kind][1]} ({100 * n / n_all:.0f} %)")
    return found


def _arm_notes(found: Mapping[str, Sequence[str]], table: str) -> list[str]:
    shown = [kind for kind in ARM_KINDS if kind != "identical_trials" or table in _ABOUT_TRIALS]
    return [f"{ARM_KINDS[kind][0]}: {'; '.join(found[kind])}" for kind in shown if found[kind]]


def _row_notes(rows: Sequence[dict[str, Any]]) -> list[str]:
    notes = []
    flat = sorted({_curve(row) for row in rows if row.get("has_oracle_gap") is False})
    if flat:
        notes.append(
            "no gap to the full prompt (full does not exceed underspecified, so injection timing is uninformative): "
            + ", ".join(flat)
        )
    reasons = sorted({str(row[column]) for row in rows for column in _REASONS if column in row})
    doubtful = [row for row in rows if depends_on_missing(row)]
    if doubtful:
        notes.append(
            f"missing trials could change the verdict of {len(doubtful)} rows: the interval excludes 0, but the range "
            "from worst_low to best_high does not"
        )
    return [*notes, *(f"{each}: {meaning_of(each)}" for kind in MEANINGS for each in reasons if _kind(each) == kind)]


def meaning_of(reason: str) -> str | None:
    """Return what a reason means, with the percentage that it names."""
    meaning = MEANINGS.get(_kind(reason))
    return meaning and meaning.replace("N %", re.sub(r"\D", "", reason) + " %")


def _kind(reason: str) -> str:
    return re.sub(r"\d+", "N", reason)


def depends_on_missing(row: Mapping[str, Any]) -> bool:
    """Return whether the interval of a difference excludes 0, but not for every outcome of the missing trials."""
    low, high = row.get("worst_low"), row.get("best_high")
    if row.get("low") is None or low is None or high is None:
        return False
    return bool((row["low"] > 0 or row["high"] < 0) and low <= 0 <= high)


def _curve(row: dict[str, Any]) -> str:
    whose = ", ".join(str(row[key]) for key in ("agent", "measure") if key in row)
    return f"{row['benchmark']} {row['dimension']} ({whose})"


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def missing_notes(needs: str, conditions: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return notes on missing rows, missing conditions and unknown dimensions."""
    if not rows:
        return [f"no rows: this store has no {needs}"]
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row.get("benchmark", "all"), set()).add(row.get("condition", ""))
    notes = []
    for benchmark, present in found.items():
        missing = [condition for condition in conditions if condition not in present]
        if missing and benchmark != "all":
            notes.append(f"{benchmark} lacks rows under {', '.join(missing)}, and gains and tests that need them")
    unknown = sorted({str(row["dimension"]) for row in rows if "dimension" in row} - {"all", *DIMENSIONS})
    if unknown:
        notes.append(f"dimensions of variants other than {', '.join(DIMENSIONS)}: {', '.join(unknown)}")
    return notes
