"""Reads variants from a store, by selection or by the experiment that registered them, each with its full prompt."""

import msgspec

from lhaw_record.recorder.events import BenchmarkSelected
from lhaw_record.recorder.events.values import Variant
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.reading.registrations import Registrations
from lhaw_record.recorder.reading.typed_rows import events_of_types, in_recorded_order
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.base.text.fields import listed


class SourcedVariant(msgspec.Struct, frozen=True):
    """A variant and the full prompt of its task. ``full_prompt`` is None if the source lacks it."""

    variant: Variant
    full_prompt: str | None


class StoredVariants:
    """The variants and selections in a store. A later one replaces an earlier one of the same name.

    Args:
        snapshot: A snapshot of the store.
        key: The key of the experiment file that names the store, for messages.
    """

    def __init__(self, snapshot: Snapshot, key: str) -> None:
        self._key = key
        self._registrations = Registrations.read(snapshot)
        selected = sorted(events_of_types(snapshot, (BenchmarkSelected,)), key=in_recorded_order)
        self._selections = {
            (each.event.benchmark, each.event.selection): each.event
            for each in selected
            if isinstance(each.event, BenchmarkSelected)
        }

    def of_experiment(self, name: str) -> list[SourcedVariant]:
        """Return the variants that an experiment registered, in the order of registration."""
        latest = {
            (each.event.variant.benchmark, each.event.variant.variant_id): each.event.variant_digest
            for each in self._registrations.of_experiment(name)
        }
        if not latest:
            there = listed(dict.fromkeys(each.experiment_id for each in self._registrations.of_experiment()))
            raise ExperimentError(
                f"key '{self._key}.experiment': no variants were registered under {name!r}; there are: {there}"
            )
        return [self._offered(digest, experiment_id=name) for digest in latest.values()]

    def of_selection(self, name: str, benchmark: str) -> list[SourcedVariant]:
        """Return the variants of a selection in the order in which they were chosen.

        Each has the ambiguity class that it was chosen for.
        """
        selection = self._selections.get((benchmark, name))
        if selection is None:
            there = listed(f"{selected} ({owner})" for owner, selected in self._selections)
            raise ExperimentError(
                f"key '{self._key}.selection': there is no selection {name!r} of {benchmark}; there are: {there}"
            )
        lost = [
            each.variant_id for each in selection.variants if not self._registrations.of_variant(each.variant_digest)
        ]
        if lost:
            raise ExperimentError(
                f"key '{self._key}.selection': variant {lost[0]!r} of {name!r} is not registered in the store; "
                "run the selection again"
            )
        return [
            msgspec.structs.replace(
                offered,
                variant=msgspec.structs.replace(
                    offered.variant, ambiguity_class=each.ambiguity_class, classified_by=selection.classifier
                ),
            )
            for each in selection.variants
            for offered in (self._offered(each.variant_digest),)
        ]

    def _offered(self, digest: str, experiment_id: str | None = None) -> SourcedVariant:
        """Return the variant with a digest, with the ambiguity class that was recorded last."""
        variants = [each.event.variant for each in self._registrations.of_variant(digest)]
        labelled = [variant for variant in variants if variant.ambiguity_class is not None]
        task = self._registrations.task_of(digest, experiment_id)
        return SourcedVariant((labelled or variants[:1])[-1], task.prompt if task else None)
