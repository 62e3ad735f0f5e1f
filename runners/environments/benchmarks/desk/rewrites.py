"""Reads the hand-written rewritings of a desk task from its ``rewrites.toml``."""

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.task import DeskTask
from lhaw_record.runners.environments.benchmarks.desk.variants import SegmentEntry


class PassageEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A passage of the prompt and what replaces it under each severity; None leaves it. All texts are templates."""

    text: str
    delete: str | None = None
    vaguify: str | None = None
    genericize: str | None = None


class RewrittenSegment(SegmentEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A removable segment of the prompt, the passages to replace, and what goes wrong without it."""

    failure_mode: str
    passages: tuple[PassageEntry, ...]


class RewritesFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of ``rewrites.toml``: ``[[segments]]`` with ``[[segments.passages]]``, in prompt order."""

    segments: tuple[RewrittenSegment, ...]


def read_rewrites(task: DeskTask) -> tuple[RewrittenSegment, ...]:
    """Read the ``rewrites.toml`` of a task."""
    return msgspec.toml.decode((task.folder / "rewrites.toml").read_bytes(), type=RewritesFile).segments
