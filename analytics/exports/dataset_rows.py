"""The export ``hf``: classified or selected variants in the format of the published dataset.

Source: docs/exports.md; LHAW, appendix F.2.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import floor
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lhaw_record.analytics.errors import UnknownName
from lhaw_record.analytics.exports.exported import ExportDocument, ExportFolder, card
from lhaw_record.analytics.tables.labels import BENCHMARKS
from lhaw_record.analytics.views.rows import rows_of
from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.recorder.events import VariantGenerated
from lhaw_record.recorder.events.values import Variant
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.reading.registrations import Registrations

FEATURES = {
    **dict.fromkeys(("variant_id", "original_task", "dataset", "original_prompt", "underspecified_prompt"), "string"),
    "information_dimension": ["string"],
    "ambiguity_class": "string",
    "removed_segments": [dict.fromkeys(("dimension", "id", "subdimension", "value"), "string")],
    "expected_questions": [{"questions": ["string"], "segment_id": "string"}],
    "terminal_states": "string",
}
_REQUEST = (
    "A user sends you this request. Reply with the one message that you would send before any work. If something that "
    "you need is missing, ask for it.\n\n{prompt}"
)
_CRITERION = (
    "A user left something out of a request. An assistant replied before any work.\n\n[Request]: {question}\n"
    "[What the user had in mind]: {criterion}\n[Reply]: {answer}\n\nThe reply is correct if and only if it asks the "
    "user for what the request lacks of what the user had in mind.\n\n{instructions}"
)
_HUB_TASK = {
    "id": "clarification",
    "config": "default",
    "split": "test",
    "field_spec": {"input": "underspecified_prompt", "target": "original_prompt"},
    "solvers": [{"name": "prompt_template", "args": {"template": _REQUEST}}, {"name": "generate"}],
    "scorers": [{"name": "model_graded_qa", "args": {"template": _CRITERION}}],
}
"""What runners of the hub do with the rows: a model's first reply must ask for what is missing, as a model judges."""
UNCLASSIFIED = "unclassified"
"""In the place of a class, where no variant has one."""
_CLASSES = "select variant_digest, ambiguity_class, classified_by from ambiguity_classes"
_STATES = """
    select variant_digest, role, agent, terminal_state
    from trials
    where condition = 'underspecified' and trial_state = 'valid'
"""
_SELECTIONS = """
    select benchmark, selection, variant_digest, nullif(ambiguity_class, 'unclassified') as ambiguity_class, classifier
    from selections
    order by benchmark, selection, position
"""


class _Candidate(msgspec.Struct, frozen=True):
    """A variant that may become a row, with the prompt of its full task and its recorded terminal states."""

    variant: Variant
    digest: str
    full_prompt: str | None
    terminal_states: Sequence[Sequence[float]]


def dataset_rows(
    store: Path, experiment: str | None = None, *, selection: str | None = None, benchmark: str | None = None
) -> ExportDocument:
    """Return one dataset row for each variant with a class, or for all if none has one, in order of registration."""
    views = {"selections", "ambiguity_classes", "trials"}
    with open_store(store, only=views) as connection:
        classes = rows_of(connection, _CLASSES)
        states = rows_of(connection, _STATES)
        selections = rows_of(connection, _SELECTIONS)
    labels = {row["variant_digest"]: (row["ambiguity_class"], row["classified_by"]) for row in classes}
    registrations = Registrations.read(read_snapshot(store))
    if selection is None:
        latest: dict[tuple[str, str], VariantGenerated] = {}
        for each in registrations.of_experiment(experiment):
            latest[each.event.variant.benchmark, each.event.variant.variant_id] = each.event
        return _exported([_candidate(event, registrations, experiment) for event in latest.values()], labels, states)
    chosen = _chosen([row for row in selections if benchmark in (None, row["benchmark"])], selection)
    registered = {each.event.variant_digest: each.event for each in registrations.of_experiment(experiment)}
    found = [_candidate(registered[digest], registrations, experiment) for digest in chosen if digest in registered]
    return _exported(found, labels | chosen, states, lost=len(chosen) - len(found))


def dataset_folder(store: Path, experiment: str | None = None, *, selection: str | None = None) -> ExportFolder:
    """Return the rows as ``test.json``, with a card and the hub's ``eval.yaml``.

    See :func:`dataset_rows` for the arguments and errors.
    """
    found = dataset_rows(store, experiment, selection=selection)
    text = f"{found.count} rows in the format of the published dataset, written by `lhaw-record export hf`."
    readme = card("Underspecified tasks", text, FEATURES, {"test": "test.json"})
    evaluation = {"name": "Underspecified tasks", "evaluation_framework": "inspect-ai", "tasks": [_HUB_TASK]}
    return ExportFolder(
        files={
            "test.json": found.to_bytes(),
            "README.md": readme,
            "eval.yaml": yaml.safe_dump(evaluation, sort_keys=False).encode(),
        },
        count=found.count,
        what=found.what,
        left_out=found.left_out,
    )


