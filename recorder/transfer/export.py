"""Exports events as JSON Lines: each stream complete and in order, its artifacts before it, and totals at the end.

The lines, first to last:
    {"export": {"format": 2}}
    {"stream_id": …, "sequence": 0, …, "event": {"type": …, …}}     an event, as in a journal
    {"blob": {"sha256": …, "base64": …}}                            before the first stream that names it
    {"end": {"events": 2, "streams": 1, "blobs": 1, "sha256": …}}   SHA-256 over all bytes before this line
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec
import pyarrow as pa

from lhaw_record.recorder.errors import DamagedStore, StoreError, refusal
from lhaw_record.recorder.events import ArtifactStored, Envelope
from lhaw_record.recorder.events.identifiers import Sha256
from lhaw_record.recorder.files.layout import FORMAT
from lhaw_record.recorder.storage.blobs import load_blob
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.transfer.whole_streams import StreamSelection, whole_streams

_CODECS = {".zst": "zstd", ".gz": "gzip"}

_encoder = msgspec.json.Encoder()


class ExportHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line."""

    format: int


class Blob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"content": "base64"}):
    """An artifact: its bytes and their SHA-256."""

    sha256: Sha256
    content: bytes


class ExportEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line. ``sha256`` covers all bytes before this line."""

    events: int
    streams: int
    blobs: int
    sha256: Sha256


class ExportLine(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A line that is not an event. Exactly one field is set."""

    export: ExportHeader | None = None
    blob: Blob | None = None
    end: ExportEnd | None = None


def contents(
    store: Store,
    selection: StreamSelection | None = None,
    *,
    has_blobs: bool = True,
    on_progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> Iterator[Blob | list[Envelope]]:
    """Yield the current streams of a store, each preceded by the artifacts that it is the first to name."""
    named: set[str] = set()
    for stream in whole_streams(store, selection, on_progress):
        for each in stream if has_blobs else ():
            if isinstance(each.event, ArtifactStored) and each.event.sha256 not in named:
                named.add(each.event.sha256)
                yield Blob(each.event.sha256, _artifact(store, each.event.sha256))
        yield stream


def write_export(source: Iterable[Blob | list[Envelope]], out: IO[bytes]) -> ExportEnd:
    """Write an export and return its last line."""
    digest = hashlib.sha256()
    events = streams = blobs = 0

    def write(encoded: bytes) -> None:
        digest.update(encoded + b"\n")
        out.write(encoded + b"\n")

    write(_encoder.encode(ExportLine(export=ExportHeader(FORMAT))))
    for each in source:
        if isinstance(each, Blob):
            write(_encoder.encode(ExportLine(blob=each)))
            blobs += 1
        else:
            for envelope in each:
                write(event_line(envelope))
            events, streams = events + len(each), streams + 1
    end = ExportEnd(events, streams, blobs, digest.hexdigest())
    out.write(_encoder.encode(ExportLine(end=end)) + b"\n")
    return end


def event_line(envelope: Envelope) -> bytes:
    """Return the line of an event without the line ending."""
    encoded = _encoder.encode(envelope)
    if b":null" in encoded and not _is_faithful(encoded, envelope):
        raise DamagedStore(
            f"event {envelope.sequence} of stream {envelope.stream_id} holds a number that is not finite, which JSON "
            "cannot represent; leave this stream out"
        )
    return encoded


def _is_faithful(encoded: bytes, envelope: Envelope) -> bool:
    try:
        return msgspec.json.decode(encoded, type=Envelope) == envelope
    except msgspec.ValidationError:
        return False


def events_name(files: Iterable[bytes]) -> str:
    """Return the name of the events beside files of another program: which files they belong to, in any order."""
    digests = sorted(hashlib.sha256(each).hexdigest() for each in files)
    return f"events-{hashlib.sha256(' '.join(digests).encode()).hexdigest()[:16]}.jsonl.zst"


@contextmanager
def export_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears only when it is complete, compressed according to its suffix (.zst, .gz)."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        if path.exists() and (path.is_symlink() or not path.is_file()):  # /dev/null is written to, never replaced
            with path.open("wb") as out:
                yield out
            return
        with pa.output_stream(str(temporary), compression=_CODECS.get(path.suffix)) as out:
            yield out
        descriptor = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.rename(path)
    except OSError as error:
        raise StoreError(f"cannot write {refusal(error, path)}") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _artifact(store: Store, sha256: str) -> bytes:
    try:
        content = load_blob(store, sha256)
    except FileNotFoundError:
        content = b""
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DamagedStore(
            f"artifact {sha256} is missing in {store.blobs_dir} or does not have the SHA-256 that is its name; "
            "restore it, or leave artifacts out with --no-blobs"
        )
    return content
