"""Make tasks from published folders, look up their points, and read reference solutions that the user provides."""

import csv
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Checkpoint, Task
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.tac.folders import PublishedTask
from lhaw_record.runners.models.replay import Reference, ReferenceCall

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
"""Maps the first part of a task's name to its domain, spelled as in LHAW's table 15."""


def task_of(published: PublishedTask) -> Task:
    """Return the task of a published folder. A checkpoint without points in the text counts one point.

    The environment digest covers the services, the colleagues and the agent's files. It does not cover the data of the
    company's servers, because the folder does not contain them.
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
    """Return the points of each task in the published benchmark."""
    with data_path("tac", "points.csv").open(encoding="utf-8", newline="") as file:
        return {row["task"]: int(row["points"]) for row in csv.DictReader(file)}


class _Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any]


def read_reference(folder: Path, task_id: str) -> Reference | None:
    """Return a task's reference solution from ``<task_id>.json`` in the user's folder, or None without such a file."""
    path = folder / f"{task_id}.json"
    if not path.is_file():
        return None
    try:
        calls = msgspec.json.decode(path.read_bytes(), type=list[_Call])
    except (OSError, msgspec.MsgspecError) as error:
        raise ExperimentError(
            f"key 'benchmark.references': {path} is not a list of calls such as "
            f'[{{"name": "bash", "arguments": {{"command": "ls"}}}}]: {error}'
        ) from error
    return Reference(
        task_id=task_id,
        origin="own",
        calls=tuple(ReferenceCall(name=call.name, arguments=dict(call.arguments)) for call in calls),
    )
