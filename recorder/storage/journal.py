"""Journals, the files that events are first written to. A writer holds the lock of its journal for its lifetime."""

import os
import socket
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from lhaw_record.recorder.errors import DamagedStore, NewerData, RecordingFailed, refusal
from lhaw_record.recorder.events import Envelope
from lhaw_record.recorder.events.identifiers import ExperimentId, Name
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.storage import manifest
from lhaw_record.recorder.storage.journal_format import (
    MAGIC,
    JournalTail,
    commit,
    first_commit,
    payloads,
    record,
    scan,
    seed_of,
)
from lhaw_record.recorder.storage.store import Store, close, try_lock


class JournalHeader(msgspec.Struct, frozen=True, kw_only=True, tag_field="journal", tag="header"):
    """The first record of a journal, which identifies its writer and experiment."""

    writer_id: Name
    number: int
    experiment_id: ExperimentId
    created_at_us: int
    host: str
    pid: int


class JournalFooter(msgspec.Struct, frozen=True, kw_only=True, tag_field="journal", tag="footer"):
    """The last record of a properly closed journal. If it is missing, the writer is still alive or died."""

    records: int


class JournalContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a journal. ``payloads`` are the encoded envelopes.

    ``seed`` is the CRC of the first commit, which all later CRCs start from.
    """

    path: Path
    header: JournalHeader
    payloads: tuple[bytes, ...]
    footer: JournalFooter | None
    tail: JournalTail
    seed: int

    def envelopes(self, start: int = 0) -> list[Envelope]:
        """Return the decoded records in order, from index ``start`` on."""
        try:
            return [_envelope_decoder.decode(payload) for payload in self.payloads[start:]]
        except msgspec.ValidationError as error:
            raise NewerData(self.path, error) from error


_envelope_decoder = msgspec.msgpack.Decoder(Envelope)
_edge_decoder = msgspec.msgpack.Decoder(JournalHeader | JournalFooter)
_encoder = msgspec.msgpack.Encoder()
_HEADER_BYTES = 4096
_FOOTER_START = _encoder.encode(JournalFooter(records=0))[:16]


class DurableLength(msgspec.Struct, frozen=True):
    """The minimum length and record count of a journal, updated after each commit, never before."""

    bytes: int
    records: int


_MARK = struct.Struct("<QQI")


def read_mark(path: Path) -> DurableLength | None:
    """Return the mark of a journal, or None if the mark is missing or incomplete."""
    try:
        size, records, crc = _MARK.unpack(path.read_bytes())
    except (OSError, struct.error):
        return None
    return DurableLength(size, records) if crc == zlib.crc32(_MARK.pack(size, records, 0)) else None


class JournalFile:
    """An open journal. All methods block; ``Recorder`` calls them from its own thread."""

    def __init__(self, store: Store, header: JournalHeader) -> None:
        self.name = JournalName(header.writer_id, header.number)
        self.path = store.journal_path(self.name)
        self.records = 0
        self.size = 0
        self._disk = store.disk
        self._mark: int | None = None
        unborn = self.path.with_suffix(".tmp")  # renamed once locked and with a header: never looks dead
        try:
            self.descriptor = self._disk.create(unborn)
        except OSError as error:
            raise RecordingFailed(_advice(self.path, error)) from error
        try:
            try_lock(self.descriptor)
            first, self._seed = commit([record(_encoder.encode(header))], len(MAGIC), 0)
            self._write(MAGIC + first)
            self._disk.rename(unborn, self.path)
            self._disk.sync_directory(store.journal_dir)
            manifest.append(
                store,
                manifest.ManifestEntry(kind="journal", journals=(str(self.name),), experiment_id=header.experiment_id),
            )
        except OSError as error:
            self.close()
            self._disk.remove(unborn)
            raise RecordingFailed(_advice(self.path, error)) from error
        if store.address is None:
            self._mark = _new_mark(store.mark_path(self.name))
            self._write_mark()

    @classmethod
    def reopen(cls, store: Store, path: Path, descriptor: int, content: JournalContent) -> "JournalFile":
        """Take over the journal of a dead writer, whose lock the caller holds, and cut off an unfinished commit."""
        self = cls.__new__(cls)
        self.name = JournalName(content.header.writer_id, content.header.number)
        self.path = path
        self.records = len(content.payloads)
        self.descriptor = descriptor
        self.size = content.tail.good_end
        self._disk = store.disk
        self._seed = content.seed
        self._mark = None
        self._disk.truncate(descriptor, self.size)
        self._disk.sync(descriptor)
        return self

    def append(self, records: Sequence[bytes]) -> None:
        """Write one commit and make it durable."""
        self._append(records)
        self.records += len(records)
        self._write_mark()

    def write_footer(self) -> None:
        """Write the last record, which says that the journal was closed properly."""
        self._append([record(_encoder.encode(JournalFooter(records=self.records)))])

    def close(self) -> None:
        """Close the file, which releases the lock unless a child process inherited it."""
        close(self.descriptor)
        if self._mark is not None:
            close(self._mark)
            self._mark = None

    def _write_mark(self) -> None:
        """Update the mark to the journal's durable length, without a sync, as a stale mark only hides a truncation."""
        if self._mark is not None:
            plain = _MARK.pack(self.size, self.records, 0)
            with suppress(OSError):
                os.pwrite(self._mark, _MARK.pack(self.size, self.records, zlib.crc32(plain)), 0)

    def _append(self, records: Sequence[bytes]) -> None:
        try:
            self._write(commit(records, self.size, self._seed)[0])
        except OSError as error:
            self._cut_back()
            raise RecordingFailed(_advice(self.path, error)) from error

    def _write(self, data: bytes) -> None:
        self._disk.write(self.descriptor, data)
        self._disk.sync(self.descriptor)
        self.size += len(data)

    def _cut_back(self) -> None:
        try:
            self._disk.truncate(self.descriptor, self.size)
        except OSError:
            return  # readers ignore a torn tail


