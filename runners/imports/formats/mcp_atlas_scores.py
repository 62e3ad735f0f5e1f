"""Format ``mcp-atlas-scores``: rows scored by the MCP-Atlas harness. Each claim becomes a checkpoint.

Coverage is the mean of the claim scores, each 0, 0.5 or 1, rounded to three places. A row passes at a coverage of 0.75.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lhaw_record.recorder.events import AnyEvent
from lhaw_record.recorder.events.canonical_json import short_digest
from lhaw_record.recorder.events.values import Checkpoint, Task, Variant
from lhaw_record.runners.base.text.fields import as_list, as_number, as_object, as_text, literal_or_json, shown
from lhaw_record.runners.environments.benchmarks.mcp_atlas.claims import PASS_COVERAGE, coverage_of
from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import parse_claims
from lhaw_record.runners.environments.grading.grade import CheckpointResult
from lhaw_record.runners.imports.foreign_trial import (
    Failure,
    Finish,
    ForeignTrial,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    converted,
    imported_task,
    imported_variant,
)
from lhaw_record.runners.imports.source_files import csv_rows
from lhaw_record.runners.imports.trajectory import (
    CallResult,
    ForeignTurn,
    call_turn,
    said_in,
    trajectory_events,
    turns_said,
)

BENCHMARK = "mcp_atlas"
GRADER = "mcp_atlas/upstream_judge"
_COVERED = {True: 1.0, "partial": 0.5, False: 0.0}
_NEEDED = ("task", "prompt", "gtfa_claims", "coverage_score", "coverage_details_json")
_ANSWERS = ("script_model_response", "response")
"""The columns in which the scorer looks for the answer after ``<label>_response``, in order."""
_MARKER = re.compile(r"^\s*(?:[-*•·◦‣⁃]|\d+[.)])\s*")  # noqa: RUF001 - bullets


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return one trial for each scored row. The agent is ``--agent``, otherwise the label in ``scored_<label>.csv``."""
    name = source.name.rpartition(".")[0]
    agent = options.agent or name.removeprefix("scored_")
    rows = _rows(source, name.removeprefix("scored_").lower())
    locations = [(f"{source.label}, row {number}", row) for number, row in enumerate(rows, 1)]
    return converted(
        "rows",
        locations,
        lambda each: _trial(*each, _condition(*each, options), agent, options.trial_index, known),
        remarks=("the file marks a claim whose judge failed as not fulfilled, so the two cannot be distinguished",),
    )


def _rows(source: SourceFile, label: str) -> list[dict[str, str]]:
    """Return the rows by lower-case column name, with answers as ``response`` and tool calls as ``trajectory``.

    Like the scorer, this function takes the answer from ``<label>_response``, otherwise from the first of ``_ANSWERS``
    that is filled in. The scorer renames the column ``trajectory`` of its input to ``<label>_trajectory``.
    """
    rows, columns = csv_rows(source, column_name)
    answers = [column for column in (f"{label}_response", *_ANSWERS) if column in columns]
    missing = [*(column for column in _NEEDED if column not in columns), *(() if answers else ["response"])]
    if missing:
        raise ImportFailed(
            f"{source.label} has no column {missing[0]}, so it is not a file scored by MCP-Atlas. "
            f"Found: {', '.join(columns)[:200]}"
        )
    own = f"{label}_trajectory"
    return [
        {
            **row,
            "response": next((row[column] for column in answers if row[column]), ""),
            "trajectory": row.get(own) or row.get("trajectory", ""),
        }
        for row in rows
    ]


def task_of(task_id: str, prompt: str, claims: Sequence[str]) -> Task:
    """Return a task in the one form that all imports of MCP-Atlas share."""
    checkpoints = (Checkpoint(checkpoint_id=f"c{n}", label=claim) for n, claim in enumerate(claims, 1))
    return imported_task(BENCHMARK, task_id, prompt, checkpoints)


def column_name(name: str) -> str:
    """Return a column's name in lower case.

    ``TRAJECTORY`` is the dataset's reference and gets another name, because ``trajectory`` holds the agent's calls.
    """
    return "reference_trajectory" if name == "TRAJECTORY" else name.lower()


def _condition(location: str, row: Mapping[str, str], options: Options) -> str:
    is_variant = bool(row.get("original_prompt")) and row["original_prompt"] != row["prompt"]
    if options.condition is None and is_variant:
        raise ImportFailed(f"{location} has an underspecified prompt; set --condition underspecified or ask_user")
    condition = options.condition or "full"
    if is_variant == condition.startswith("full"):
        raise ImportFailed(
            f"{location}: condition {condition} does not fit a row with{'' if is_variant else 'out'} an original_prompt"
        )
    return condition


