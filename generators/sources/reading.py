"""What comes of reading a source: its tasks, and everything that is wrong with it or suspicious."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from generators.errors import SourceError
from generators.protocol import Source, SourceTask


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found; with an error nothing can be made of the source, a warning stands in nobody's way.

    ``task_id`` is None where it is not about one task. ``message`` names the file and the place where there is one.
    """

    is_error: bool
    message: str
    task_id: str | None = None


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks that could be read, in a fixed order, and the findings in the order in which they came up."""

    tasks: tuple[SourceTask, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stand in the way."""
        return tuple(finding for finding in self.findings if finding.is_error)


class CheckedSource(Source, Protocol):
    """A source that can say all that is wrong with it at once."""

    def read(self) -> Reading:
        """Return the tasks with every finding; nothing in the given files is an exception."""
        ...


def error(message: str, task_id: str | None = None) -> Finding:
    """Return what stands in the way."""
    return Finding(is_error=True, message=message, task_id=task_id)


def warning(message: str, task_id: str | None = None) -> Finding:
    """Return what is only suspicious."""
    return Finding(is_error=False, message=message, task_id=task_id)


def usable(reading: Reading) -> Sequence[SourceTask]:
    """Return the tasks of a reading without errors.

    Raises:
        SourceError: There are errors; the message is the first and says how many more there are.
    """
    if not reading.errors:
        return reading.tasks
    first, *others = reading.errors
    more = f" ({len(others)} more; 'lhaw-record tasks check' shows all)" if others else ""
    raise SourceError(f"{first.message}{more}")
