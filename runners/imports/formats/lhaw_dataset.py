"""Format ``lhaw-dataset``: the rows of the published dataset become tasks and labelled variants.

Source: docs/metrics.md, section 7; LHAW, appendix F.2.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from lhaw_record.recorder.events import Skipped
from lhaw_record.recorder.events.values import DIMENSIONS, ExpectedQuestions, Segment, Task, Variant
from lhaw_record.runners.base.text.fields import as_list, as_object, as_text, literal_or_json, shown
from lhaw_record.runners.imports.foreign_trial import (
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    imported_task,
)
from lhaw_record.runners.imports.source_files import decode_json_or_lines

RELEASED_SHA256 = "f67973650afd425cb0344c8b078a1c911cde0fcacb4005476c3cd520091a6ed5"
BENCHMARKS = {"MCP-Atlas": "mcp_atlas", "TheAgentCompany": "tac", "SWE-Bench Pro": "swebench_pro"}
"""Our names for benchmarks whose name differs in the released dataset."""
_SHORTEST = 5  # a prefix of a released name with at least this many letters counts as a mistake
_OWN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
CLASSES = ("outcome-critical", "divergent", "benign")
UNCLASSIFIED = "unclassified"
"""In the column of a variant that nobody classified; not in the published dataset."""
_RELEASED = {
    "rows by class": {"outcome-critical": 121, "divergent": 94, "benign": 70},
    "rows by removed segments": {"1": 123, "2": 162},
    "rows by dataset": {"MCP-Atlas": 100, "TheAgentCompany": 85, "SWE-Bench Pro": 100},
}
_COLUMNS = (
    "variant_id",
    "original_task",
    "dataset",
    "original_prompt",
    "underspecified_prompt",
    "information_dimension",
    "ambiguity_class",
    "removed_segments",
    "expected_questions",
    "terminal_states",
)


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return the tasks and variants of a dataset file."""
    del options, known
    rows = decode_json_or_lines(source)
    registered: list[Task | Variant] = []
    variants: dict[tuple[str, str], tuple[int, Variant]] = {}
    prompts: dict[str, set[str]] = {}
    notes: Counter[str] = Counter()
    states: dict[str, tuple[tuple[int, ...], ...]] = {}
    counts = {name: Counter[str]() for name in _RELEASED}
    for number, row in enumerate(rows, 1):
        try:
            task, variant, row_notes = _row(row)
        except (ValueError, TypeError) as error:
            raise ImportFailed(
                f"{source.label}, row {number}: {error}; docs/imports.md describes the columns"
            ) from error
        first, before = variants.setdefault((variant.benchmark, variant.variant_id), (number, variant))
        if before != variant:
            raise ImportFailed(f"{source.label}: rows {first} and {number} are both {variant.variant_id!r} and differ")
        if first != number:
            notes["rows: the same row again"] += 1
            continue
        registered += [task, variant]
        prompts.setdefault(f"{task.benchmark}/{task.task_id}", set()).add(task.prompt)
        notes.update(row_notes)
        states[variant.variant_digest] = tuple(terminal_states(row["terminal_states"]))
        counts["rows by class"][str(variant.ambiguity_class)] += 1
        counts["rows by removed segments"][str(len(variant.segments))] += 1
        counts["rows by dataset"][row["dataset"]] += 1
    several = sum(len(texts) > 1 for texts in prompts.values())
    return ParsedFile(
        registered=tuple(registered),
        terminal_states=states,
        skipped=tuple(_skipped(note, count) for note, count in sorted(notes.items())),
        remarks=(
            *_checked(source, counts),
            *((f"{several} tasks have several original prompts; each is registered",) if several else ()),
        ),
    )


def _skipped(note: str, count: int) -> Skipped:
    kind, _, reason = note.partition(": ")
    return Skipped(kind=kind, count=count, reason=reason)


def _checked(source: SourceFile, counts: Mapping[str, Counter[str]]) -> tuple[str, ...]:
    """Return remarks from comparing the file with the released dataset."""
    is_released = source.sha256 == RELEASED_SHA256
    said = ["SHA-256 " + ("is" if is_released else "is not") + " that of the released test.json"]
    for name, expected in _RELEASED.items():
        found = dict(counts[name])
        verdict = "as released" if found == expected else f"released: {_listed(expected)}"
        said.append(f"{name}: {_listed(found)} ({verdict})")
        if is_released and found != expected:
            raise ImportFailed(f"{source.label} is the released file, but {said[-1]}: this program misreads it")
    return tuple(said)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{key} {counts[key]}" for key in sorted(counts))


