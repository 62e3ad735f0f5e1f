"""An instance as a task: the prompt as the benchmark composes it, one checkpoint for each fail-to-pass test."""

from recorder.canonical import digest
from recorder.values import Checkpoint, Task
from runners.benchmarks.swebench_pro.instances import BENCHMARK, Instance

VERSION = "1"


def prompt_of(instance: Instance) -> str:
    """Return what the benchmark's own scaffold shows an agent: three parts under its two headings, also empty ones."""
    return (
        f"{instance.problem_statement}\n\n"
        f"Requirements:\n{instance.requirements}\n\n"
        f"New interfaces introduced:\n{instance.interface}"
    )


def task_of(instance: Instance) -> Task:
    """Return the task; its terminal state is its fail-to-pass tests in the order of their names (docs/metrics.md 1).

    Success needs the pass-to-pass tests as well. They are no checkpoints, so the environment's digest covers them:
    with another list of them it is another task.
    """
    return Task(
        benchmark=BENCHMARK,
        benchmark_version=VERSION,
        task_id=instance.instance_id,
        prompt=prompt_of(instance),
        checkpoints=tuple(
            Checkpoint(checkpoint_id=f"c{number}", label=name)
            for number, name in enumerate(sorted(instance.fail_to_pass), start=1)
        ),
        environment_digest=digest(
            {
                "repo": instance.repo,
                "base_commit": instance.base_commit,
                "image": instance.image,
                "pass_to_pass": sorted(instance.pass_to_pass),
            }
        ),
        domain=instance.repo,
    )
