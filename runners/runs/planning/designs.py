"""Designs: how many variants of which kind a published experiment has.

A paper prints counts by dimension and class, but not always the variants themselves. If the variants are available, the
design chooses among them, and the same seed gives the same choice. Otherwise, a plan can still be made from the counts.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Checkpoint, Segment, Severity, Task, Variant
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark, EnvironmentSettings
from lhaw_record.runners.experiment.decoding import converted

_KEY = "benchmark.design"
_PAGE = "docs/papers.md"


class DesignCell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of variants in a design, and how many of them are wanted.

    ``classes`` counts them by ambiguity class, and ``variants`` counts those of any class. ``dimensions`` lists the
    sets of dimensions that belong to this kind. An empty list means all.
    """

    benchmark: str
    dimensions: tuple[tuple[str, ...], ...] = ()
    severity: Severity | None = None
    classes: dict[str, int] = {}
    variants: int = 0

    def wanted(self) -> dict[str | None, int]:
        """Return the number of variants by ambiguity class. The key None means any class."""
        wanted = dict[str | None, int](self.classes.items())
        return {**wanted, None: self.variants} if self.variants else wanted

    def fits(self, variant: Variant, ambiguity_class: str | None) -> bool:
        """Return whether a variant is of this kind and has the given class. None means any class.

        Controls and faulty requests, which run under conditions of their own, are of no kind.
        """
        own = {segment.dimension for segment in variant.segments}
        is_kind = not self.dimensions or any(own == set(each) for each in self.dimensions)
        is_severity = self.severity in (None, variant.severity)
        is_short = variant.prompt_state == "underspecified"
        return is_short and is_kind and is_severity and ambiguity_class in (None, variant.ambiguity_class)

    def __str__(self) -> str:
        kinds = " or ".join("+".join(each) for each in self.dimensions)
        return ", ".join(part for part in (self.benchmark, self.severity, kinds) if part)


class VariantDesign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A design file: its source, how many base tasks of each benchmark its variants may have, and its cells."""

    source: str
    tasks: dict[str, int]
    cells: tuple[DesignCell, ...]


def load_design(name: str, base: Path, benchmark: str) -> VariantDesign:
    """Load the part of a design that concerns one benchmark."""
    bundled = {path.stem: path for path in data_path("designs").glob("*.toml")}
    path = bundled.get(name, base / name)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        there = ", ".join(sorted(bundled))
        raise ExperimentError(
            f"key '{_KEY}': there is no design {name!r}; the bundled ones are {there}; name another one by its path"
        ) from None
    except (OSError, ValueError) as error:
        raise ExperimentError(f"key '{_KEY}': {path} is not a design: {error}; see {_PAGE}") from error
    design = converted(raw, VariantDesign, path, _PAGE)
    cells = tuple(cell for cell in design.cells if cell.benchmark == benchmark)
    if not cells or design.tasks.get(benchmark, 0) < 1:
        has = ", ".join(sorted({cell.benchmark for cell in design.cells})) or "nothing"
        raise ExperimentError(f"key '{_KEY}': {path} has no cells and tasks of {benchmark!r}; it has {has}")
    return msgspec.structs.replace(design, cells=cells)


def chosen(design: VariantDesign, offered: Sequence[Variant], seed: int) -> list[Variant]:
    """Choose the variants that a design asks for, by seed and spread over the design's number of tasks."""
    order = sorted(offered, key=lambda variant: digest([seed, variant.task_id, variant.variant_id]))
    taken: dict[str, Variant] = {}
    for cell in design.cells:
        for ambiguity_class, count in cell.wanted().items():
            fitting = [each for each in order if cell.fits(each, ambiguity_class)]
            for found in range(count):
                picked = _next(fitting, taken, design.tasks[cell.benchmark])
                if picked is None:
                    raise ExperimentError(
                        f"key '{_KEY}': the cell ({cell}, {ambiguity_class or 'any class'}) of {design.source} needs "
                        f"{count} variants and gets {found} from {len(fitting)} that fit it; offer more variants, or "
                        "take a smaller design"
                    )
                taken[picked.variant_id] = picked
    return [variant for variant in offered if variant.variant_id in taken]


def _next(fitting: Sequence[Variant], taken: Mapping[str, Variant], max_tasks: int) -> Variant | None:
    """Return a free variant of the task with the fewest variants so far, or None if there is none.

    Once ``max_tasks`` tasks are used, no further task is used.
    """
    used = Counter(variant.task_id for variant in taken.values())
    is_full = len(used) >= max_tasks
    free = [each for each in fitting if each.variant_id not in taken and not (is_full and each.task_id not in used)]
    return min(free, key=lambda variant: used[variant.task_id], default=None)  # min keeps the order among equals


class DesignedBenchmark(Benchmark):
    """A placeholder for a benchmark whose variants are not available: numbered tasks and variants, only for planning.

    Args:
        name: The benchmark's name.
        design: The part of a design that concerns the benchmark.
        missing: Why nothing can run, and the command that provides the variants.
    """

    grader = "none"
    ends_on_text = False
    has_own_images = True  # or has none at all: nothing is ever opened

    def __init__(self, name: str, design: VariantDesign, missing: str) -> None:
        self.name = name
        self.version = f"design:{digest(design)[:12]}"
        self.missing = missing
        self.source = design.source
        self._design = design
        self._tasks = [self._task(number) for number in range(1, design.tasks[name] + 1)]

    def tasks(self) -> Sequence[Task]:
        return self._tasks

    def variants(self) -> Sequence[Variant]:
        """Return numbered variants for every cell, assigned to the tasks in turn."""
        kinds = [(cell, kind) for cell in self._design.cells for kind, n in cell.wanted().items() for _ in range(n)]
        return [self._variant(number, *kind) for number, kind in enumerate(kinds)]

    def system_prompt(self) -> str:
        return ""

    def open(self, task: Task, settings: EnvironmentSettings, variant: Variant | None = None) -> NoReturn:
        del task, settings, variant
        raise ExperimentError(self.missing)

    def _task(self, number: int) -> Task:
        return Task(
            benchmark=self.name,
            benchmark_version=self.version,
            task_id=f"task-{number}",
            prompt=f"task {number} of {self._design.source}",
            checkpoints=(Checkpoint(checkpoint_id="c1", label="as published"),),
            environment_digest="",
        )

    def _variant(self, number: int, cell: DesignCell, ambiguity_class: str | None) -> Variant:
        task = self._tasks[number % len(self._tasks)]
        return Variant(
            benchmark=self.name,
            task_id=task.task_id,
            variant_id=f"variant-{number + 1}",
            prompt=f"variant {number + 1} of {self._design.source}",
            segments=tuple(
                Segment(segment_id=f"S{at}", value=dimension, dimension=dimension, subdimension="")
                for at, dimension in enumerate(cell.dimensions[0] if cell.dimensions else (), start=1)
            ),
            origin="imported",
            severity=cell.severity,
            ambiguity_class=ambiguity_class,
        )
