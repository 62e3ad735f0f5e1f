"""Reads an export: yields its streams and artifacts, and rejects lines that this version would write differently."""

import gzip
import hashlib
import io
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import IO, BinaryIO

import msgspec
import pyarrow as pa

from lhaw_record.recorder.errors import DamagedStore, StoreError
from lhaw_record.recorder.events import Envelope
from lhaw_record.recorder.files.layout import FORMAT
from lhaw_record.recorder.transfer.export import Blob, ExportEnd, ExportHeader, ExportLine, event_line

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_MB = 1 << 20
_EVENT_START = b'{"stream_id":'

_event_decoder = msgspec.json.Decoder(Envelope)
_line_decoder = msgspec.json.Decoder(ExportLine)


class ImportLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Size limits of an export, whose author is not trusted: a file of a few KB can unpack to many GB.

    Memory holds one line and one stream at a time, with events at about five times their size.
    """

    stream_mb: int = 256
    stream_events: int = 200_000
    total_mb: int = 65_536


def read_export(
    lines: Iterable[bytes], name: str, limits: ImportLimits | None = None
) -> Iterator[Blob | list[Envelope]]:
    """Yield the artifacts and the streams of an export in file order."""
    for key, found in groupby(_contents(lines, name, limits or ImportLimits()), key=_stream_of):
        if key is None:
            yield from (each for each in found if isinstance(each, Blob))
        else:
            yield [each for each in found if isinstance(each, Envelope)]


def _stream_of(content: Blob | Envelope) -> tuple[str, str] | None:
    return None if isinstance(content, Blob) else (content.experiment_id, content.stream_id)


def _contents(lines: Iterable[bytes], name: str, limits: ImportLimits) -> Iterator[Blob | Envelope]:
    """Yield every artifact and event, and check the first line, the last line and the size of streams."""
    digest = hashlib.sha256()
    size = _StreamSize(limits)
    counts = Counter[type]()
    end: ExportEnd | None = None
    for number, line in enumerate(lines, 1):
        place = f"{name}, line {number}"
        if end is not None:
            raise DamagedStore(f"{place} follows the last line of an export; import two exports separately")
        if not line.endswith(b"\n"):
            raise DamagedStore(f"{place} ends early; export it again")
        found = _decoded(line, place, is_first=number == 1)
        counts[type(found)] += 1
        if isinstance(found, Envelope):
            size.add(found, line, place)
        if isinstance(found, ExportEnd):
            end = found
        else:
            digest.update(line)
            if not isinstance(found, ExportHeader):
                yield found
    if end is None:
        raise DamagedStore(f"{name} ends early, its last line is missing; export it again")
    if (end.events, end.blobs, end.sha256) != (counts[Envelope], counts[Blob], digest.hexdigest()):
        raise DamagedStore(f"{name} was changed: its last line has other totals; export it again")


class _StreamSize:
    """The size of the stream that is being read."""

    def __init__(self, limits: ImportLimits) -> None:
        self._limits = limits
        self._stream: tuple[str, str] | None = None
        self._bytes = self._events = 0

    def add(self, envelope: Envelope, line: bytes, place: str) -> None:
        """Count an event."""
        if self._stream != (stream := _stream_of(envelope)):
            self._stream, self._bytes, self._events = stream, 0, 0
        self._bytes, self._events = self._bytes + len(line), self._events + 1
        what, limits = f"{place}: stream {envelope.stream_id}", self._limits
        if self._bytes > limits.stream_mb * _MB:
            raise _too_large(what, f"{limits.stream_mb} MB", "--max-stream-mb")
        if self._events > limits.stream_events:
            raise _too_large(what, f"{limits.stream_events} events", "--max-stream-events")


def _too_large(what: str, limit: str, option: str) -> StoreError:
    return StoreError(f"{what} has more than {limit}; {option} allows more, if you trust the author of the file")


@contextmanager
def export_lines(source: Path | BinaryIO, limits: ImportLimits | None = None) -> Iterator[Iterable[bytes]]:
    """Open an export that is compressed with zstd or gzip, or uncompressed."""
    limits = limits or ImportLimits()
    if not isinstance(source, Path):
        yield _decompressed(source, "standard input", limits)
        return
    try:
        file = source.open("rb")
    except OSError as error:
        raise StoreError(f"cannot read {source}: {error.strerror}; choose a file that 'log export' wrote") from error
    with file:
        yield _decompressed(file, str(source), limits)


def _decompressed(file: BinaryIO, name: str, limits: ImportLimits) -> Iterator[bytes]:
    start = file.peek(len(_ZSTD)) if isinstance(file, io.BufferedReader) else b""
    try:
        if start.startswith(_ZSTD):
            unpacked = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
            yield from _bounded(io.BufferedReader(unpacked), name, limits)
        elif start.startswith(_GZIP):
            with gzip.open(file) as lines:
                yield from _bounded(lines, name, limits)
        else:
            yield from _bounded(file, name, limits)
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedStore(f"{name} cannot be read to its end ({error}); export it again") from error


def _bounded(file: IO[bytes] | gzip.GzipFile, name: str, limits: ImportLimits) -> Iterator[bytes]:
    """Yield the lines of a file, and stop reading at the limits."""
    longest, left = limits.stream_mb * _MB, limits.total_mb * _MB
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        left -= len(line)
        if len(line) > longest:
            raise _too_large(f"{name}, line {number}", f"{limits.stream_mb} MB", "--max-stream-mb")
        if left < 0:
            raise _too_large(f"{name}, up to line {number},", f"{limits.total_mb} MB", "--max-total-mb")
        yield line


def _decoded(line: bytes, place: str, *, is_first: bool) -> Envelope | Blob | ExportEnd | ExportHeader:
    """Return the content of a line, which must equal what this version would write, so that nothing is lost."""
    content = line.removesuffix(b"\n")
    try:
        if is_first or not content.startswith(_EVENT_START):
            return _marker(_line_decoder.decode(content), is_first=is_first)
        envelope = _event_decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        what = "the first line of an export" if is_first else "a line of an export that this version supports"
        raise StoreError(f"{place} is not {what} ({error}); 'lhaw-record log export' writes them") from error
    if event_line(envelope) != content:
        raise DamagedStore(f"{place} was changed, or has fields of a newer version, which this version would drop")
    return envelope


def _marker(line: ExportLine, *, is_first: bool) -> Blob | ExportEnd | ExportHeader:
    """Return the content of a line that is not an event."""
    found = line.export if is_first else line.blob or line.end
    if found is None or (isinstance(found, ExportHeader) and found.format != FORMAT):
        raise msgspec.ValidationError(f"expected an export of format {FORMAT}")
    if isinstance(found, Blob) and hashlib.sha256(found.content).hexdigest() != found.sha256:
        raise msgspec.ValidationError(f"artifact {found.sha256} does not have the SHA-256 that is its name")
    return found
