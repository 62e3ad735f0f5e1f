"""The layout of a store: its file and folder names, and the content of its marker file."""

import json
import re
from pathlib import Path

import msgspec

FORMAT = 2
MARKER = "store.json"
MANIFEST = "manifest.jsonl"
FOLDERS = ("journal", "events", "blobs", "locks", "index")
SCHEMA_FILE = "events/experiment=_schema/schema.parquet"
_JOURNAL = re.compile(r"w[0-9a-f]{12}-\d{6}\.journal")
_SEGMENT = re.compile(r"[wc][0-9a-f]{12}-\d{6}-\d+\.parquet")


class JournalName(msgspec.Struct, frozen=True, order=True):
    """The name of a journal: its writer and its number. A segment keeps the names of the journals it was made from."""

    writer_id: str
    number: int

    @classmethod
    def parse(cls, text: str) -> "JournalName":
        """Parse a name as ``str`` formats it."""
        writer_id, _, number = text.rpartition("-")
        return cls(writer_id, int(number))

    def __str__(self) -> str:
        return f"{self.writer_id}-{self.number:06d}"


def is_journal(path: Path) -> bool:
    """Return whether a file has the name of a journal."""
    return bool(_JOURNAL.fullmatch(path.name))


def is_segment(path: Path) -> bool:
    """Return whether a file has the name of a segment."""
    return bool(_SEGMENT.fullmatch(path.name))


def marker(**more: object) -> bytes:
    """Return the content of a marker file."""
    return json.dumps({"format": FORMAT, **more}).encode() + b"\n"
