"""Reads the provenance of a selected benchmark from its store: tasks, extractors, rewriters, classifier and judges."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.analytics.views.rows import rows_of
from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.generators.errors import GeneratorError
from lhaw_record.generators.selection.selection import SelectionRequest
from lhaw_record.generators.sources.written import WRITTEN
from lhaw_record.recorder.events import BenchmarkSelected, GateJudgement, VariantGenerated
from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.reading.registrations import Registration, Registrations

_CLASSIFIERS = """
    select agent, model, strategy, persona, count(*)::bigint as trials
    from trials
    where
        role = 'classifier'
        and trial_state = 'valid'
        and condition = 'underspecified'
        and $classifier in (agent, 'vote')
        and list_contains($digests, variant_digest)
    group by all
    order by all
"""
_JUDGES = """
    select judge, count(*)::bigint as n
    from new_task_verdicts
    where
        judge is not null
        and role = 'classifier'
        and $classifier in (agent, 'vote')
        and list_contains($digests, variant_digest)
    group by judge
    order by judge
"""
_EXTRACTORS = """
    with latest as (
        select
            task_digest,
            extractor,
            extractor_digest,
            min(recorded_at_us) as first_at_us,
            arg_max(grounding, (recorded_at_us, stream_id, sequence)) as grounding
        from stg_segments_extracted
        where task_digest in (
            select task_digest from variants where rewriter is not null and list_contains($digests, variant_digest)
        )
        group by task_digest, extractor, extractor_digest
    )

    select extractor, extractor_digest, grounding, count(*)::bigint as n
    from latest
    group by all
    order by min(first_at_us), extractor, extractor_digest, grounding
"""
_RUN = """
    select distinct runs.kind, runs.code_version, runs.config_json
    from selections
    inner join runs on selections.stream_id = runs.stream_id
    where selections.benchmark = $benchmark and selections.selection = $selection
"""
_AGREEMENTS = """
    select reviewer, other_reviewer, measure, value, low, high, n_units
    from review_agreement
    where benchmark = $1 and other_reviewer is not null
    order by all
"""
_LABELS = """
    select label, asserted, measure, value, low, high, n_units, n_trials
    from segment_labels
    where benchmark = $1 and value is not null
    order by label, asserted, measure
"""
_OUTCOMES = """
    select
        count(*) filter (where new_task_verdict = 'unjudged')::bigint as unjudged,
        max(n_planned) as planned,
        count(*) filter (where contains(class_counts, ','))::bigint as disputed
    from observed_classes
    where role in ('classifier', 'vote') and agent = $classifier and list_contains($digests, variant_digest)
"""


BY_HAND = "written by hand"
"""The maker of what a person wrote with the task."""


class ChosenVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A selected variant with its class.

    Attributes:
        variant: The variant.
        ambiguity_class: Its class.
        maker: Its rewriter, or its origin if no rewriter made it.
        original: The prompt of the version of the task that it was made from; None if the store does not have it.
        judgement: What a model judged about it, when it was made or later; None if none did.
    """

    variant: Variant
    ambiguity_class: str
    maker: str
    original: str | None = None
    judgement: GateJudgement | None = None


class Classifier(msgspec.Struct, frozen=True, kw_only=True):
    """The classifying agent, and the number of its valid trials of the selected variants."""

    agent: str
    model: str
    strategy: str | None
    persona: str | None
    trials: int


class Reviews(msgspec.Struct, frozen=True, kw_only=True):
    """What people decided about variants.

    Attributes:
        read: How many of the benchmark's variants somebody read.
        accepted: How many of these everybody who read them accepted.
        reasons: How often a variant was rejected or edited for each reason, most frequent first.
        chosen_read: How many of the selected variants somebody read, or wrote.
        chosen_accepted: How many of these nobody rejected or edited.
        agreements: For each pair of reviewers their rows of ``review_agreement`` by measure.
    """

    read: int
    accepted: int
    reasons: Mapping[str, int]
    chosen_read: int
    chosen_accepted: int
    agreements: Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]]


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """The provenance of a selection.

    Attributes:
        event: The recorded selection.
        chosen: The selected variants.
        tasks: Their tasks by id, in the version that the variants were made from.
        extractors: Number of tasks by extractor (name, digest and grounding).
        makers: Number of variants by maker.
        classifiers: The classifying agents.
        disputed: The number of variants about which these agents voted and did not all say the same.
        judges: Number of variants by judge.
        unjudged: The number of variants that may be new tasks and were not judged.
        reviews: What people decided about the benchmark's variants; None if nobody read one.
        labels: The rows of ``segment_labels`` that have a value.
        planned: The planned number of classifying trials per variant; None if all classes come from labels.
        code_version: The version of lhaw-record that made the selection.
        request: The request behind the selection; None if the run did not record it.
    """

    event: BenchmarkSelected
    chosen: tuple[ChosenVariant, ...]
    tasks: Mapping[str, Task]
    extractors: Mapping[str, int]
    makers: Mapping[str, int]
    classifiers: tuple[Classifier, ...]
    disputed: int
    judges: Mapping[str, int]
    unjudged: int
    reviews: Reviews | None
    labels: tuple[Mapping[str, Any], ...]
    planned: int | None
    code_version: str
    request: SelectionRequest | None


