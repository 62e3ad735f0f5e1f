"""Reads the files in an ``.eval`` log of inspect_ai: a zip archive with stored, deflated or zstd-compressed entries.

Python's zipfile reads zstd entries (method 93) only from version 3.14 on, so this module unpacks the entries itself.
"""

import io
import json
import struct
import zipfile
import zlib
from typing import Any

from lhaw_record.runners.imports.foreign_trial import ImportFailed, SourceFile
from lhaw_record.runners.imports.source_files import most_unpacked_bytes, too_large, with_valid_text

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_ZSTD = 93


class Archive:
    """An open log.

    Args:
        source: The file.

    Raises:
        ImportFailed: The file is not a zip archive, or the end of the archive is missing.
    """

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._left = most_unpacked_bytes()
        try:
            with zipfile.ZipFile(io.BytesIO(source.content)) as archive:
                self._entries = {entry.filename: entry for entry in archive.infolist()}
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise ImportFailed(
                f"{source.label} is not a whole .eval log ({error}); 'inspect log' can repair a truncated log"
            ) from error

    @property
    def names(self) -> list[str]:
        """The names of the files in the archive, in the archive's order."""
        return list(self._entries)

    def load(self, name: str) -> Any:
        """Return the content of a JSON file in the archive."""
        entry = self._entries[name]
        try:
            return with_valid_text(json.loads(_checked(self._bytes(entry), entry.CRC)))
        except (ValueError, OSError, struct.error, zlib.error, RecursionError) as error:
            raise ImportFailed(f"{self._source.label}: {name} cannot be read ({error}); get the log again") from error

    def _bytes(self, entry: zipfile.ZipInfo) -> bytes:
        header_end = entry.header_offset + _LOCAL_HEADER.size
        *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(self._source.content[entry.header_offset : header_end])
        start = header_end + name_bytes + extra_bytes
        packed = self._source.content[start : start + entry.compress_size]
        if entry.compress_type == zipfile.ZIP_STORED:
            return packed
        if entry.compress_type == zipfile.ZIP_DEFLATED:
            return self._bounded(zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, self._left + 1))
        if entry.compress_type == _ZSTD:
            import pyarrow as pa

            return self._bounded(pa.CompressedInputStream(io.BytesIO(packed), "zstd").read(self._left + 1))
        raise ValueError(f"compression method {entry.compress_type} is unknown")

    def _bounded(self, unpacked: bytes) -> bytes:
        """Return the unpacked bytes, counted against the limit for the whole archive: entries may overlap and
        add up.
        """
        self._left -= len(unpacked)
        if self._left < 0:
            raise too_large(self._source.name)
        return unpacked


def _checked(content: bytes, crc: int) -> bytes:
    if zlib.crc32(content) != crc:
        raise ValueError("its checksum is wrong")
    return content
