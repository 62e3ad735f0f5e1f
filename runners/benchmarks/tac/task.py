"""A published task folder as a task: checkpoints with the points that its text gives them."""

import csv
import hashlib
from functools import cache

import msgspec

from recorder.canonical import digest
from recorder.resources import data_path
from recorder.values import Checkpoint, Task
from runners.benchmarks.tac.folders import PublishedTask

BENCHMARK = "tac"
VERSION = "1"
LICENCE = "MIT"
GRADER = "tac/evaluator"
_DOMAINS = {
    "admin": "Admin",
    "bm": "Business",
    "ds": "Data Science",
    "finance": "Finance",
    "hr": "HR",
    "ml": "ML",
    "pm": "PM",
    "qa": "QA",
    "research": "Research",
    "sde": "SDE",
}
"""The first part of a task's name -> the domain; those of LHAW's table 15 as it prints them."""


def task_of(published: PublishedTask) -> Task:
    """Return the task. A checkpoint without points in the text counts one.

    The environment's digest covers what the folder says about services, colleagues and the agent's files; what the
    company's servers hold is not in a folder.
    """
    return Task(
        benchmark=BENCHMARK,
        benchmark_version=VERSION,
        task_id=published.task_id,
        prompt=published.prompt,
        checkpoints=tuple(
            Checkpoint(checkpoint_id=f"c{number}", label=each.label, total=1.0 if each.points is None else each.points)
            for number, each in enumerate(published.checkpoints.items, start=1)
        ),
        environment_digest=digest(
            {
                "services": published.services,
                "colleagues": {name: msgspec.structs.asdict(each) for name, each in published.colleagues.items()},
                "files": {
                    target: hashlib.sha256(path.read_bytes()).hexdigest()
                    for target, path in published.agent_files.items()
                },
            }
        ),
        domain=_DOMAINS.get(published.task_id.partition("-")[0]),
        licence=LICENCE,
    )


@cache
def published_points() -> dict[str, int]:
    """Return the points that each task of the published benchmark is graded with."""
    with data_path("tac", "points.csv").open(encoding="utf-8", newline="") as file:
        return {row["task"]: int(row["points"]) for row in csv.DictReader(file)}
