"""Loads variants from a dataset file or a store, and checks that they fit the benchmark's tasks.

A variant belongs to one version of its task. If the benchmark's task has another full prompt, the information removed
in the variant is not what the agent would lack, so the variant is refused.
"""

import argparse
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.events import BenchmarkSelected
from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.recorder.reading.reader import Snapshot, read_snapshot
from lhaw_record.recorder.reading.registrations import Registrations
from lhaw_record.recorder.reading.typed_rows import events_of_types, in_recorded_order
from lhaw_record.recorder.sharing.address import open_address, store_address
from lhaw_record.recorder.storage.store import has_store
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.base.text.fields import listed
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark
from lhaw_record.runners.experiment.tables import BenchmarkSpec, StoreSpec

_KEY = "benchmark.variants_from"
_EXCERPT = 40
_IMPORTED = "imported-lhaw-dataset"
"""The name of the experiment that importing the released dataset creates."""


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


def load_variants(spec: BenchmarkSpec, benchmark: Benchmark, base: Path) -> Sequence[Variant]:
    """Return the variants that an experiment chooses from: the benchmark's own, unless the file names a source."""
    if spec.variants_from is None:
        return benchmark.variants()
    if isinstance(spec.variants_from, str):
        source = spec.variants_from
        offered = _of_file(base / spec.variants_from)
    else:
        source = f"store {spec.variants_from.store}"
        offered = _of_store(spec.variants_from, benchmark.name, base)
    own = [each for each in offered if each.variant.benchmark == benchmark.name]
    if not own:
        counts = Counter(each.variant.benchmark for each in offered)
        there = ", ".join(f"{count} of {name}" for name, count in counts.items()) or "none at all"
        raise ExperimentError(f"key '{_KEY}': {source} has no variants of {benchmark.name}; it has {there}")
    _check_tasks([each for each in own if is_wanted(each.variant, spec)], benchmark, source)
    return [each.variant for each in own]


def not_here(spec: BenchmarkSpec, base: Path) -> str | None:
    """Explain why the variants are not available yet, with the command that provides them.

    Return None if the named file or store exists, or if the benchmark's own variants are used.
    """
    origin = spec.variants_from
    if origin is None:
        return None
    location = base / origin if isinstance(origin, str) else _root(origin.store, base)
    if location.is_file() if isinstance(origin, str) else has_store(location):
        return None
    shown = os.path.relpath(location)
    remedy = "get the dataset and put it there" if isinstance(origin, str) else _filling(origin, spec.name, shown)
    return f"key '{_KEY}': there is nothing at {shown} yet, so only the plan can be shown; {remedy}"


def _filling(origin: StoreSpec, benchmark: str, location: str) -> str:
    """Return the command that brings the variants into a store: an import, a selection or a generation."""
    store = f"--store {shlex.quote(location)}"
    if origin.experiment == _IMPORTED:
        return f"get the dataset, then run: lhaw-record import lhaw-dataset FILE {store}"
    if origin.experiment is None:
        chosen = f"--benchmark {benchmark} --name {shlex.quote(str(origin.selection))} {store}"
        return f"generate and classify variants in it, then run: lhaw-record select {chosen}"
    return f"make them: lhaw-record generate {benchmark} --from PATH --name {shlex.quote(origin.experiment)} {store}"


def is_wanted(variant: Variant, spec: BenchmarkSpec) -> bool:
    """Return whether the keys ``tasks`` and ``variants`` include a variant."""
    by_task = spec.tasks is None or variant.task_id in spec.tasks
    return by_task and (spec.variants is None or variant.variant_id in spec.variants)


def has_its_classes(root: Path, spec: BenchmarkSpec, base: Path) -> bool:
    """Return whether an experiment takes its variants from a selection in the store that it runs in.

    That store then already has the ambiguity classes of the variants.
    """
    origin = spec.variants_from
    if not isinstance(origin, StoreSpec) or origin.selection is None:
        return False
    return _root(origin.store, base).resolve() == root.resolve()


def _of_file(path: Path) -> list[SourcedVariant]:
    from lhaw_record.runners.imports.foreign_trial import ImportFailed, KnownRecords, Options
    from lhaw_record.runners.imports.formats.lhaw_dataset import parse
    from lhaw_record.runners.imports.source_files import read_sources

    if not path.is_file():
        is_store = path.is_dir()
        remedy = (
            f'for a store, also say what to use: {{ store = "{path}", experiment = "..." }} or selection = "..."'
            if is_store
            else "name one that 'lhaw-record select --output' wrote"
        )
        raise ExperimentError(f"key '{_KEY}': there is no file {path}; {remedy}")
    try:
        (source,) = read_sources(path, ())
        found = parse(source, Options(), KnownRecords())
    except ImportFailed as error:
        raise ExperimentError(f"key '{_KEY}': {error}") from error
    offered = []
    prompt: str | None = None
    for each in found.registered:
        if isinstance(each, Task):
            prompt = each.prompt
        else:
            offered.append(SourcedVariant(each, prompt))
    return offered


def _of_store(spec: StoreSpec, benchmark: str, base: Path) -> list[SourcedVariant]:
    try:
        stored = StoredVariants(read_snapshot(_root(spec.store, base)), _KEY)
    except StoreError as error:
        raise ExperimentError(f"key '{_KEY}.store': {error}") from error
    if spec.experiment is not None:
        return stored.of_experiment(spec.experiment)
    return stored.of_selection(str(spec.selection), benchmark)


def _root(text: str, base: Path) -> Path:
    try:
        address = store_address(text)
    except argparse.ArgumentTypeError as error:
        raise ExperimentError(f"key '{_KEY}.store': {error}") from error
    return base / address if isinstance(address, Path) else open_address(address)


def _check_tasks(offered: Iterable[SourcedVariant], benchmark: Benchmark, source: str) -> None:
    """Refuse variants whose task the benchmark lacks, or has with another full prompt."""
    tasks = {task.task_id: task for task in benchmark.tasks()}
    for each in offered:
        variant = each.variant
        task = tasks.get(variant.task_id)
        if task is None:
            reason = benchmark.why_not(variant.task_id) or f"its tasks are: {listed(tasks)}"
            raise ExperimentError(
                f"key '{_KEY}': variant {variant.variant_id!r} of {source} is of task {variant.task_id!r}, which "
                f"{benchmark.name} does not have here ({reason}); choose with 'tasks' or 'variants'"
            )
        if each.full_prompt != task.prompt:
            raise ExperimentError(
                f"key '{_KEY}': task {variant.task_id!r} of {benchmark.name} {benchmark.version} has another prompt "
                f"than in {source}, so variant {variant.variant_id!r} belongs to another version of the task "
                f"({_difference(task.prompt, each.full_prompt)}); make new variants, or leave the task out by 'tasks'"
            )


def _difference(ours: str, theirs: str | None) -> str:
    if theirs is None:
        return "that one's task is not registered"
    same = next((position for position, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
    start = min(len(ours), len(theirs)) if same is None else same
    here, there = (text[start : start + _EXCERPT] or "the end" for text in (ours, theirs))
    return f"from character {start + 1}: here {here!r}, there {there!r}"
