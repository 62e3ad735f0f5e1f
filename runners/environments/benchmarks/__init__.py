"""Benchmarks supply the tasks, the environments they run in, and the graders."""

from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from lhaw_record.recorder.processes import allow_pandas
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark
from lhaw_record.runners.experiment.tables import GraderSpec

_OURS = {
    "desk": "lhaw_record.runners.environments.benchmarks.desk.benchmark:open_desk",
    "mcp_atlas": "lhaw_record.runners.environments.benchmarks.mcp_atlas.benchmark:open_mcp_atlas",
    "tac": "lhaw_record.runners.environments.benchmarks.tac.benchmark:open_tac",
    "harbor": "lhaw_record.runners.environments.benchmarks.harbor.benchmark:open_harbor",
    "qa": "lhaw_record.runners.environments.benchmarks.qa:open_qa",
    "swebench_pro": "lhaw_record.runners.environments.benchmarks.swebench_pro.benchmark:open_swebench_pro",
}
BENCHMARKS = tuple(_OURS)
_WITH_GRADERS = ("mcp_atlas", "qa", "tac")
ENTRY_POINTS = "lhaw_record.benchmarks"
"""Installed packages register their own benchmarks in this entry point group. See docs/own-tasks.md."""


def known_benchmarks() -> tuple[str, ...]:
    """Return the benchmark names that an experiment file may use: the built-in ones and those of installed packages."""
    from importlib.metadata import entry_points

    return (*BENCHMARKS, *sorted({point.name for point in entry_points(group=ENTRY_POINTS)} - {*BENCHMARKS}))


def open_benchmark(name: str, options: dict[str, Any], base: Path, grader: GraderSpec) -> Benchmark:
    """Open a benchmark by name."""
    if name in _OURS:
        if grader.kind != "default" and name not in _WITH_GRADERS:
            raise ExperimentError(f"key 'grader.kind': {name} has its own grader; take {grader.kind!r} out")
        ours: Benchmark = resolve_name(_OURS[name])(options, base, grader)
        return ours
    return _installed(name, options, base, grader)


def _installed(name: str, options: dict[str, Any], base: Path, grader: GraderSpec) -> Benchmark:
    """Open a benchmark that an installed package provides."""
    from importlib.metadata import entry_points

    points = list(entry_points(group=ENTRY_POINTS, name=name))
    if not points:
        known = ", ".join(known_benchmarks())
        raise ExperimentError(
            f"key 'benchmark.name': unknown benchmark {name!r}; known: {known}; "
            "your own is found once its package is installed (docs/own-tasks.md)"
        )
    if len({point.value for point in points}) > 1:
        raise ExperimentError(f"key 'benchmark.name': several packages offer {name!r}: {', '.join(map(str, points))}")
    try:
        allow_pandas()  # a third-party package may need it
        opened: object = points[0].load()(options, base, grader)
    except ExperimentError:
        raise
    except Exception as error:
        raise ExperimentError(
            f"key 'benchmark.name': {name} ({points[0].value}) cannot be opened: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(opened, Benchmark):
        raise ExperimentError(
            f"key 'benchmark.name': {points[0].value} opens a {type(opened).__name__}, which does not inherit from "
            "Benchmark (docs/own-tasks.md)"
        )
    if opened.name != name:
        raise ExperimentError(f"key 'benchmark.name': {points[0].value} opens {opened.name!r} under the name {name!r}")
    return opened