def _new_mark(path: Path) -> int | None:
    with suppress(OSError):
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    return None


def new_header(name: JournalName, experiment_id: str, created_at_us: int) -> JournalHeader:
    """Return the header for a new journal of this process."""
    return JournalHeader(
        writer_id=name.writer_id,
        number=name.number,
        experiment_id=experiment_id,
        created_at_us=created_at_us,
        host=socket.gethostname(),
        pid=os.getpid(),
    )


def read_journal(path: Path, data: bytes) -> JournalContent | None:
    """Decode the bytes of a journal, or return None if the journal has no complete header."""
    whole, tail = scan(data)
    if tail.is_corrupt:
        raise DamagedStore(
            f"{path} is damaged at byte {tail.good_end}: complete commits follow a bad one. "
            "Restore it from a backup, or keep only what comes before: 'lhaw-record log repair --accept-loss'"
        )
    if not whole:
        return None
    found = [payload for each in whole for payload in payloads(each.body)]
    try:
        header = _edge_decoder.decode(found[0])
        footer = None
        if len(found) > 1 and found[-1].startswith(_FOOTER_START):
            footer = _edge_decoder.decode(found.pop())
    except msgspec.DecodeError as error:
        raise DamagedStore(f"{path} has no readable header: {error}") from error
    if not isinstance(header, JournalHeader) or (footer is not None and not isinstance(footer, JournalFooter)):
        raise DamagedStore(f"{path} does not begin with a journal header")
    return JournalContent(
        path=path, header=header, payloads=tuple(found[1:]), footer=footer, tail=tail, seed=seed_of(whole)
    )


def read_header(path: Path) -> JournalHeader | None:
    """Return the header of a journal from its first bytes, or None if the header is incomplete."""
    with path.open("rb") as file:
        content = read_journal(path, first_commit(file.read(_HEADER_BYTES)))
    return content.header if content else None


def is_live(path: Path) -> bool:
    """Return whether the writer of a file is alive, that is, holds its lock. NFS gives a reader only a shared one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return not try_lock(descriptor, is_shared=True)
    finally:
        os.close(descriptor)


def _advice(path: Path, error: OSError) -> str:
    return (
        f"cannot record to {refusal(error, path)}, then run the same command again. "
        "Everything that was acknowledged before is safe"
    )
