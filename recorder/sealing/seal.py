"""Sealing turns a closed journal into one immutable Parquet file, and then removes the journal.

A recorder seals large journals in a child process (:mod:`sealing.seal_child`), because building Arrow columns would
block its event loop. It seals small ones directly, as recovery does. The events are always in the journal or in the
segment: the journal is removed only after the segment is durable under its name and, on a shared store, published.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.events import EVENT_TYPES, ArtifactStored, Envelope, type_name
from lhaw_record.recorder.events.arrow_schema import ENVELOPE_FIELDS, event_schema, to_table
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.storage import manifest
from lhaw_record.recorder.storage.blobs import publish_blob
from lhaw_record.recorder.storage.journal import JournalContent, read_journal
from lhaw_record.recorder.storage.segment_writer import ROWS_PER_GROUP, write_segment
from lhaw_record.recorder.storage.store import Store

_ARTIFACT = type_name(ArtifactStored)
_envelope_decoder = msgspec.msgpack.Decoder(Envelope)
_DECODED_AT_ONCE = 2_000


class _Tag(msgspec.Struct):
    type: str


class _Key(msgspec.Struct):
    """The sort key and type of a record, cheap to decode; records are fully decoded later, one row group at a time."""

    stream_id: str
    sequence: int
    event: _Tag


_key_decoder = msgspec.msgpack.Decoder(_Key)


def seal(store: Store, path: Path) -> Path | None:
    """Seal one closed journal and remove it."""
    content = read_journal(path, path.read_bytes())
    if content is None or content.footer is None or content.footer.records != len(content.payloads):
        raise DamagedStore(f"{path} was not closed; 'lhaw-record log recover' closes and seals it")
    segment = _write(store, content) if content.payloads else None
    name = JournalName(content.header.writer_id, content.header.number)
    if segment is None:
        manifest.append(store, manifest.ManifestEntry(kind="empty", journals=(str(name),)))
    store.disk.remove(path)
    store.mark_path(name).unlink(missing_ok=True)
    store.disk.sync_directory(path.parent)
    return segment


def _write(store: Store, content: JournalContent) -> Path:
    name = JournalName(content.header.writer_id, content.header.number)
    types, order = _types_and_order(content.payloads)
    if store.remote is not None:
        _publish_blobs(store, (content.payloads[row] for row in order if types[row] == _ARTIFACT))
    return write_segment(
        store,
        content.header.experiment_id,
        str(name),
        schema=_schema_of(set(types)),
        tables=_tables(content.payloads, order),
        covers=(name,),
    )


def _types_and_order(payloads: Sequence[bytes]) -> tuple[list[str], list[int]]:
    """Return the event type of each record, and the records' places sorted by stream and sequence."""
    keys = [_key_decoder.decode(payload) for payload in payloads]
    order = sorted(range(len(keys)), key=lambda row: (keys[row].stream_id, keys[row].sequence))
    return [sys.intern(key.event.type) for key in keys], order


def _publish_blobs(store: Store, payloads: Iterable[bytes]) -> None:
    """Publish the artifacts that events name, before the events are published."""
    events = [_envelope_decoder.decode(payload).event for payload in payloads]
    for sha256 in dict.fromkeys(event.sha256 for event in events if isinstance(event, ArtifactStored)):
        publish_blob(store, sha256)


def _schema_of(types: set[str]) -> pa.Schema:
    """Return a schema with the envelope columns and the columns of the event types that occur."""
    present = [type_name(cls) for cls in EVENT_TYPES if type_name(cls) in types]
    return pa.schema([event_schema().field(name) for name in (*(field.name for field in ENVELOPE_FIELDS), *present)])


def _tables(payloads: Sequence[bytes], order: Sequence[int]) -> Iterator[pa.Table]:
    """Yield the row groups, each made of short tables, because decoded records take ten times the memory of columns."""
    for start in range(0, len(order), ROWS_PER_GROUP):
        rows = order[start : start + ROWS_PER_GROUP]
        parts = (rows[at : at + _DECODED_AT_ONCE] for at in range(0, len(rows), _DECODED_AT_ONCE))
        decoded = ([_envelope_decoder.decode(payloads[row]) for row in part] for part in parts)
        yield pa.concat_tables([to_table(part, only_present=True) for part in decoded], promote_options="default")
