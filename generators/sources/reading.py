"""The result of reading a source: its tasks, and findings (errors and warnings)."""

import msgspec

from lhaw_record.generators.protocol import SourceTask


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An error, which makes the source unusable, or a warning.

    ``task_id`` is None if the finding is not about one task. ``message`` names the file and place, if there is one.
    """

    is_error: bool
    message: str
    task_id: str | None = None


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The readable tasks in a fixed order, and the findings in order of discovery."""

    tasks: tuple[SourceTask, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.is_error)


def error(message: str, task_id: str | None = None) -> Finding:
    return Finding(is_error=True, message=message, task_id=task_id)


def warning(message: str, task_id: str | None = None) -> Finding:
    return Finding(is_error=False, message=message, task_id=task_id)