def provenance(store: Path, event: BenchmarkSelected) -> Provenance:
    registrations = Registrations.read(read_snapshot(store))
    chosen = tuple(_chosen(event, registrations))
    found = {each.variant.task_id: registrations.task_of(each.variant.variant_digest) for each in chosen}
    return Provenance(
        event=event,
        chosen=chosen,
        tasks={task_id: task for task_id, task in found.items() if task is not None},
        makers=dict(Counter(each.maker for each in chosen)),
        **_recorded(store, event),
        reviews=_reviews(store, event),
        labels=_labels(store, event),
    )


def _chosen(event: BenchmarkSelected, registrations: Registrations) -> Iterator[ChosenVariant]:
    for each in event.variants:
        made = _made(registrations.of_variant(each.variant_digest))
        if made is None:
            raise GeneratorError(
                f"selection {event.selection}: variant {each.variant_id!r} is not registered in this store; import the "
                "store that has it, or select anew"
            )
        task = registrations.task_of(each.variant_digest)
        yield ChosenVariant(
            variant=made.variant,
            ambiguity_class=each.ambiguity_class,
            maker=_maker(made),
            original=task.prompt if task else None,
            judgement=made.judgement,
        )


def _made(registrations: Sequence[Registration]) -> VariantGenerated | None:
    """Return the last registration with a judgement, or the first that names a rewriter, or else the last one.

    Runs register variants without naming a rewriter.
    """
    events = [each.event for each in registrations]
    judged = next((event for event in reversed(events) if event.judgement is not None), None)
    return judged or next((event for event in events if event.rewriter is not None), events[-1] if events else None)


def _described(row: Mapping[str, Any]) -> str:
    seen = f"looking at {', '.join(row['grounding'])}" if row["grounding"] else "looking at the prompt only"
    if row["extractor"] == WRITTEN:
        return f"a person; scores {seen}"
    return f"{row['extractor']} (digest {row['extractor_digest'][:12]}, {seen})"


def _maker(made: VariantGenerated) -> str:
    if made.variant.environment_change is not None:
        return "as the task has them; the benchmark changes the workspace"
    if made.rewriter is None:
        return made.variant.origin.replace("_", " ")
    if made.rewriter == WRITTEN:
        return BY_HAND
    return f"{made.rewriter} (digest {(made.rewriter_digest or 'unknown')[:12]})"


def _requested(kind: str, config_json: str) -> SelectionRequest | None:
    if kind != "select":
        return None
    config = msgspec.json.decode(config_json)
    config.pop("command", None)  # in runs that an earlier version recorded
    return msgspec.convert(config, SelectionRequest)


def _recorded(store: Path, event: BenchmarkSelected) -> dict[str, Any]:
    """Return the fields of :class:`Provenance` that the views tell: extractors, classifiers, judges and the run."""
    digests = [each.variant_digest for each in event.variants]
    of_classifier = {"classifier": event.classifier, "digests": digests}
    views = {"new_task_verdicts", "runs", "selections", "stg_segments_extracted", "trials", "variants"}
    with open_store(store, only={*views, "observed_classes"}) as connection:
        extractors = rows_of(connection, _EXTRACTORS, {"digests": digests})
        agents = rows_of(connection, _CLASSIFIERS, of_classifier)
        judges = rows_of(connection, _JUDGES, of_classifier)
        ((unjudged, planned, disputed),) = connection.execute(_OUTCOMES, of_classifier).fetchall()
        runs = rows_of(connection, _RUN, {"benchmark": event.benchmark, "selection": event.selection})
    of_extractors: Counter[str] = Counter()
    for row in extractors:  # what a person wrote has a digest for each task
        of_extractors[_described(row)] += row["n"]
    return {
        "extractors": dict(of_extractors),
        "classifiers": tuple(Classifier(**row) for row in agents),
        "judges": {row["judge"]: row["n"] for row in judges},
        "disputed": disputed,
        "unjudged": unjudged,
        "planned": planned,
        "code_version": runs[0]["code_version"] if runs else "unknown",
        "request": _requested(runs[0]["kind"], runs[0]["config_json"]) if runs else None,
    }


def _reviews(store: Path, event: BenchmarkSelected) -> Reviews | None:
    with open_store(store, only={"review_agreement", "variant_reviews"}) as connection:
        rows = rows_of(connection, "select * from variant_reviews where benchmark = $1", [event.benchmark])
        agreements = rows_of(connection, _AGREEMENTS, [event.benchmark]) if rows else []
    if not rows:
        return None
    refused = {row["variant_digest"] for row in rows if row["decision"] != "accepted"}
    read = {row["variant_digest"] for row in rows}
    written = {row["edited_digest"] for row in rows if row["edited_digest"]}
    chosen = {each.variant_digest for each in event.variants} & (read | written)
    reasons = Counter(row["review_reason"] for row in rows if row["review_reason"])
    return Reviews(
        read=len(read),
        accepted=len(read - refused),
        reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        chosen_read=len(chosen),
        chosen_accepted=len(chosen - refused),
        agreements={
            pair: {row["measure"]: row for row in rows_of_pair}
            for pair, rows_of_pair in groupby(agreements, itemgetter("reviewer", "other_reviewer"))
        },
    )


def _labels(store: Path, event: BenchmarkSelected) -> tuple[Mapping[str, Any], ...]:
    with open_store(store, only={"segment_labels"}) as connection:
        return tuple(rows_of(connection, _LABELS, [event.benchmark]))
