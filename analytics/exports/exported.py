"""The result of an export: a JSON document or a folder of files, the number of items, and what was left out."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec


class ExportDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One exported document.

    ``count`` is the number of items, and ``what`` is the word for them. ``left_out`` says what is missing and why.
    """

    document: Any
    count: int
    what: str
    left_out: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Encode the document as JSON in UTF-8. Equal documents give equal bytes."""
        return json.dumps(self.document, indent=1, ensure_ascii=False).encode() + b"\n"


class ExportFolder(msgspec.Struct, frozen=True, kw_only=True):
    """One exported folder. ``files`` has its files by name, the others are as in :class:`ExportDocument`.

    ``notes`` says what else a reader of the folder has to know.
    """

    files: Mapping[str, bytes]
    count: int
    what: str
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
