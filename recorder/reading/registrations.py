"""Finds the registered tasks and variants of a store, and the task version that each variant was generated from.

The prompt of that version is the variant's full prompt. Only this module decides which version it is:

1. A registration names the digest of the version in ``VariantGenerated.task_digest``. The last registration with a
   digest decides. For a query about one experiment, that experiment's registrations take precedence.
2. If no registration has a digest, as in stores from earlier versions, it is the task version that was registered last
   before the variant in the same experiment, or else in any experiment.
3. If no version was registered before the variant, it is the last version registered.

A variant that a judge rejected after it was generated is withdrawn: it no longer belongs to its experiment, or to a run
that only uses it, unless another experiment generated the same variant and keeps it.
"""

from collections.abc import Iterable, Iterator

import msgspec

from lhaw_record.recorder.events import Envelope, TaskRegistered, VariantGenerated, VariantRejected
from lhaw_record.recorder.events.values import Task
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.reading.typed_rows import events_of_types, in_recorded_order


def is_withdrawal(event: VariantRejected) -> bool:
    """Return whether an event says that a judge rejected a variant after it was generated."""
    return event.attempt == 0


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """One registration of a variant. ``current`` is the latest task version registered at that time."""

    event: VariantGenerated
    experiment_id: str
    current: Task | None


class Registrations:
    """Every registered task and variant of a store, from events in any order."""

    def __init__(self, envelopes: Iterable[Envelope]) -> None:
        self._versions: dict[str, Task] = {}
        self._latest: dict[tuple[str, ...], Task] = {}
        self._all: list[Registration] = []
        self._of_variant: dict[str, list[Registration]] = {}
        self._withdrawn: set[tuple[str, str]] = set()
        for envelope in sorted(envelopes, key=in_recorded_order):
            if isinstance(envelope.event, TaskRegistered):
                task = envelope.event.task
                self._versions[envelope.event.task_digest] = task
                self._latest[task.benchmark, task.task_id] = task
                self._latest[task.benchmark, task.task_id, envelope.experiment_id] = task
            elif isinstance(envelope.event, VariantGenerated):
                self._add(envelope.event, envelope.experiment_id)
            elif isinstance(envelope.event, VariantRejected) and is_withdrawal(envelope.event):
                self._withdrawn.add((envelope.experiment_id, envelope.event.variant_id))

    @classmethod
    def read(cls, snapshot: Snapshot) -> "Registrations":
        """Read the registrations from a snapshot."""
        return cls(events_of_types(snapshot, (TaskRegistered, VariantGenerated, VariantRejected)))

    def of_variant(self, variant_digest: str) -> list[Registration]:
        """Return the registrations of a variant in recorded order."""
        return self._of_variant.get(variant_digest, [])

    def of_experiment(self, experiment_id: str | None = None) -> Iterator[Registration]:
        """Yield the registrations of one or all experiments in recorded order, without withdrawn variants."""
        refused = {variant_id for _, variant_id in self._withdrawn}
        kept = {
            each.event.variant.variant_id
            for each in self._all
            if each.event.rewriter is not None and not self._is_withdrawn_here(each)
        }
        for each in self._all:
            variant_id = each.event.variant.variant_id
            is_only_used = each.event.rewriter is None and variant_id in refused and variant_id not in kept
            if experiment_id in (None, each.experiment_id) and not (self._is_withdrawn_here(each) or is_only_used):
                yield each

    def task_of(self, variant_digest: str, experiment_id: str | None = None) -> Task | None:
        """Return the task version that a variant was generated from, or None if the store does not have it."""
        everywhere = self.of_variant(variant_digest)
        here = [each for each in everywhere if experiment_id in (None, each.experiment_id)]
        for registrations in (here, everywhere):
            named = [each.event.task_digest for each in registrations if each.event.task_digest is not None]
            if named:
                return self._versions.get(named[-1])
        for last in (here or everywhere)[-1:]:
            variant = last.event.variant
            return last.current or self._latest.get((variant.benchmark, variant.task_id))
        return None

    def _is_withdrawn_here(self, each: Registration) -> bool:
        return (each.experiment_id, each.event.variant.variant_id) in self._withdrawn

    def _add(self, event: VariantGenerated, experiment_id: str) -> None:
        key = event.variant.benchmark, event.variant.task_id
        current = self._latest.get((*key, experiment_id)) or self._latest.get(key)
        registration = Registration(event=event, experiment_id=experiment_id, current=current)
        self._all.append(registration)
        self._of_variant.setdefault(event.variant_digest, []).append(registration)