def chosen_variants(store: Path, selection: str, benchmark: str) -> frozenset[str]:
    """Return the digests of a benchmark's variants in a selection."""
    with open_store(store, only={"selections"}) as connection:
        selections = rows_of(connection, _SELECTIONS)
    return frozenset(_chosen([row for row in selections if row["benchmark"] == benchmark], selection))


def _chosen(selections: Sequence[Mapping[str, Any]], name: str) -> dict[str, tuple[str | None, str]]:
    """Map the digest of each selected variant to its class, None if it was unclassified, and who assigned it."""
    found = [row for row in selections if row["selection"] == name]
    if not found:
        there = ", ".join(dict.fromkeys(row["selection"] for row in selections)) or "none"
        raise UnknownName(f"there is no selection {name!r} in this store; there are: {there}")
    return {row["variant_digest"]: (row["ambiguity_class"], row["classifier"]) for row in found}


def _candidate(event: VariantGenerated, registrations: Registrations, experiment: str | None) -> _Candidate:
    """Build the candidate for a variant. Its terminal states come from the latest registration with any."""
    digest = event.variant_digest
    task = registrations.task_of(digest, experiment)
    states = [each.event.terminal_states for each in registrations.of_variant(digest) if each.event.terminal_states]
    return _Candidate(event.variant, digest, task.prompt if task else None, states[-1] if states else ())


def _exported(
    variants: Iterable[_Candidate],
    labels: Mapping[str, tuple[str | None, str | None]],
    states: Iterable[Mapping[str, Any]],
    *,
    lost: int = 0,
) -> ExportDocument:
    variants = list(variants)
    has_classes = any(label for each in variants for label, _ in [labels.get(each.digest, (None, None))])
    reached = _states(states, {digest: giver for digest, (_, giver) in labels.items()})
    rows, unclassified, without_task, changed = [], 0, 0, 0
    for each in variants:
        label = labels.get(each.digest, (None, None))[0] or (None if has_classes else UNCLASSIFIED)
        if each.variant.severity == "environment":
            changed += 1
        elif each.variant.origin == "control" or label in (None, "new_task"):
            unclassified += 1
        elif each.full_prompt is None:
            without_task += 1
        else:
            rows.append(_row(each.variant, label, each.full_prompt, reached.get(each.digest) or each.terminal_states))
    has_fractions = any(value != floor(value) for state in reached.values() for results in state for value in results)
    return ExportDocument(
        document=rows,
        count=len(rows),
        what="dataset rows",
        left_out=(
            *((f"{lost} selected variants that are not registered",) if lost else ()),
            *((f"{unclassified} variants without an ambiguity class",) if unclassified else ()),
            *((f"{without_task} variants whose task is not registered",) if without_task else ()),
            *((f"{changed} variants that change the environment: the format has prompts only",) if changed else ()),
            *(("fractions of points: terminal_states holds whole numbers, rounded down",) if has_fractions else ()),
        ),
    )


def _states(rows: Iterable[Mapping[str, Any]], givers: Mapping[str, str | None]) -> dict[str, list[tuple[float, ...]]]:
    """Return the distinct terminal states of each variant by its digest, sorted.

    If the variant has trials of a classifier, only those count; if the agent that assigned the class has any, only its
    trials count.
    """
    by_rank: dict[str, dict[int, set[tuple[float, ...]]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        is_classifying = row["role"] == "classifier"
        rank = is_classifying + (is_classifying and row["agent"] == givers.get(row["variant_digest"]))
        by_rank[row["variant_digest"]][rank].add(tuple(row["terminal_state"]))
    return {digest: sorted(ranked[max(ranked)]) for digest, ranked in by_rank.items()}


def _row(variant: Variant, label: str | None, prompt: str, states: Iterable[Sequence[float]]) -> dict[str, Any]:
    segments = variant.segments
    whole = sorted({tuple(floor(value) for value in state) for state in states})
    return {
        "variant_id": variant.variant_id,
        "original_task": variant.task_id,
        "dataset": BENCHMARKS.get(variant.benchmark, variant.benchmark),
        "original_prompt": prompt,
        "underspecified_prompt": variant.prompt,
        "information_dimension": list(dict.fromkeys(segment.dimension for segment in segments)),
        "ambiguity_class": label,
        "removed_segments": [
            {
                "dimension": segment.dimension,
                "id": segment.segment_id,
                "subdimension": segment.subdimension,
                "value": segment.value,
            }
            for segment in segments
        ],
        "expected_questions": [
            {"questions": list(group.questions), "segment_id": group.segment_id}
            for group in variant.expected_questions or ()
        ],
        "terminal_states": repr(whole),
    }
