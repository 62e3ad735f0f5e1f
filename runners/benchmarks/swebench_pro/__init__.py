"""SWE-Bench Pro: published instances as tasks. Their trials need the instances' images and are not here."""

from runners.benchmarks.swebench_pro.instances import BENCHMARK, Instance, instance_of
from runners.benchmarks.swebench_pro.task import prompt_of, task_of

__all__ = ["BENCHMARK", "Instance", "instance_of", "prompt_of", "task_of"]