def _trial(
    location: str, row: Mapping[str, str], condition: str, agent: str, trial_index: int, known: KnownRecords
) -> ForeignTrial:
    """Convert one row to a trial."""
    claims = parse_claims(row["gtfa_claims"])
    prompt = row["prompt"] if condition.startswith("full") else row["original_prompt"]
    task = task_of(as_text(row["task"], "TASK").partition("::")[0], prompt, claims)
    return ForeignTrial(
        location=location,
        task=task,
        variant=None if condition.startswith("full") else _variant(row, task.task_id, known),
        condition=condition,
        agent=agent,
        model=agent,
        grader=GRADER,
        trial_index=trial_index,
        trajectory=_trajectory(row, agent, condition),
        end=_end(row, claims),
    )


def _variant(row: Mapping[str, str], task_id: str, known: KnownRecords) -> Variant:
    """Return the store's variant with this prompt, or a variant with only its prompt."""
    for variant in known.variants.values():
        if (variant.benchmark, variant.task_id, variant.prompt) == (BENCHMARK, task_id, row["prompt"]):
            return variant
    own_id = row["task"] if "::" in row["task"] else f"{task_id}::{short_digest(row['prompt'])[:12]}"
    return imported_variant(BENCHMARK, task_id, own_id, row["prompt"])


def _end(row: Mapping[str, str], claims: Sequence[str]) -> Finish | Failure:
    answer = row["response"]
    seconds = row.get("trajectory_time")
    duration_ms = as_number(seconds, "trajectory_time") * 1000 if seconds else None
    error = answer if answer.startswith("ERROR:") else row.get("errors", "") if not answer.strip() else ""
    if error.strip() not in ("", "[]", "{}", "None", "null"):
        return Failure(boundary=None, error_kind="upstream_error", message=error, duration_ms=duration_ms)
    if row["coverage_score"].strip().lower() in ("", "none", "null", "nan"):
        reason = "the row has no coverage: no claims, or judging failed"
        return Failure(boundary="grader", error_kind="no_coverage", message=reason, duration_ms=duration_ms)
    if not claims:
        raise ValueError("a coverage without claims")
    results = _results(row, claims)
    coverage = coverage_of([result.score for result in results])
    if abs(coverage - as_number(row["coverage_score"], "coverage_score")) > 0.0011:
        raise ValueError("coverage_score is not the mean of the claims' scores")
    return Finish(is_success=coverage >= PASS_COVERAGE, results=results, final_answer=answer, duration_ms=duration_ms)


def _results(row: Mapping[str, str], claims: Sequence[str]) -> tuple[CheckpointResult, ...]:
    details = as_object(literal_or_json(row["coverage_details_json"], "coverage_details_json"), "coverage_details_json")
    judged = [as_object(each, "a judged claim") for each in as_list(details.get("per_claim"), "per_claim")]
    if [_letters(str(each.get("claim", ""))) for each in judged] != [_letters(claim) for claim in claims]:
        raise ValueError("the judged claims are not those of GTFA_CLAIMS")
    return tuple(
        CheckpointResult(checkpoint_id=f"c{n}", score=_score(each), details=str(each.get("reason") or ""))
        for n, each in enumerate(judged, 1)
    )


def _letters(claim: str) -> str:
    """Return a claim without marker, blanks and punctuation, some of which the scorer rewrites or truncates."""
    return re.sub(r"[\W_]+", "", _MARKER.sub("", claim))


def _score(judged: Mapping[str, Any]) -> float:
    """Return the score of a claim, which must agree with ``covered``: a boolean or ``'partial'``."""
    covered = judged.get("covered")
    said = _COVERED.get(covered) if isinstance(covered, bool | str) else None
    if covered is not None and said is None:
        raise ValueError(f"covered is {shown(covered)}, expected true, 'partial' or false")
    score = said if judged.get("score") is None else as_number(judged["score"], "the score of a claim")
    if score is None or score not in _COVERED.values():
        raise ValueError(f"the score of a claim is {shown(judged.get('score'))}, expected 0, 0.5 or 1")
    if said is not None and said != score:
        raise ValueError("the score of a claim contradicts covered")
    return score


def _trajectory(row: Mapping[str, str], agent: str, condition: str) -> tuple[AnyEvent, ...] | None:
    """Return the events of the row's conversation, or else of its list of tool calls, or None if it has neither."""
    if row.get("raw_conversation_history"):
        given = as_list(literal_or_json(row["raw_conversation_history"], "raw_conversation_history"), "the history")
        turns = turns_said(said_in(given))
    elif row.get("trajectory"):
        given = as_list(literal_or_json(row["trajectory"], "trajectory"), "trajectory")
        turns = [_call(as_object(each, "a call")) for each in given]
    else:
        return None
    return trajectory_events(turns, model=agent, condition=condition)


def _call(given: Mapping[str, Any]) -> ForeignTurn:
    """Read a call as the harness lists it; an entry without ``tool_name`` is a reference call of the dataset."""
    error, response = given.get("error"), given.get("response")
    result = CallResult(text=str(error or ("" if response is None else response)), is_error=bool(error))
    return call_turn(as_text(given.get("tool_name"), "tool_name"), given.get("parameters"), result)
