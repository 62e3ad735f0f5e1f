"""Where imported events come from: the file, what of it was understood, and what was not."""

from recorder.events._base import Event
from recorder.values import Value


class Understood(Value, frozen=True):
    """How many things of one kind became events."""

    kind: str
    count: int


class Skipped(Value, frozen=True):
    """How many things of one kind did not, and why."""

    kind: str
    count: int
    reason: str


class ImportRecorded(Event, frozen=True, tag="import_recorded"):
    """One file that was imported in this stream; ``source_name`` is its name without folders."""

    source_format: str
    source_name: str
    source_sha256: str
    source_bytes: int
    understood: tuple[Understood, ...]
    skipped: tuple[Skipped, ...] = ()
    remarks: tuple[str, ...] = ()
