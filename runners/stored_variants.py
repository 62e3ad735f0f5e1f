"""The variants that a store has of a selection, or that an experiment registered there, each with its full prompt."""

from collections.abc import Iterable

import msgspec

from recorder.events import BenchmarkSelected, TaskRegistered, VariantGenerated
from recorder.reader import Snapshot
from recorder.typed_rows import events_of_types, in_recorded_order
from recorder.values import Task, Variant
from runners.errors import ExperimentError

_SHOWN = 12


class Offered(msgspec.Struct, frozen=True):
    """A variant, and the full prompt of the task that it was made from; None where its source does not have it."""

    variant: Variant
    full_prompt: str | None


class StoredVariants:
    """What a store has of tasks, variants and selections; later ones stand in place of earlier ones of the same name.

    Args:
        snapshot: A look at the store.
        key: The key of the experiment file that asks, for messages.
    """

    def __init__(self, snapshot: Snapshot, key: str) -> None:
        self._key = key
        self._variants: dict[str, Variant] = {}
        self._by_experiment: dict[str, dict[tuple[str, str], str]] = {}
        self._selections: dict[tuple[str, str], BenchmarkSelected] = {}
        self._made_from: dict[str, str] = {}
        self._prompts: dict[str, str] = {}
        tasks: dict[tuple[str, ...], Task] = {}
        types = (TaskRegistered, VariantGenerated, BenchmarkSelected)
        for envelope in sorted(events_of_types(snapshot, types), key=in_recorded_order):
            event = envelope.event
            if isinstance(event, TaskRegistered):
                task = event.task
                self._prompts[event.task_digest] = task.prompt
                tasks[task.benchmark, task.task_id] = task
                tasks[task.benchmark, task.task_id, envelope.experiment_id] = task
            elif isinstance(event, VariantGenerated):
                self._add(event, envelope.experiment_id, tasks)
            elif isinstance(event, BenchmarkSelected):
                self._selections[event.benchmark, event.selection] = event

    def _add(self, event: VariantGenerated, experiment_id: str, tasks: dict[tuple[str, ...], Task]) -> None:
        """Take a registration; its task is the one that it names, else the one that its experiment had then."""
        variant, digest = event.variant, event.variant_digest
        if variant.ambiguity_class is not None or digest not in self._variants:  # the last label counts
            self._variants[digest] = variant
        self._by_experiment.setdefault(experiment_id, {})[variant.benchmark, variant.variant_id] = digest
        key = variant.benchmark, variant.task_id
        task = tasks.get((*key, experiment_id)) or tasks.get(key)
        if event.task_digest is not None:
            self._made_from[digest] = event.task_digest
        elif task is not None:
            self._made_from.setdefault(digest, task.task_digest)

    def of_experiment(self, name: str) -> list[Offered]:
        """Return the variants that an experiment registered, in the order of their registration.

        Raises:
            ExperimentError: There are none.
        """
        if name not in self._by_experiment:
            there = listed(self._by_experiment)
            raise ExperimentError(
                f"key '{self._key}.experiment': no variants were registered under {name!r}; there are: {there}"
            )
        return [self._offered(digest) for digest in self._by_experiment[name].values()]

    def of_selection(self, name: str, benchmark: str) -> list[Offered]:
        """Return the variants of a selection with the class that they were chosen for, in the order of their choice.

        Raises:
            ExperimentError: There is no such selection, or the store does not have all of its variants.
        """
        selection = self._selections.get((benchmark, name))
        if selection is None:
            there = listed(f"{selected} ({owner})" for owner, selected in self._selections)
            raise ExperimentError(
                f"key '{self._key}.selection': there is no selection {name!r} of {benchmark}; there are: {there}"
            )
        lost = [each.variant_id for each in selection.variants if each.variant_digest not in self._variants]
        if lost:
            raise ExperimentError(
                f"key '{self._key}.selection': variant {lost[0]!r} of {name!r} is not registered in the store; "
                "select anew"
            )
        return [
            self._offered(each.variant_digest, each.ambiguity_class, selection.classifier)
            for each in selection.variants
        ]

    def _offered(self, digest: str, ambiguity_class: str | None = None, classified_by: str | None = None) -> Offered:
        variant = self._variants[digest]
        if ambiguity_class is not None:
            variant = msgspec.structs.replace(variant, ambiguity_class=ambiguity_class, classified_by=classified_by)
        return Offered(variant, self._prompts.get(self._made_from.get(digest, "")))


def listed(names: Iterable[str]) -> str:
    """Return some names as a message shows them: not too many."""
    found = list(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return (", ".join(found[:_SHOWN]) or "none") + more
