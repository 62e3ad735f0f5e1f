"""Harbor task folders: instruction and tests in a folder, a container as the environment, rewards as the grade."""

from lhaw_record.runners.environments.benchmarks.harbor.benchmark import HarborBenchmark, open_harbor
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import (
    BENCHMARK,
    HarborTask,
    read_task,
    task_folders,
    task_of,
)

__all__ = ["BENCHMARK", "HarborBenchmark", "HarborTask", "open_harbor", "read_task", "task_folders", "task_of"]
