"""Index of the generation work that a store already holds: extractions, variants and rejected rewritings."""

import msgspec

from lhaw_record.generators.protocol import Removal
from lhaw_record.recorder.events import Event, SegmentsExtracted, TaskRegistered, VariantGenerated, VariantRejected
from lhaw_record.recorder.events.values import Severity, Task
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.reading.registrations import is_withdrawal
from lhaw_record.recorder.reading.typed_rows import events_of_types, in_recorded_order

ExtractionKey = tuple[str, str, tuple[str, ...]]
"""The key of an extraction: task digest, extractor digest and grounding."""


class GenerationIndex(msgspec.Struct, kw_only=True):
    """The generation work that is already recorded and need not be repeated.

    Attributes:
        extractions: The latest extraction for each key.
        variants: Every registered variant by its digest, whatever its origin.
        variant_ids: The ids of these variants.
        attempts: Every rejection of each planned variant in order, by variant id.
        tasks: Every registered task by its digest.
    """

    extractions: dict[ExtractionKey, SegmentsExtracted] = {}
    variants: dict[str, VariantGenerated] = {}
    variant_ids: set[str] = set()
    attempts: dict[str, tuple[VariantRejected, ...]] = {}
    tasks: dict[str, Task] = {}

    @property
    def rejected(self) -> dict[str, VariantRejected]:
        """The latest rejection of each planned variant, by variant id."""
        return {name: events[-1] for name, events in self.attempts.items()}

    def add(self, event: SegmentsExtracted | VariantGenerated | VariantRejected | TaskRegistered) -> None:
        """Add an event. It replaces an earlier event about the same extraction, variant or task.

        A run registers the variants that it uses without their maker: that replaces nothing.
        """
        if isinstance(event, TaskRegistered):
            self.tasks[event.task_digest] = event.task
        elif isinstance(event, SegmentsExtracted):
            self.extractions[event.task_digest, event.extractor_digest, event.grounding] = event
        elif isinstance(event, VariantGenerated):
            attempts = self.attempts.get(event.variant.variant_id)
            if event.rewriter is None and attempts and is_withdrawal(attempts[-1]):
                return  # a run registers the variants that it uses
            known = self.variants.get(event.variant_digest)
            if known is None or known.rewriter is None or event.rewriter is not None:
                self.variants[event.variant_digest] = event
            self.variant_ids.add(event.variant.variant_id)
        else:
            self.attempts[event.variant_id] = (*self.attempts.get(event.variant_id, ()), event)
            if is_withdrawal(event):
                self._withdraw(event.variant_id)

    def _withdraw(self, variant_id: str) -> None:
        """Forget a variant that was made, and that a judge refused later."""
        self.variant_ids.discard(variant_id)
        self.variants = {name: event for name, event in self.variants.items() if event.variant.variant_id != variant_id}

    def siblings(self, task_digest: str, removal: Removal) -> dict[Severity, str]:
        """Return the prompts that were made by removing the same segments under other severities."""
        wanted = [each.value for each in removal.segments]
        return {
            each.variant.severity: each.variant.prompt
            for each in self.variants.values()
            if each.task_digest == task_digest
            and each.variant.severity not in (None, "decoy", removal.severity)
            and [segment.value for segment in each.variant.segments] == wanted
        }


def load_generation_index(snapshot: Snapshot, experiment_id: str | None = None) -> GenerationIndex:
    """Build the index of one experiment, or of the whole store if ``experiment_id`` is None.

    In a whole store, a variant that one experiment withdrew still counts if another made the same one and keeps it.
    """
    index = GenerationIndex()
    types = (TaskRegistered, SegmentsExtracted, VariantGenerated, VariantRejected)
    envelopes = sorted(events_of_types(snapshot, types, experiment_id), key=in_recorded_order)
    withdrawn = {
        (each.experiment_id, each.event.variant_id)
        for each in envelopes
        if isinstance(each.event, VariantRejected) and is_withdrawal(each.event)
    }
    made = {
        (each.experiment_id, each.event.variant.variant_id)
        for each in envelopes
        if isinstance(each.event, VariantGenerated) and each.event.rewriter is not None
    }
    kept = {variant_id for _, variant_id in made - withdrawn}
    left_out = {(experiment, variant_id) for experiment, variant_id in withdrawn if variant_id in kept}
    for envelope in envelopes:
        assert isinstance(envelope.event, types)
        if (envelope.experiment_id, _variant_id(envelope.event)) not in left_out:
            index.add(envelope.event)
    return index


def _variant_id(event: Event) -> str | None:
    if isinstance(event, VariantGenerated):
        return event.variant.variant_id
    return event.variant_id if isinstance(event, VariantRejected) else None
