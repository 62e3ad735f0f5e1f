"""Benchmarks: where tasks, their environments and their graders come from."""

from pathlib import Path
from typing import Any

from runners.benchmarks.protocol import Benchmark
from runners.errors import ExperimentError
from runners.experiment import GraderSpec

BENCHMARKS = ("desk", "mcp_atlas")


def open_benchmark(name: str, options: dict[str, Any], base: Path, grader: GraderSpec) -> Benchmark:
    """Return a benchmark by its name.

    Args:
        name: One of ``BENCHMARKS``.
        options: The benchmark's own keys of the ``[benchmark]`` table.
        base: The folder that relative paths in them start from.
        grader: The ``[grader]`` table, for benchmarks that leave the choice.

    Raises:
        ExperimentError: There is no such benchmark, or an option does not fit.
    """
    if name == "desk":
        from runners.benchmarks.desk import DeskBenchmark

        if options:
            raise ExperimentError(f"unknown key 'benchmark.{next(iter(options))}'; desk has no options of its own")
        return DeskBenchmark()
    if name == "mcp_atlas":
        from runners.benchmarks.mcp_atlas import open_mcp_atlas

        return open_mcp_atlas(options, base, grader)
    raise ExperimentError(f"key 'benchmark.name': unknown benchmark {name!r}; known: {', '.join(BENCHMARKS)}")
