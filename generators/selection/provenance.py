"""Where a selected benchmark comes from, as its store tells it: tasks, segments, rewriters, classifier, judges."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from analytics.exports.exported import rows_of
from analytics.store import open as open_store
from generators.errors import GeneratorError
from generators.selection.selecting import Wish
from recorder.events import (
    BenchmarkSelected,
    NewTaskJudged,
    RunStarted,
    SegmentsExtracted,
    TaskRegistered,
    VariantGenerated,
)
from recorder.reader import read_snapshot
from recorder.typed_rows import events_of_types, in_recorded_order
from recorder.values import Task, Variant

_CLASSIFIERS = """
    select agent, model, strategy, persona, count(*)::bigint as trials
    from trials
    where
        role = 'classifier'
        and trial_state = 'valid'
        and condition = 'underspecified'
        and agent = $classifier
        and list_contains($digests, variant_digest)
    group by all
    order by all
"""
_OUTCOMES = """
    select count(*) filter (where new_task_verdict = 'unjudged')::bigint as unjudged, max(n_planned) as planned
    from int_variants_classified
    where role = 'classifier' and agent = $classifier and list_contains($digests, variant_digest)
"""


class ChosenVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A selected variant with its class; ``maker`` is who rewrote the prompt, or the variant's origin."""

    variant: Variant
    ambiguity_class: str
    maker: str


class Classifier(msgspec.Struct, frozen=True, kw_only=True):
    """The agent whose trials gave the classes, and how many valid ones the selected variants have."""

    agent: str
    model: str
    strategy: str | None
    persona: str | None
    trials: int


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a selection.

    ``tasks`` by id, in the version that the variants were made from where that is known, else the latest.
    ``extractors`` say name, digest and grounding with the number of tasks; ``makers`` and ``judges`` count variants.
    ``unjudged`` variants may be new tasks that no judge has looked at; ``planned`` are the classifying trials of each
    variant, None where all classes are labels. ``wish`` is what was asked for, None where the run does not say it.
    """

    event: BenchmarkSelected
    chosen: tuple[ChosenVariant, ...]
    tasks: Mapping[str, Task]
    extractors: Mapping[str, int]
    makers: Mapping[str, int]
    classifiers: tuple[Classifier, ...]
    judges: Mapping[str, int]
    unjudged: int
    planned: int | None
    code_version: str
    wish: Wish | None


def provenance(store: Path, event: BenchmarkSelected) -> Provenance:
    """Return what a store tells about the making of a selection.

    Raises:
        StoreError: There is no store.
        GeneratorError: A selected variant is not registered in it.
    """
    types = (TaskRegistered, SegmentsExtracted, VariantGenerated, NewTaskJudged, RunStarted, BenchmarkSelected)
    found = _Found(event)
    for envelope in sorted(events_of_types(read_snapshot(store), types), key=in_recorded_order):
        found.add(envelope.stream_id, envelope.event)
    chosen = tuple(found.chosen())
    return Provenance(
        event=event,
        chosen=chosen,
        tasks=found.tasks_of(chosen),
        extractors=found.extractors(chosen),
        makers=dict(Counter(each.maker for each in chosen)),
        **_classifying(store, event),
        judges=dict(Counter(found.judged.values())),
        code_version=found.run.code_version if found.run else "unknown",
        wish=_wish(found.run),
    )


class _Found:
    """The events of a store as far as they concern one selection, later ones in place of earlier ones."""

    def __init__(self, event: BenchmarkSelected) -> None:
        self._event = event
        self._digests = {each.variant_digest for each in event.variants}
        self._tasks: dict[str, Task] = {}
        self._latest: dict[str, Task] = {}
        self._made: dict[str, VariantGenerated] = {}
        self._extracted: dict[tuple[str, str], SegmentsExtracted] = {}
        self._runs: dict[str, RunStarted] = {}
        self.judged: dict[str, str] = {}
        self.run: RunStarted | None = None

    def add(self, stream_id: str, event: object) -> None:
        """Take one event, in the order of their recording."""
        if isinstance(event, RunStarted):
            self._runs[stream_id] = event
        elif isinstance(event, BenchmarkSelected) and event == self._event:
            self.run = self._runs.get(stream_id)
        elif isinstance(event, TaskRegistered) and event.task.benchmark == self._event.benchmark:
            self._tasks[event.task_digest] = self._latest[event.task.task_id] = event.task
        elif isinstance(event, SegmentsExtracted):
            self._extracted[event.task_digest, f"{event.extractor} {event.extractor_digest}"] = event
        elif isinstance(event, NewTaskJudged) and event.variant_digest in self._digests:
            self.judged[event.variant_digest] = event.judge
        elif isinstance(event, VariantGenerated) and event.variant_digest in self._digests:
            known = self._made.get(event.variant_digest)
            if known is None or known.rewriter is None:  # a run registers it anew, and does not say who made it
                self._made[event.variant_digest] = event

    def chosen(self) -> list[ChosenVariant]:
        lost = [each.variant_id for each in self._event.variants if each.variant_digest not in self._made]
        if lost:
            raise GeneratorError(
                f"selection {self._event.selection}: variant {lost[0]!r} is not registered in this store; import the "
                "store that has it, or select anew"
            )
        return [
            ChosenVariant(variant=made.variant, ambiguity_class=each.ambiguity_class, maker=_maker(made))
            for each in self._event.variants
            for made in (self._made[each.variant_digest],)
        ]

    def tasks_of(self, chosen: tuple[ChosenVariant, ...]) -> dict[str, Task]:
        found: dict[str, Task] = {}
        for each in chosen:
            made_from = self._made[each.variant.variant_digest].task_digest
            task = self._tasks.get(made_from or "") or self._latest.get(each.variant.task_id)
            if task is not None:
                found[each.variant.task_id] = task
        return found

    def extractors(self, chosen: tuple[ChosenVariant, ...]) -> dict[str, int]:
        """Extractors of the tasks of variants that were made here, with how many tasks each had."""
        digests = {self._made[each.variant.variant_digest].task_digest for each in chosen}
        used = [each for (task_digest, _), each in self._extracted.items() if task_digest in digests]
        return dict(Counter(f"{each.extractor} ({_described(each)})" for each in used))


def _described(event: SegmentsExtracted) -> str:
    seen = f", looking at {', '.join(event.grounding)}" if event.grounding else ", looking at the prompt only"
    return f"digest {event.extractor_digest[:12]}{seen}"


def _maker(made: VariantGenerated) -> str:
    if made.variant.environment_change is not None:
        return "as the task has them; the benchmark changes the workspace"
    if made.rewriter is None:
        return made.variant.origin.replace("_", " ")
    return f"{made.rewriter} (digest {(made.rewriter_digest or 'unknown')[:12]})"


def _wish(run: RunStarted | None) -> Wish | None:
    config = msgspec.json.decode(run.config_json) if run else {}
    if config.pop("command", None) != "select":
        return None
    return msgspec.convert(config, Wish)


def _classifying(store: Path, event: BenchmarkSelected) -> dict[str, Any]:
    """What the classifier's trials of the chosen variants were."""
    asked = {"classifier": event.classifier, "digests": [each.variant_digest for each in event.variants]}
    connection = open_store(store, only={"trials", "int_variants_classified"})
    try:
        agents = rows_of(connection, _CLASSIFIERS, asked)
        ((unjudged, planned),) = connection.execute(_OUTCOMES, asked).fetchall()
    finally:
        connection.close()
    return {"classifiers": tuple(Classifier(**row) for row in agents), "unjudged": unjudged, "planned": planned}
