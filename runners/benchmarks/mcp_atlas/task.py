"""A published row as a task: a claim for each checkpoint."""

from recorder.values import Checkpoint, Task
from runners.benchmarks.mcp_atlas.rows import Row

BENCHMARK = "mcp_atlas"
VERSION = "1"
LICENCE = "CC-BY-4.0"


def task_of(row: Row, environment_digest: str) -> Task:
    """Return the task; the digest is empty where the environment is not known."""
    return Task(
        benchmark=BENCHMARK,
        benchmark_version=VERSION,
        task_id=row.task_id,
        prompt=row.prompt,
        checkpoints=tuple(
            Checkpoint(checkpoint_id=f"c{number}", label=claim) for number, claim in enumerate(row.claims, start=1)
        ),
        environment_digest=environment_digest,
        licence=LICENCE,
    )
