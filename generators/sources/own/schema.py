"""The schema of a user's own task, shared by the folder and JSON Lines forms, and its conversion into a task."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from lhaw_record.generators.protocol import TrajectoryStep
from lhaw_record.recorder.events.canonical_json import canonical_json, digest
from lhaw_record.recorder.events.values import Checkpoint, Task

VERSION = "1"


class OwnCheckpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One gradable sub-goal. Checkpoints without an id are numbered ``c1``, ``c2``, … by position."""

    label: str
    total: float = 1.0
    checkpoint_id: str | None = None


class OwnStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool call of a successful run."""

    name: str
    arguments: dict[str, Any] = {}
    result: str | None = None


class CheckpointsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of ``checkpoints.toml``."""

    checkpoints: tuple[OwnCheckpoint, ...] = ()
    domain: str | None = None


class OwnRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the JSON Lines form."""

    task_id: str
    prompt: str
    checkpoints: tuple[OwnCheckpoint, ...] = ()
    trajectory: tuple[OwnStep, ...] | None = None
    files: dict[str, str] = {}
    domain: str | None = None


def task_of(
    benchmark: str,
    task_id: str,
    prompt: str,
    checkpoints: Sequence[OwnCheckpoint],
    domain: str | None,
    sha256s: Mapping[str, str],
) -> Task:
    """Build a task. Its environment digest covers the path and the SHA-256 of every file."""
    return Task(
        benchmark=benchmark,
        benchmark_version=VERSION,
        task_id=task_id,
        prompt=prompt,
        checkpoints=tuple(
            Checkpoint(checkpoint_id=each.checkpoint_id or f"c{number}", label=each.label, total=each.total)
            for number, each in enumerate(checkpoints, start=1)
        ),
        environment_digest=digest(dict(sha256s)),
        domain=domain,
    )


def steps_of(steps: Sequence[OwnStep] | None) -> tuple[TrajectoryStep, ...] | None:
    """Convert a user's trajectory into the steps that extractors read. None stays None."""
    if steps is None:
        return None
    return tuple(
        TrajectoryStep(name=step.name, arguments_json=canonical_json(step.arguments).decode(), result=step.result)
        for step in steps
    )
