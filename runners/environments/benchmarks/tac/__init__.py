"""TheAgentCompany: published task folders as tasks, and their images as environments with their own graders."""

from lhaw_record.runners.environments.benchmarks.tac.benchmark import TacBenchmark, open_tac
from lhaw_record.runners.environments.benchmarks.tac.checkpoints import Checkpoints, read_checkpoints
from lhaw_record.runners.environments.benchmarks.tac.folders import PublishedTask, is_task_folder, read_task
from lhaw_record.runners.environments.benchmarks.tac.task import BENCHMARK, published_points, task_of

__all__ = [
    "BENCHMARK",
    "Checkpoints",
    "PublishedTask",
    "TacBenchmark",
    "is_task_folder",
    "open_tac",
    "published_points",
    "read_checkpoints",
    "read_task",
    "task_of",
]
