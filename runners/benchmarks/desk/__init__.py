"""desk: office-work tasks of our own, with real files, hand-written variants and deterministic graders."""

from pathlib import Path
from typing import Any

from runners.benchmarks.desk.benchmark import DeskBenchmark
from runners.errors import ExperimentError
from runners.experiment import GraderSpec

__all__ = ["DeskBenchmark", "open_desk"]


def open_desk(options: dict[str, Any], base: Path, grader: GraderSpec) -> DeskBenchmark:
    """Return the benchmark; nothing about it can be chosen.

    Raises:
        ExperimentError: It is given an option.
    """
    del base, grader
    if options:
        raise ExperimentError(f"unknown key 'benchmark.{next(iter(options))}'; desk has no options of its own")
    return DeskBenchmark()
