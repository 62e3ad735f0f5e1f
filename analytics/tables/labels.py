"""Display names of conditions, measures, benchmarks and keys in tables, figures and papers."""

from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple

from lhaw_record.analytics.views.build_order import sql_root
from lhaw_record.analytics.views.headers import headers
from lhaw_record.recorder.wording import CONDITION_LABELS

Unit = Literal["%", "pp", "USD", "tokens", "actions", ""]


class Measure(NamedTuple):
    """The display name of a measure and the format of its values.

    Attributes:
        label: The display name. ``{k}`` stands for the parameter k.
        unit: The printed unit. Fractions are printed in per cent, their differences in percentage points.
        scale: Factor from stored to printed values.
        better: 1 if higher is better, -1 if lower is better, 0 otherwise.
    """

    label: str
    unit: Unit = ""
    scale: int = 1
    better: int = 0


_LEVELS = {
    "pass_at_k": ("pass@{k}", 1),
    "pass_at_1": ("pass@1", 1),
    "pass_hat_k": ("pass^{k}", 1),
    "candidate_pass_at_1": ("candidates' pass@1", 0),
    "candidate_pass_at_k": ("candidates' pass@{k}", 0),
    "checkpoint_progress": ("progress", 1),
    "precision_micro": ("precision", 1),
    "precision_macro": ("precision, mean of trials", 1),
    "recall_micro": ("recall", 1),
    "recall_macro": ("recall, mean of trials", 1),
    "recall_of_all": ("recall, with silent trials", 1),
    "met_of_requested": ("share of requests answered", 0),
    "ask_precision": ("Ask-precision", 1),
    "ask_recall": ("Ask-recall", 1),
    "ask_f1": ("Ask-F1", 1),
    "f1_micro": ("F1", 1),
    "f1_macro": ("F1, mean of trials", 1),
}
_DIFFERENCES = {
    "gain": ("gain in {}", 1),
    "loss": ("loss of {}", -1),
    "difference": ("change of {}", 0),
    "lead": ("lead in {}", 0),
    "gain_lead": ("lead in gain of {}", 0),
    "change": ("{}, change from a prompt answer", 1),
}
_MEASURES: Mapping[str, Measure] = {
    **{name: Measure(label, "%", 100, better) for name, (label, better) in _LEVELS.items()},
    **{
        f"{name}_{kind}": Measure(pattern.format(label), "pp", 100, better)
        for name, (label, _) in _LEVELS.items()
        for kind, (pattern, better) in _DIFFERENCES.items()
    },
    **{
        f"{name}_{kind}": Measure(pattern.format(label), "%", 100, 1)
        for name, (label, _) in _LEVELS.items()
        for kind, pattern in {"recovered_share": "recovered of {}", "share_of_full": "{} of that under full"}.items()
    },
    **{
        f"{stem}_{kind}_pp": Measure(f"{words} in {label}", "pp", better=1)
        for stem, label in {"pass_at_1": "pass@1", "pass": "pass@{k}", "progress": "progress"}.items()
        for kind, words in {"net_value": "net value", "break_even": "break-even"}.items()
    },
    "ask_pct": Measure("trials that ask", "%"),
    "ask_variant_pct": Measure("variants asked about", "%"),
    "questions_per_asking_trial": Measure("questions per asking trial"),
    "questions_per_trial": Measure("questions per trial"),
    "asked_again_per_trial": Measure("repeated questions per trial", better=-1),
    "guessed_segments_per_trial": Measure("guesses per trial", better=-1),
    "most_questions_per_trial": Measure("most questions"),
    "pass_pp_per_question": Measure("pass@{k} per question", "pp", better=1),
    "pass_pp_per_question_per_variant": Measure("pass@{k} per question and variant", "pp", better=1),
    "progress_pp_per_question": Measure("progress per question", "pp", better=1),
    "progress_pp_per_question_per_variant": Measure("progress per question and variant", "pp", better=1),
    "first_ask_mean_pct": Measure("first question, mean", "%"),
    "first_ask_median_pct": Measure("first question, median", "%"),
    "first_asks_25_to_50_pct": Measure("first question at 25 to 50 %", "%"),
    "options_with_truth_pct": Measure("options with the truth", "%"),
    "answered_pct": Measure("questions answered", "%"),
    "went_on_pct": Measure("questions after which the agent went on", "%"),
    **{
        f"questions_by_{medium}": Measure(f"questions, {words}")
        for medium, words in {
            "mcp": "over MCP",
            "built_in": "by its own tool",
            "elicitation": "by elicitation",
            "command": "by a command",
            "prose": "in prose",
        }.items()
    },
    "recommended_wrong_pct": Measure("recommended option wrong", "%"),
    "success_pct": Measure("success", "%", better=1),
    "injection_gain": Measure("gain of the message", "pp", 100, 1),
    "early_minus_late_decay": Measure("early minus late decay", "pp", 100),
    "decay_10_to_90": Measure("decay from 10 to 90 %", "pp", 100),
    "gain_at_90": Measure("gain at 90 %", "pp", 100, 1),
    "window_threshold": Measure("threshold of the window", "%", 100),
    "voi": Measure("value of information", "pp", 100),
    "voi_bound": Measure("value left by commitment", "pp", 100),
    "commitment": Measure("commitment", "%", 100),
    "point_of_no_return_pct": Measure("point of no return", "%"),
    "window_end_pct": Measure("end of the window", "%"),
    "wasted_pct": Measure("wasted", "%", better=-1),
    "wasted_actions": Measure("wasted actions", "actions", better=-1),
    "pre_injection_cost_usd": Measure("cost before the message", "USD"),
    "pre_injection_tokens": Measure("tokens before the message", "tokens"),
    "pre_injection_actions": Measure("actions before the message", "actions"),
    "kendall_tau": Measure("Kendall's tau-b"),
    "log_odds_ratio": Measure("log odds ratio"),
    "kappa": Measure("kappa"),
}
BENCHMARKS = {"mcp_atlas": "MCP-Atlas", "tac": "TheAgentCompany", "swebench_pro": "SWE-Bench Pro"}
"""Benchmarks by their published names. Others keep their own."""
_KEYS = {
    "task_id": "task",
    "ambiguity_class": "class",
    "segments_removed": "segments removed",
    "other_agent": "other agent",
    "control_kind": "control",
    "user_simulator": "simulated user",
    "ended_by": "ended by",
}
_COLUMNS = {
    "base_agent": "without persona",
    "cost_usd_per_trial": "cost per trial, USD",
    "cost_usd_per_trial_high": "cost per trial, high",
    "cost_usd_per_trial_low": "cost per trial, low",
    "has_oracle_gap": "gap to the full prompt",
    "is_archetype_clear": "clear",
    "is_significant": "significant",
    "is_shown": "shown",
    "n_dropped": "units dropped",
    "p_family": "p (all claims)",
    "p_greater": "p (greater)",
    "p_holm": "p (Holm)",
    "p_value": "p",
}
_SUFFIXES: Mapping[str, Unit] = {"_pct": "%", "_pp": "pp", "_usd": "USD", "_tokens": "tokens", "_actions": "actions"}


