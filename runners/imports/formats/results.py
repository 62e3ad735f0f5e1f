"""Format ``results``: a CSV file with one row for each trial, from any program.

Needed are the task, the arm, the agent and whether the trial succeeded. What a file does not have is unknown, never 0:
there are no actions, checkpoints or segments that nobody stated.
"""

from collections.abc import Mapping

import msgspec

from lhaw_record.recorder.events.values import DIMENSIONS, Segment, Variant
from lhaw_record.runners.base.text.fields import as_bool, as_count, as_text, listed, shown
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    Failure,
    Finish,
    ForeignInjection,
    ForeignTrial,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    converted,
    imported_task,
    imported_variant,
    stated_usage,
)
from lhaw_record.runners.imports.formats.ask_early_trials import condition_of_trial
from lhaw_record.runners.imports.source_files import csv_rows

BENCHMARK = "results"
GRADER = "results/success"
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "task": ("task_id", "instance", "instance_id", "sample_id"),
    "arm": ("condition", "setting"),
    "agent": ("agent_name",),
    "success": ("is_success", "task_success", "resolved", "passed"),
    "variant": ("variant_id",),
    "dimension": ("dimensions", "information_dimension"),
    "model": ("model_name",),
    "benchmark": ("dataset",),
    "trial_index": ("trial", "repetition", "epoch"),
    "seed": (),
    "actions": ("n_actions", "total_actions", "steps"),
    "questions": ("n_questions",),
    "inject_after_action": ("pre_injection_actions",),
    "input_tokens": ("prompt_tokens",),
    "output_tokens": ("completion_tokens",),
    "cost_usd": ("cost",),
    "duration_seconds": ("duration", "seconds"),
    "error": (),
}
"""The values that a column may have, and its other names. The first four are needed."""
_NEEDED = tuple(COLUMNS)[:4]
_EMPTY = frozenset({"", "nan", "na", "n/a", "null", "none"})


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return one trial for each row. A row without success is missing data, with its ``error`` as the reason."""
    rows, header = csv_rows(source)
    names = _names(source, header, options)
    variants: dict[str, Variant] = {}
    rows_of: dict[tuple[object, ...], int] = {}

    def convert(entry: tuple[int, dict[str, str]]) -> ForeignTrial:
        number, row = entry
        cells = {key: row[column].strip() for key, column in names.items()}
        given = {key: text for key, text in cells.items() if text.lower() not in _EMPTY}
        try:
            trial = _trial(f"{source.label}, row {number}", given, options, known, variants)
        except (ValueError, OverflowError) as error:
            raise ImportFailed(f"{source.label}, row {number}: {error}; docs/imports.md names the columns") from error
        cell = (trial.task, trial.variant, trial.condition, trial.agent, trial.model, trial.trial_index)
        first = rows_of.setdefault(cell, number)
        if first != number:
            raise ImportFailed(
                f"{source.label}, rows {first} and {number} are the same trial; leave one out, or number repetitions "
                "in a column trial_index"
            )
        return trial

    unread = [column for column in header if column not in names.values()]
    read = ", ".join(key if key == column else f"{key} from {column}" for key, column in names.items())
    remarks = [f"read: {read}", *([f"not read: {listed(unread)}"] if unread else [])]
    return converted("rows", enumerate(rows, 1), convert, remarks=remarks)


def _names(source: SourceFile, header: list[str], options: Options) -> dict[str, str]:
    """Return the column of each thing that a row says, as ``--column`` or the header names it."""
    chosen = {key: column.lower() for key, column in (options.columns or {}).items()}
    for key, column in chosen.items():
        if key not in COLUMNS:
            raise ImportFailed(f"--column {key}={column}: there is no column {key}; known: {', '.join(COLUMNS)}")
        if column not in header:
            raise ImportFailed(f"--column {key}={column}: {source.label} has no such column, but {listed(header)}")
    names = dict(chosen)
    for key, others in COLUMNS.items():
        there = [name for name in (key, *others) if name in header and name not in chosen.values()]
        if key not in chosen and len(there) > 1:
            raise ImportFailed(f"{source.label} has {' and '.join(there)}; set --column {key}={there[0]} or the other")
        if key not in chosen and there:
            names[key] = there[0]
    given = {"agent": options.agent, "arm": options.condition}
    for key in _NEEDED:
        if key not in names and not given.get(key):
            raise ImportFailed(
                f"{source.label} has no column {key}, but {listed(header)}; set --column {key}=COLUMN"
                + {"agent": " or --agent NAME", "arm": " or --condition CONDITION"}.get(key, "")
            )
    return names


def _trial(
    location: str,
    given: Mapping[str, str],
    options: Options,
    known: KnownRecords,
    variants: dict[str, Variant],
) -> ForeignTrial:
    """Convert one row, whose empty cells are left out."""
    condition = _condition(given, options)
    task_id = as_text(given.get("task"), "task")
    benchmark = given.get("benchmark") or options.benchmark or BENCHMARK
    agent = options.agent or as_text(given.get("agent"), "agent")
    variant = None if condition.startswith("full") else _variant(benchmark, task_id, given, known, variants)
    seconds = float(given["duration_seconds"]) if "duration_seconds" in given else None
    usage = stated_usage(given.get("cost_usd"), **{key: given.get(key) for key in ("input_tokens", "output_tokens")})
    duration = None if seconds is None else seconds * 1000
    if "success" in given:
        end: Finish | Failure = Finish(
            is_success=as_bool(given["success"], "success"), results=(), duration_ms=duration, usage=usage
        )
    else:
        why = given.get("error", "the source has no result")
        end = Failure(boundary=None, error_kind="no_result", message=why, duration_ms=duration, usage=usage)
    counts = {key: as_count(given[key], key) if key in given else None for key in ("actions", "questions", "seed")}
    index = as_count(given["trial_index"], "trial_index") if "trial_index" in given else options.trial_index
    return ForeignTrial(
        location=location,
        task=imported_task(benchmark, task_id),
        variant=variant,
        condition=condition,
        agent=agent,
        model=given.get("model", agent),
        grader=GRADER,
        trial_index=index,
        seed=counts["seed"],
        user_simulator=UNKNOWN if condition == "ask_user" else None,
        oracle_scope="task",
        injected=_injected(condition, given) if condition.startswith("inject_") else None,
        stated_actions=counts["actions"],
        stated_questions=counts["questions"],
        end=end,
    )


def _condition(given: Mapping[str, str], options: Options) -> str:
    """Return our condition of a row's arm, as ``--arm`` or a usual name says it."""
    named = given.get("arm")
    if named is None:
        return options.condition or as_text(named, "arm")
    try:
        return condition_of_trial((options.arms or {}).get(named, named), None)[0]
    except ValueError as error:
        raise ValueError(f"arm {shown(named)} is not a known condition; set --arm {named}=CONDITION") from error


