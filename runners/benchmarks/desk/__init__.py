"""desk: office-work tasks of our own, with real files, hand-written variants and deterministic graders."""

from runners.benchmarks.desk.benchmark import DeskBenchmark, open_desk

__all__ = ["DeskBenchmark", "open_desk"]