def measure_of(name: str) -> Measure:
    """Return the display format of a measure. By default, its label is its name and its unit is the end of the name.

    If the name has no unit and the measure is a share, the unit is per cent.
    """
    if name in _MEASURES:
        return _MEASURES[name]
    for suffix, unit in _SUFFIXES.items():
        if name.endswith(suffix):
            return Measure(name.removesuffix(suffix).replace("_", " "), unit)
    if measure_meanings().get(name, "").startswith("share of"):
        return Measure(name.replace("_", " "), "%", 100)
    return Measure(name.replace("_", " "))


def label(key: str, value: object, k: object = "k") -> str:
    """Return the display name of a key's value, for example ``may ask`` for the condition ``ask_user``."""
    text = "" if value is None else str(value)
    if key == "measure":
        return measure_of(text).label.format(k=k)
    if text == "all":
        return f"all {_plural(key_label(key))}"
    if key == "segments_removed":
        return f"{text} removed"
    if key == "condition":
        return CONDITION_LABELS.get(text, text)
    return BENCHMARKS.get(text, text) if key == "benchmark" else text


def key_label(key: str) -> str:
    """Return the display name of a key column, for example ``task`` for ``task_id``."""
    return _KEYS.get(key, key.replace("_", " "))


def column_label(name: str) -> str:
    """Return the display name of a column, with the unit from its name: ``cost, USD`` for ``cost_usd``."""
    if name in _COLUMNS:
        return _COLUMNS[name]
    for suffix in ("_pct", "_pp", "_usd"):
        if name.endswith(suffix):
            return f"{key_label(name.removesuffix(suffix))}, {_SUFFIXES[suffix]}"
    return key_label(name.removeprefix("n_"))


def label_with_unit(measure: str, k: object = "k") -> str:
    """Return the display name of a measure with its unit, for values printed without one: ``pass@1, %``."""
    known = measure_of(measure)
    has_unit = known.unit in ("%", "pp", "USD") and known.unit not in known.label
    return known.label.format(k=k) + (f", {known.unit}" if has_unit else "")


@cache
def measure_meanings() -> Mapping[str, str]:
    """Return the meaning of every measure, from ``sql/measures.txt``."""
    lines = (sql_root() / "measures.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines)


def column_meanings(table: str) -> Mapping[str, str]:
    """Return the meanings of a table's columns, from its SQL header or the glossary."""
    found = [each for each in headers() if each.view == table]
    return {column.name: column.meaning for each in found for column in each.columns}


def printed(measure: str, value: float, *, is_signed: bool = False) -> str:
    """Format a value in the unit of its measure, as in ``47.0`` or ``+31.0``.

    Per cent, points and actions have one decimal place, other numbers two. A nonzero value never reads as 0, but as
    ``<0.1`` or ``>-0.1``.
    """
    known = measure_of(measure)
    scaled = value * known.scale
    places = {"tokens": 0, "": 2, "USD": 2}.get(known.unit, 1)
    text = f"{scaled:.{places}f}"
    if float(text) == 0:
        if scaled != 0:
            return f"<{10**-places:.{places}f}" if scaled > 0 else f">-{10**-places:.{places}f}"
        text = text.removeprefix("-")
    return f"+{text}" if is_signed and scaled > 0 else text


def _plural(word: str) -> str:
    return f"{word}es" if word.endswith("s") else f"{word}s"
