"""Graders' access to what an agent left behind.

Each access is announced, so that abuse is attributed to the item being read. A missing, too large or unreadable file is
the agent's fault, so every reader here raises :class:`CheckpointNotMet`.
"""

import mimetypes
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Self

from lhaw_record.runners.environments.grading.confined import reading
from lhaw_record.runners.environments.grading.grade import Artifact

FINAL_ANSWER = "the final answer"
_MOST_BYTES = 4_000_000  # office deliverables take a few kilobytes; a larger file cannot be one


class CheckpointNotMet(Exception):
    """A checkpoint is not reached. ``score`` is its partial credit."""

    def __init__(self, reason: str, score: float = 0.0) -> None:
        super().__init__(reason)
        self.score = score


class Deliverables:
    """An exported work directory and the final answer. Every file read here becomes an artifact of the grade.

    Args:
        folder: The work directory on this host, or None if only the final answer counts.
        unreadable: Maps a file name or ``FINAL_ANSWER`` to the reason why it cannot be read within the grading limits.
    """

    def __init__(self, folder: Path | None, final_answer: str, unreadable: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.unreadable = dict(unreadable or {})
        self._final_answer = final_answer
        self._read: dict[str, bytes] = {}

    def without(self, name: str, reason: str) -> Self:
        """Return a copy with one more unreadable item."""
        other = type(self).__new__(type(self))
        other.__dict__ |= self.__dict__
        other.unreadable = {**self.unreadable, name: reason}
        return other

    @property
    def final_answer(self) -> str:
        """The answer that the agent submitted."""
        reading(FINAL_ANSWER)
        self._refuse_unreadable(FINAL_ANSWER)
        return self._final_answer

    def content(self, name: str) -> bytes:
        """Return the bytes of a file that the prompt asks for."""
        reading(name)
        self._read[name] = self._bytes(name)
        self._refuse_unreadable(name)
        return self._read[name]

    def text(self, name: str) -> str:
        """Return the text of a UTF-8 file without a byte order mark and with Unix line endings."""
        try:
            text = self.content(name).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise CheckpointNotMet(f"{name} is not UTF-8 text") from error
        return text.replace("\r\n", "\n")

    def artifacts(self, given: Collection[str] = ()) -> tuple[Artifact, ...]:
        """Return every file that was read and is not named in ``given``, in reading order."""
        return tuple(
            Artifact(
                name=name,
                role="deliverable",
                media_type=mimetypes.guess_type(name)[0] or "application/octet-stream",
                content=content,
            )
            for name, content in self._read.items()
            if name not in given
        )

    def _bytes(self, name: str) -> bytes:
        """Read a regular file without following links, and without blocking on a pipe or device in its place."""
        if self.folder is None:
            raise CheckpointNotMet(f"{name} is missing")
        try:
            descriptor = os.open(self.folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            raise CheckpointNotMet(f"{name} is missing") from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointNotMet(f"{name} is missing")
            if status.st_size > _MOST_BYTES:
                raise CheckpointNotMet(f"{name} is larger than {_MOST_BYTES} bytes")
            return os.read(descriptor, _MOST_BYTES)
        finally:
            os.close(descriptor)

    def _refuse_unreadable(self, name: str) -> None:
        if name in self.unreadable:
            raise CheckpointNotMet(f"{name} {self.unreadable[name]}")
