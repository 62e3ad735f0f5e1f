"""The event that names the source file of an import, and counts what was understood and what was skipped."""

from lhaw_record.recorder.events.values import Event, Value


class Understood(Value, frozen=True):
    """How many items of one kind became events."""

    kind: str
    count: int


class Skipped(Value, frozen=True):
    """How many items of one kind were skipped, and why."""

    kind: str
    count: int
    reason: str


class ImportRecorded(Event, frozen=True, tag="import_recorded"):
    """A file was imported into this stream. ``source_name`` is the file's name without folders."""

    source_format: str
    source_name: str
    source_sha256: str
    source_bytes: int
    understood: tuple[Understood, ...]
    skipped: tuple[Skipped, ...] = ()
    remarks: tuple[str, ...] = ()
