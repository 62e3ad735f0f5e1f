"""A benchmark for lhaw-record."""

from pathlib import Path
from typing import Any

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.tables import GraderSpec
from my_benchmark.benchmark import MyBenchmark


def open_benchmark(options: dict[str, Any], base: Path, grader: GraderSpec) -> MyBenchmark:
    """Return the benchmark.

    Args:
        options: The keys of the ``[benchmark]`` table that are the benchmark's own.
        base: The folder of the experiment file: relative paths in the options start there.
        grader: The ``[grader]`` table, for a benchmark that can be graded in several ways.

    Raises:
        ExperimentError: An option does not fit; the message names it.
    """
    del base, grader
    if options:
        raise ExperimentError(f"unknown key 'benchmark.{next(iter(options))}'; my_benchmark has no options")
    return MyBenchmark()