def _row(row: Any) -> tuple[Task, Variant, list[str]]:
    """Return the task and the variant for a row, and notes on what is not kept."""
    row = as_object(row, "the row")
    missing = [name for name in _COLUMNS if name not in row]
    if missing:
        raise ValueError(f"column {missing[0]!r} is missing; found: {', '.join(map(str, row))}")
    ambiguity_class = row["ambiguity_class"]
    if ambiguity_class not in (*CLASSES, UNCLASSIFIED):
        raise ValueError(f"ambiguity_class is {shown(ambiguity_class)}; known: {', '.join((*CLASSES, UNCLASSIFIED))}")
    has_class = ambiguity_class != UNCLASSIFIED
    segments = tuple(map(_segment, as_list(row["removed_segments"], "removed_segments")))
    dimensions = _dimensions(row["information_dimension"])
    terminal_states(row["terminal_states"])
    benchmark = _benchmark(row["dataset"])
    task_id = as_text(row["original_task"], "original_task")
    task = imported_task(benchmark, task_id, as_text(row["original_prompt"], "original_prompt"))
    variant = Variant(
        benchmark=benchmark,
        task_id=task_id,
        variant_id=as_text(row["variant_id"], "variant_id"),
        prompt=as_text(row["underspecified_prompt"], "underspecified_prompt"),
        segments=segments,
        origin="imported",
        expected_questions=_expected_questions(row["expected_questions"]),
        ambiguity_class=ambiguity_class if has_class else None,
        classified_by="lhaw-dataset" if has_class else None,
    )
    notes = [f"column {name}: not part of the format" for name in row if name not in _COLUMNS]
    if set(dimensions) != {segment.dimension for segment in segments}:
        notes.append("information_dimension differs from the dimensions of removed_segments, which count")
    return task, variant, notes


def _benchmark(name: Any) -> str:
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    released = [_letters(known) for pair in BENCHMARKS.items() for known in pair]
    letters = _letters(name) if isinstance(name, str) and _OWN_NAME.fullmatch(name) else ""
    if not letters or any(known[: max(_SHORTEST, len(letters))] == letters for known in released):
        raise ValueError(
            f"unknown benchmark {shown(name)} in column dataset; known: {', '.join(BENCHMARKS)}, and names of your own"
        )
    return str(name)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _dimensions(value: Any) -> list[str]:
    """Return the information dimensions from a list or a single text."""
    names = [value] if isinstance(value, str) else as_list(value, "information_dimension")
    unknown_names = [name for name in names if name not in DIMENSIONS]
    if unknown_names or not names:
        raise ValueError(f"information_dimension is {shown(value)}; known: {', '.join(DIMENSIONS)}")
    return names


def _segment(value: Any) -> Segment:
    given = as_object(value, "a removed segment")
    dimension = as_text(given.get("dimension"), "the dimension of a segment")
    if dimension not in DIMENSIONS:
        raise ValueError(f"the dimension of a segment is {shown(dimension)}; known: {', '.join(DIMENSIONS)}")
    return Segment(
        segment_id=as_text(given.get("id"), "the id of a segment"),
        value=as_text(given.get("value"), "the value of a segment"),
        dimension=dimension,
        subdimension=str(given.get("subdimension") or ""),
    )


def _expected_questions(value: Any) -> tuple[ExpectedQuestions, ...]:
    """Read expected questions in both forms: ``{segment_id, questions}``, or ``{"S1": [...]}`` alone or in a list."""
    pairs: list[tuple[Any, Any]] = []
    for item in as_list([value] if isinstance(value, dict) else value, "expected_questions"):
        group = as_object(item, "a group of expected questions")
        if "segment_id" in group:
            pairs.append((group["segment_id"], group.get("questions")))
        else:
            pairs += group.items()
    return tuple(
        ExpectedQuestions(
            segment_id=as_text(segment_id, "the segment of expected questions"),
            questions=tuple(as_text(each, "a question") for each in as_list(questions, "questions")),
        )
        for segment_id, questions in pairs
    )


def terminal_states(value: Any) -> list[tuple[int, ...]]:
    """Return the terminal states in a cell, a literal list of tuples of whole numbers, without evaluating code."""
    states = literal_or_json(value, "terminal_states")
    if not isinstance(states, list) or not all(isinstance(state, list | tuple) for state in states):
        raise ValueError(f"terminal_states is {shown(value)}, expected a list of tuples")
    if not all(type(result) is int for state in states for result in state):
        raise ValueError(f"terminal_states is {shown(value)}, expected whole numbers in its tuples")
    return [tuple(state) for state in states]