def _variant(
    benchmark: str, task_id: str, given: Mapping[str, str], known: KnownRecords, variants: dict[str, Variant]
) -> Variant:
    """Return the store's variant, or one of which only the dimensions are known, if the row says them."""
    variant_id = given.get("variant") or f"{task_id}/underspecified"
    if variant_id in known.variants:
        return known.variants[variant_id]
    dimensions = [part.strip() for part in given.get("dimension", "").replace("+", ",").split(",") if part.strip()]
    if strange := next((part for part in dimensions if part not in DIMENSIONS), None):
        raise ValueError(f"dimension is {shown(strange)}, expected {', '.join(DIMENSIONS)}, several joined by +")
    segments = tuple(
        Segment(segment_id=f"S{number}", value="", dimension=name, subdimension=UNKNOWN)
        for number, name in enumerate(dimensions, 1)
    )
    variant = msgspec.structs.replace(imported_variant(benchmark, task_id, variant_id), segments=segments)
    first = variants.setdefault(variant_id, variant)
    if first != variant:
        raise ValueError(f"variant {variant_id} has another task or dimension in an earlier row")
    return variant


def _injected(condition: str, given: Mapping[str, str]) -> ForeignInjection:
    if "inject_after_action" not in given:
        raise ValueError(f"{condition} needs the column inject_after_action, the actions before the message")
    after = as_count(given["inject_after_action"], "inject_after_action")
    percent = int(condition.removeprefix("inject_"))
    return ForeignInjection(percent=percent, message=None, after_action=after, target_action=after)
