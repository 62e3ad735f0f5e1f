"""Writes a selection as files: the dataset in the published format, its card and the card's figure."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lhaw_record.analytics.exports import ExportDocument, dataset_rows
from lhaw_record.generators.selection.card import CardFiles, card
from lhaw_record.generators.selection.provenance import ChosenVariant, provenance
from lhaw_record.generators.selection.quotas import CLASSES
from lhaw_record.recorder.events import BenchmarkSelected
from lhaw_record.recorder.transfer.export import export_file

FIGURE_FORMATS = ("png", "svg")


def write_dataset(store: Path, event: BenchmarkSelected, out: Path) -> ExportDocument:
    """Write the dataset of a recorded selection. Return its rows and a list of what the format cannot express."""
    exported = _dataset(store, event)
    with export_file(out) as file:
        file.write(exported.to_bytes())
    return exported


def write_card(store: Path, event: BenchmarkSelected, out: Path, dataset: str) -> list[Path]:
    """Write the card of a recorded selection and its figure, and return their paths, the card first."""
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


def _dataset(store: Path, event: BenchmarkSelected) -> ExportDocument:
    return dataset_rows(store, selection=event.selection, benchmark=event.benchmark)


def _figure(event: BenchmarkSelected, chosen: Sequence[ChosenVariant], form: str) -> bytes:
    """Draw the distribution of the selected variants and return the image file in the given format."""
    from lhaw_record.analytics.figures import to_bytes
    from lhaw_record.analytics.figures.drawing import FigureSpec, styled
    from lhaw_record.analytics.figures.variants import benchmark_distribution

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
    """Yield rows like those of the table variant_breakdown, for the selected variants only."""
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
