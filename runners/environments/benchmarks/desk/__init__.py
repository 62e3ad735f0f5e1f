"""The desk benchmark: office tasks written for this project, with real files, variants and deterministic graders."""

from lhaw_record.runners.environments.benchmarks.desk.benchmark import DeskBenchmark, open_desk

__all__ = ["DeskBenchmark", "open_desk"]
