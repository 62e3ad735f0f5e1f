"""Data structures for a parsed foreign file before it becomes events: tasks, variants, trials and skipped entries."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

import msgspec

from lhaw_record.recorder.events import AnyEvent, OracleBudgetSet, Skipped, Usage
from lhaw_record.recorder.events.trial import Boundary, EndedBy
from lhaw_record.recorder.events.values import Checkpoint, Task, Variant
from lhaw_record.runners.base.errors import RunnerError
from lhaw_record.runners.base.text.fields import as_number, optional_count
from lhaw_record.runners.environments.grading.grade import CheckpointResult

UNKNOWN = "unknown"
"""Replaces a name that a source does not give: strategy, persona, ask notice, sandbox, benchmark version, simulator.

Trials are identified and grouped by these names. Any other value that a source lacks is None.
"""


UNSTATED_USAGE = Usage(input_tokens=None, output_tokens=None, cached_input_tokens=None)
"""The usage of a trial or a call of which a source states nothing."""


def stated_usage(cost_usd: Any = None, **tokens: Any) -> Usage:
    """Return the usage of a run or a call as a source states it. A cost of 0 is an unknown price."""
    counts = {name: optional_count(value, name) for name, value in tokens.items()}
    cost = None if cost_usd is None else as_number(cost_usd, "the cost") or None
    return msgspec.structs.replace(UNSTATED_USAGE, cost_usd=cost, **counts)


def total_usage(parts: Iterable[Usage]) -> Usage:
    """Return the sum of the parts of a run. What one of them lacks is unknown, and so is everything without parts."""
    rows = [msgspec.structs.asdict(each) for each in parts]
    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    sums = {name: None if None in column else sum(column) for name, column in columns.items()}
    return msgspec.structs.replace(UNSTATED_USAGE, **sums)


class ImportFailed(RunnerError):
    """A file cannot be imported. The message names the file, the place in the file and the next step."""


class SourceFile(msgspec.Struct, frozen=True):
    """One file of an import: its name without folders, the name of its folder, its bytes and their SHA-256.

    ``location`` is the file's path below the imported folder, or empty if a single file is imported. A folder called
    ``results`` or alike is passed over for the one above it.
    """

    name: str
    folder: str
    content: bytes
    sha256: str
    location: str = ""

    @property
    def label(self) -> str:
        return self.location or self.name


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Command-line information about trials, used if the file does not have it.

    ``instances`` holds the rows of a SWE-bench Pro instance file by id. ``benchmark`` to ``rewards`` are for
    trajectories without a task or a result: ``reward`` applies to every file, ``rewards`` to single files. ``columns``
    and ``arms`` say what a file of results calls a column and a condition. ``hide_paths`` replaces the names of people
    in the paths of their home folders, and wherever else these names stand.
    """

    agent: str | None = None
    condition: str | None = None
    trial_index: int = 0
    instances: Mapping[str, Mapping[str, Any]] | None = None
    benchmark: str | None = None
    task: str | None = None
    variant: str | None = None
    reward: float | None = None
    rewards: Mapping[str, float] | None = None
    columns: Mapping[str, str] | None = None
    arms: Mapping[str, str] | None = None
    hide_paths: bool = False


class KnownRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The records of the store that an import uses.

    ``variants`` holds the latest variant of each id, and ``tasks`` the latest task of each (benchmark, id). ``budgets``
    holds all budgets. ``registered`` holds the digests of all registered tasks and variants with every field, labels
    included.
    """

    variants: Mapping[str, Variant] = {}
    tasks: Mapping[tuple[str, str], Task] = {}
    budgets: tuple[OracleBudgetSet, ...] = ()
    registered: frozenset[str] = frozenset()


class ForeignInjection(msgspec.Struct, frozen=True, kw_only=True):
    """An injection as the source describes it. ``after_action`` is None if the trial ended before the injection.

    ``message`` is None if the source does not show it. ``target_action`` is set only if the source states it; otherwise
    it is computed from the budget.
    """

    percent: int
    message: str | None
    after_action: int | None = None
    target_action: int | None = None


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """How a valid trial ended. A value of None is unknown. ``usage`` is that of the agent, as the source states it."""

    is_success: bool
    results: tuple[CheckpointResult, ...]
    ended_by: EndedBy | None = None
    final_answer: str | None = None
    duration_ms: float | None = None
    final_score: float | None = None
    final_total: float | None = None
    usage: Usage = UNSTATED_USAGE


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a trial has no result (missing data). ``boundary`` is None if the source does not say what failed."""

    boundary: Boundary | None
    error_kind: str
    message: str
    duration_ms: float | None = None
    usage: Usage = UNSTATED_USAGE


class ForeignTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of a source. ``location`` says where the trial is in the file, for messages.

    ``trajectory`` holds the trial's events in order, or None if the source does not say what happened. It may then
    count ``stated_actions`` and ``stated_questions``, and tell the questions with their answers (``questions``).

    ``trial_index`` is None if the source has no number. The trial is then numbered among the trials of its cell, from
    ``first_index`` on. ``run_name`` is the source's own name of the run: two equal runs with different names are two
    trials. ``program`` is the name and version of the program that was the agent, None if unknown. ``end_before`` is
    the trial's end in the store if the trial was imported before its result was known. ``started_at`` is the source's
    time: ISO 8601, in UTC if it has no zone, or seconds since the epoch.
    """

    location: str
    task: Task
    condition: str
    agent: str
    model: str
    grader: str
    end: Finish | Failure
    variant: Variant | None = None
    trial_index: int | None = None
    first_index: int = 0
    run_name: str | None = None
    program: str | None = None
    seed: int | None = None
    user_simulator: str | None = None
    oracle_scope: Literal["task", "variant"] = "task"
    trajectory: tuple[AnyEvent, ...] | None = None
    questions: tuple[AnyEvent, ...] = ()
    stated_actions: int | None = None
    stated_questions: int | None = None
    injected: ForeignInjection | None = None
    end_before: Failure | None = None
    started_at: Any = None


class ParsedFile(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was found in one file.

    ``registered`` holds additional tasks and variants to register, in order. ``terminal_states``, by variant digest,
    comes from a source that has results but no trials.
    """

    trials: tuple[ForeignTrial, ...] = ()
    registered: tuple[Task | Variant, ...] = ()
    terminal_states: Mapping[str, tuple[tuple[int, ...], ...]] = {}
    skipped: tuple[Skipped, ...] = ()
    remarks: tuple[str, ...] = ()


Entry = TypeVar("Entry")
Value = TypeVar("Value")
REFUSED = "files"
"""The kind of what is skipped of a file that is refused as a whole."""
MISFORMED = (ValueError, TypeError, KeyError, AttributeError, IndexError)
"""What reading a value of another form than expected raises."""


def reason_of(error: Exception) -> str:
    """Return why an entry is not understood."""
    return str(error) if isinstance(error, ValueError) else f"in another form than known ({error})"


def converted(
    kind: str, entries: Iterable[Entry], convert: Callable[[Entry], ForeignTrial], *, remarks: Sequence[str] = ()
) -> ParsedFile:
    """Return the trials of a file's entries. An entry that cannot be converted is skipped, with the reason."""
    trials: list[ForeignTrial] = []
    reasons: Counter[str] = Counter()
    for entry in entries:
        try:
            trials.append(convert(entry))
        except MISFORMED as error:
            reasons[reason_of(error)] += 1
    return ParsedFile(trials=tuple(trials), skipped=skipped_entries(kind, reasons), remarks=tuple(remarks))


def skipped_entries(kind: str, reasons: Mapping[str, int]) -> tuple[Skipped, ...]:
    return tuple(Skipped(kind=kind, count=count, reason=reason) for reason, count in reasons.items())


def left_out(kind: str, reason: str, remarks: Sequence[str] = ()) -> ParsedFile:
    """Return a file whose one trial or trajectory is not imported."""
    return ParsedFile(skipped=skipped_entries(kind, {reason: 1}), remarks=tuple(remarks))


def read_each(
    given: Mapping[str, Entry], read: Callable[[Entry], Value], found: dict[str, ParsedFile]
) -> dict[str, Value]:
    """Return what is read of each file of a folder. A refused one is left out of it and ``found`` with the reason."""
    values: dict[str, Value] = {}
    for label, each in given.items():
        try:
            values[label] = read(each)
        except ImportFailed as error:
            found[label] = left_out(REFUSED, str(error))
        except RecursionError:
            found[label] = left_out(REFUSED, f"{label}: objects or lists are nested too deeply to be read")
    return values


def counted(remarks: Mapping[str, int]) -> list[str]:
    """Return each remark once, with its count."""
    return [f"{text} ({count} times)" if count > 1 else text for text, count in remarks.items()]


def imported_task(
    benchmark: str,
    task_id: str,
    prompt: str = "",
    checkpoints: Iterable[Checkpoint] = (),
    *,
    version: str = UNKNOWN,
    environment_digest: str = "",
    domain: str | None = None,
) -> Task:
    return Task(
        benchmark=benchmark,
        benchmark_version=version,
        task_id=task_id,
        prompt=prompt,
        checkpoints=tuple(checkpoints),
        environment_digest=environment_digest,
        domain=domain,
    )


def imported_variant(benchmark: str, task_id: str, variant_id: str, prompt: str = "") -> Variant:
    """Return a variant of which a source gives only the id or the prompt."""
    return Variant(
        benchmark=benchmark, task_id=task_id, variant_id=variant_id, prompt=prompt, segments=(), origin="imported"
    )


def elapsed_ms(given: Any, began: str, ended: str) -> float | None:
    """Return the milliseconds between two ISO 8601 times in an object, or None if one is missing."""
    try:
        first, last = (datetime.fromisoformat(str(given[key])) for key in (began, ended))
        return (last - first).total_seconds() * 1000
    except (KeyError, ValueError, TypeError):
        return None
