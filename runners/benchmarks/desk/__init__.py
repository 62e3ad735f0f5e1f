"""desk: office-work tasks of our own, with real files, hand-written variants and deterministic graders."""

from runners.benchmarks.desk.benchmark import DeskBenchmark

__all__ = ["DeskBenchmark"]
