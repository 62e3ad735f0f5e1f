"""SWE-Bench Pro: published instances as tasks, their images as containers, their tests as graders."""

from lhaw_record.runners.environments.benchmarks.swebench_pro.benchmark import SwebenchProBenchmark, open_swebench_pro
from lhaw_record.runners.environments.benchmarks.swebench_pro.instances import (
    BENCHMARK,
    Instance,
    instance_of,
    prompt_of,
    task_of,
)

__all__ = [
    "BENCHMARK",
    "Instance",
    "SwebenchProBenchmark",
    "instance_of",
    "open_swebench_pro",
    "prompt_of",
    "task_of",
]
