"""Selects a benchmark from a store: finds eligible variants, chooses by quotas and records the choice in one event."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec

from lhaw_record.analytics.exports.dataset_rows import UNCLASSIFIED
from lhaw_record.generators.errors import GeneratorError
from lhaw_record.generators.selection.eligibility import EligibleVariants, eligible_variants
from lhaw_record.generators.selection.quotas import CLASSES, MAX_VARIANTS, PERCENTS, Candidate, choose, quotas
from lhaw_record.recorder.events import BenchmarkSelected, Excluded, Quota, SelectedVariant
from lhaw_record.recorder.reading.reader import Snapshot, read_snapshot
from lhaw_record.recorder.reading.typed_rows import events_of_types, in_recorded_order
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store, check_experiment_id
from lhaw_record.runners.runs.run_record import WorkCounts, held, recorded_run


class SelectionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to select.

    Attributes:
        name: The name of the selection.
        benchmark: The benchmark of the variants.
        percents: The share of each class, in percent; None for the usual ones, or none where there are no classes.
        max_variants: The most variants to select.
        seed: Breaks ties.
        classifier: The classifying agent; None if there is only one.
        classifier_experiment: Count only the classifier's trials in this experiment; None for all its trials.
        experiment: Consider only variants registered in this experiment; None for all variants.
        reviewers: How many reviewers must have accepted a variant, with none against it.
    """

    name: str
    benchmark: str
    percents: Mapping[str, int] | None = None
    max_variants: int = MAX_VARIANTS
    seed: int = 0
    classifier: str | None = None
    classifier_experiment: str | None = None
    experiment: str | None = None
    reviewers: int = 0


class BenchmarkSelection(msgspec.Struct, frozen=True, kw_only=True):
    """A selection and the variants it was made from.

    ``is_known`` tells whether the store already records the same selection.
    """

    event: BenchmarkSelected
    offered: EligibleVariants
    chosen: tuple[Candidate, ...]
    is_known: bool = False

    @property
    def unjudged(self) -> int:
        """The number of selected variants that may be new tasks and were not judged."""
        return sum(each.variant_id in self.offered.unjudged for each in self.chosen)

    @property
    def shortfalls(self) -> dict[str, int]:
        """How many variants each class lacks to fill its quota. Classes with a filled quota are left out."""
        return {
            each.ambiguity_class: each.wanted - each.chosen for each in self.event.quotas if each.wanted > each.chosen
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per class, with the counts of wanted, available, chosen and missing variants."""
        available = Counter(each.ambiguity_class for each in self.offered.candidates)
        return [
            {
                "ambiguity_class": each.ambiguity_class,
                "wanted": each.wanted,
                "available": available[each.ambiguity_class],
                "chosen": each.chosen,
                "shortfall": each.wanted - each.chosen,
            }
            for each in self.event.quotas
        ]


async def select_benchmark(
    store: Path, request: SelectionRequest, *, experiment_id: str | None = None, is_recorded: bool = True
) -> BenchmarkSelection:
    """Select variants. The selection is recorded, unless ``is_recorded`` is false or the store already has the same.

    In one state of a store, a request always selects the same variants.
    """
    experiment_id = experiment_id or request.name
    for name in (request.name, experiment_id):
        check_experiment_id(name)
    _check(request)
    Store(store)  # a mistyped name must not create a store
    if not is_recorded:
        return await anyio.to_thread.run_sync(_selection, store, request)
    opened = create_store(store)
    with held(opened, (experiment_id,)):
        selection = await anyio.to_thread.run_sync(_selection, store, request)
        if not selection.chosen:
            raise GeneratorError(f"{opened.name} has no variant that can be chosen{_why(selection.offered)}")
        if not selection.is_known:
            config = msgspec.to_builtins(request)
            counts = WorkCounts(1)
            async with recorded_run(opened, experiment_id, "select", config, counts) as stream:
                await stream.append(selection.event)
                counts.done, counts.outcome = 1, "completed"
    return selection


def _selection(store: Path, request: SelectionRequest) -> BenchmarkSelection:
    offered = eligible_variants(
        store,
        request.benchmark,
        classifier=request.classifier,
        classifier_experiment=request.classifier_experiment,
        experiment=request.experiment,
        reviewers=request.reviewers,
    )
    wanted = _wanted(request, offered)
    chosen = choose(offered.candidates, wanted, request.seed)
    counts = Counter(each.ambiguity_class for each in chosen)
    event = BenchmarkSelected(
        selection=request.name,
        benchmark=request.benchmark,
        seed=request.seed,
        max_variants=request.max_variants,
        classifier=offered.classifier,
        quotas=tuple(Quota(ambiguity_class=name, wanted=wanted[name], chosen=counts[name]) for name in wanted),
        variants=tuple(
            SelectedVariant(
                variant_id=each.variant_id, variant_digest=each.variant_digest, ambiguity_class=each.ambiguity_class
            )
            for each in chosen
        ),
        excluded=tuple(Excluded(reason=name, count=count) for name, count in offered.excluded.items()),
    )
    known = latest_selections(read_snapshot(store)).get((request.benchmark, request.name))
    return BenchmarkSelection(event=event, offered=offered, chosen=chosen, is_known=known == event)


def latest_selections(snapshot: Snapshot) -> dict[tuple[str, str], BenchmarkSelected]:
    """Return the latest selections in a store, by benchmark and selection name."""
    found: dict[tuple[str, str], BenchmarkSelected] = {}
    for envelope in sorted(events_of_types(snapshot, (BenchmarkSelected,)), key=in_recorded_order):
        assert isinstance(envelope.event, BenchmarkSelected)
        found[envelope.event.benchmark, envelope.event.selection] = envelope.event
    return found


def _wanted(request: SelectionRequest, offered: EligibleVariants) -> dict[str, int]:
    """Return how many variants of each class are wanted. Without classes there is nothing to have a share of."""
    if offered.is_classified or not request.reviewers:
        return quotas(request.max_variants, request.percents or PERCENTS)
    if request.percents is not None:
        raise GeneratorError(
            f"no variant of {request.benchmark} has a class yet, so no quota can be kept; leave --quota out, or run a "
            "classifier first"
        )
    return {UNCLASSIFIED: min(request.max_variants, len(offered.candidates))}


def _check(request: SelectionRequest) -> None:
    percents = PERCENTS if request.percents is None else request.percents
    unknown = [name for name in percents if name not in CLASSES]
    if unknown:
        raise GeneratorError(f"the quotas name {unknown[0]!r}; the classes are {', '.join(CLASSES)}")
    if sum(percents.values()) != 100 or min(percents.values()) < 0:
        shares = ", ".join(f"{name} {share}" for name, share in percents.items())
        raise GeneratorError(f"the quotas ({shares}) do not add up to 100 percent")
    if request.max_variants < 1:
        raise GeneratorError(f"{request.max_variants} variants cannot be selected; select at least 1")


def _why(offered: EligibleVariants) -> str:
    excluded = [f"{count} {name}" for name, count in offered.excluded.items()]
    return f": {', '.join(excluded)}" if excluded else "; select more, or raise the quota of another class"
