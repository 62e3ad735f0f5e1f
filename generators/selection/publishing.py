"""Writes a selection as files: the dataset in the published format, and its card, as dataset hubs expect it.

The card is Markdown with a YAML header, from the Jinja template ``data/selection/card.md``. It depends only on the
store, so the same selection always gives the same card.
"""

import hashlib
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, select_autoescape

from lhaw_record.analytics.exports import ExportDocument, dataset_rows
from lhaw_record.generators.errors import GeneratorError
from lhaw_record.generators.gate import UNJUDGED, unjudged_by
from lhaw_record.generators.selection.eligibility import REASONS
from lhaw_record.generators.sources.written import WRITTEN
from lhaw_record.recorder.cli.output import write_file
from lhaw_record.recorder.events import BenchmarkSelected, VariantGenerated
from lhaw_record.recorder.events.values import DIMENSIONS, Task
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.reading.registrations import Registration, Registrations
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.text.language import language_name, language_of

_HUB_LICENCES = frozenset(
    {"mit", "apache-2.0", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0"}
    | {"gpl-2.0", "gpl-3.0", "lgpl-3.0", "mpl-2.0", "odc-by", "unlicense"}
)
"""The licence names that dataset hubs know. The card calls any other licence ``other``."""
_WIDTH = 120
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))
_BLOCK = re.compile(r"^\S.*?(?=\n- |\n\n|\n?\Z)", re.MULTILINE | re.DOTALL)
"""A paragraph or a list item."""


class ChosenVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A selected variant: how it was made, its class, and its task if the store has that."""

    made: VariantGenerated
    ambiguity_class: str
    task: Task | None


def write_dataset(store: Path, event: BenchmarkSelected, out: Path) -> ExportDocument:
    """Write the dataset of a recorded selection. Return its rows and a list of what the format cannot express."""
    exported = _dataset(store, event)
    write_file(out, exported.to_bytes())
    return exported


def write_card(store: Path, event: BenchmarkSelected, out: Path, dataset: str) -> None:
    """Write the card of a recorded selection, whose dataset has this file name."""
    chosen = tuple(_chosen(event, Registrations.read(read_snapshot(store))))
    exported = _dataset(store, event)
    classes = [each.ambiguity_class for each in event.quotas]
    tasks = {each.made.variant.task_id: each.task.licence if each.task else None for each in chosen}
    licences = Counter(licence or "" for licence in tasks.values())
    text = _template().render(
        event=event,
        count=len(chosen),
        dataset=dataset,
        sha256=hashlib.sha256(exported.to_bytes()).hexdigest(),
        rows=exported.count,
        hub_licence=_hub_licence(licences),
        size=next((name for limit, name in _SIZES if len(chosen) < limit), "n>100K"),
        classes=classes,
        quotas=[
            (each.ambiguity_class, each.wanted, each.chosen, max(0, each.wanted - each.chosen)) for each in event.quotas
        ],
        groups={
            "dimension": _by_class(
                chosen, classes, lambda made: {each.dimension for each in made.variant.segments}, DIMENSIONS
            ),
            "severity": _by_class(chosen, classes, lambda made: {made.variant.severity or "unknown"}),
            "segments removed": _by_class(chosen, classes, lambda made: {str(len(made.variant.segments))}),
            "task": _by_class(chosen, classes, lambda made: {made.variant.task_id}),
        },
        makers=Counter(_maker(each.made) for each in chosen),
        languages=Counter(language_name(language_of(each.made.variant.prompt)) for each in chosen),
        unjudged=UNJUDGED,
        left=Counter(point for each in chosen for point in _points_left(each.made)),
        reasons=REASONS,
        licences=sorted(licences.items()),
    )
    write_file(out, text.encode())


def _dataset(store: Path, event: BenchmarkSelected) -> ExportDocument:
    return dataset_rows(store, selection=event.selection, benchmark=event.benchmark)


def _chosen(event: BenchmarkSelected, registrations: Registrations) -> Iterator[ChosenVariant]:
    for each in event.variants:
        made = _made(registrations.of_variant(each.variant_digest))
        if made is None:
            raise GeneratorError(
                f"selection {event.selection}: variant {each.variant_id!r} is not registered in this store; import the "
                "store that has it, or select anew"
            )
        task = registrations.task_of(each.variant_digest)
        yield ChosenVariant(made=made, ambiguity_class=each.ambiguity_class, task=task)


def _made(registrations: Sequence[Registration]) -> VariantGenerated | None:
    """Return the last registration with a judgement, or the first that names a rewriter, or else the last one.

    Runs register variants without naming a rewriter.
    """
    events = [each.event for each in registrations]
    judged = next((event for event in reversed(events) if event.judgement is not None), None)
    return judged or next((event for event in events if event.rewriter is not None), events[-1] if events else None)


def _maker(made: VariantGenerated) -> str:
    if made.variant.environment_change is not None:
        return "as the task has them; the benchmark changes the workspace"
    if made.rewriter is None:
        return made.variant.origin.replace("_", " ")
    if made.rewriter == WRITTEN:
        return "written by hand"
    return f"{made.rewriter} (digest {(made.rewriter_digest or 'unknown')[:12]})"


def _points_left(made: VariantGenerated) -> tuple[str, ...]:
    is_changed = bool(made.variant.segments) and made.variant.environment_change is None
    return unjudged_by(made.judgement, made.variant.severity, made.variant.prompt) if is_changed else ()


def _by_class(
    chosen: Iterable[ChosenVariant],
    classes: Sequence[str],
    groups_of: Callable[[VariantGenerated], set[Any]],
    order: Sequence[str] = (),
) -> list[tuple[object, ...]]:
    """Return a row for each group: its name, the number of its variants in each class, and in all."""
    counts = Counter((name, each.ambiguity_class) for each in chosen for name in groups_of(each.made))
    rows = []
    for group in sorted({name for name, _ in counts}, key=order.index if order else None):
        in_classes = [counts[group, name] for name in classes]
        rows.append((group, *in_classes, sum(in_classes)))
    return rows


def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(data_path()),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "code": lambda text: "`" + " ".join(text.replace("`", "'").split()) + "`",
        "counted": lambda count, noun: f"{count} {noun}" if count == 1 else f"{count} {noun}s",
        "plain": lambda text: re.sub(r"([\\`*_|<>\[\]#])", r"\\\1", " ".join(str(text).split())),
        "quoted": lambda text: json.dumps(text, ensure_ascii=False),  # valid in both YAML and TOML
        "shell": shlex.quote,
        "wrapped": lambda text: _BLOCK.sub(_filled, text),
    }
    return environment.get_template("selection/card.md")


def _filled(block: re.Match[str]) -> str:
    text = " ".join(block[0].split())
    indent = "  " if text.startswith("- ") else ""
    return fill(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _hub_licence(licences: Iterable[str]) -> str:
    names = sorted({licence.lower() or "unknown" for licence in licences} or {"unknown"})
    known = [name if name in _HUB_LICENCES | {"unknown"} else "other" for name in names]
    unique = list(dict.fromkeys(known))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
