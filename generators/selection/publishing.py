"""A selection as files: the dataset in the published format, and beside its card the figure of what it consists of."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from analytics.exports import Exported, dataset_rows
from generators.selection.card import CardFiles, card
from generators.selection.choosing import CLASSES
from generators.selection.provenance import ChosenVariant, provenance
from recorder.events import BenchmarkSelected
from recorder.transfer.export import export_file

FIGURE_FORMATS = ("png", "svg")


def write_dataset(store: Path, event: BenchmarkSelected, out: Path) -> Exported:
    """Write the rows of a recorded selection and return them, with what the format could not hold.

    Raises:
        StoreError: There is no store.
        UnknownName: The selection is not recorded in it.
        OSError: The file cannot be written.
    """
    exported = _dataset(store, event)
    with export_file(out) as file:
        file.write(exported.to_bytes())
    return exported


def write_card(store: Path, event: BenchmarkSelected, out: Path, dataset: str) -> list[Path]:
    """Write the card of a recorded selection and its figure, and return their paths, the card first.

    Args:
        store: The store that it was selected from.
        event: The selection.
        out: The card; the figure's name begins like its.
        dataset: What the dataset file beside the card is called.

    Raises:
        StoreError: There is no store.
        UnknownName: The selection is not recorded in it.
        GeneratorError: A selected variant is not registered in it.
        OSError: A file cannot be written.
    """
    found = provenance(store, event)
    figures = {form: out.with_name(f"{out.stem}-distribution.{form}") for form in FIGURE_FORMATS}
    exported = _dataset(store, event)
    files = CardFiles(
        dataset=dataset,
        dataset_sha256=hashlib.sha256(exported.to_bytes()).hexdigest(),
        rows=exported.count,
        figures={form: path.name for form, path in figures.items()},
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    for form, path in figures.items():
        path.write_bytes(_figure(event, found.chosen, form))
    out.write_text(card(found, files), encoding="utf-8")
    return [out, *figures.values()]


def _dataset(store: Path, event: BenchmarkSelected) -> Exported:
    return dataset_rows(store, selection=event.selection, benchmark=event.benchmark)


def _figure(event: BenchmarkSelected, chosen: Sequence[ChosenVariant], form: str) -> bytes:
    """The distribution of the chosen variants as a picture."""
    from analytics.figures import to_bytes
    from analytics.figures.distribution import benchmark_distribution
    from analytics.figures.drawing import FigureSpec
    from analytics.figures.style import styled

    spec = FigureSpec(
        name="benchmark_distribution",
        title=f"The selection {event.selection}",
        source="LHAW figure 3",
        reads=(),
        draw=benchmark_distribution,
    )
    with styled():
        figure = benchmark_distribution(spec, {"variant_breakdown": list(_breakdown(event.benchmark, chosen))})
    return to_bytes(figure, form)


def _breakdown(benchmark: str, chosen: Sequence[ChosenVariant]) -> Iterable[dict[str, Any]]:
    """The rows of the table variant_breakdown that the figure draws, of the chosen variants alone."""
    dimensions = Counter(name for each in chosen for name in {part.dimension for part in each.variant.segments})
    classes = Counter(each.ambiguity_class for each in chosen)
    counts = [
        ("variants", "all", "all", len(chosen)),
        ("tasks", "all", "all", len({each.variant.task_id for each in chosen})),
        *(("variants", "all", name, classes[name]) for name in CLASSES),
        *(("variants_in_dimension", name, "all", count) for name, count in sorted(dimensions.items())),
    ]
    for measure, dimension, ambiguity_class, count in counts:
        yield {
            "benchmark": benchmark,
            "variant_set": "selected",
            "dimensions": dimension,
            "ambiguity_class": ambiguity_class,
            "measure": measure,
            "value": count,
        }
