"""Sealing: a closed journal becomes one immutable Parquet file, then the journal goes.

    python -m recorder.seal STORE JOURNAL

runs in a child process, because building Arrow columns would block the recorder's event loop; recovery calls
:func:`seal` itself. At every instant either the journal or the segment holds the events: the Parquet is written under
a name that no reader's pattern matches, made durable, renamed, and its folder made durable, before the journal is
removed.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from recorder.errors import DamagedStore
from recorder.events import EVENT_TYPES, Envelope, type_name
from recorder.journal import JournalContent, read_journal
from recorder.schema import ENVELOPE_FIELDS, event_schema, to_table
from recorder.store import JournalName, Store, sync_directory

ROWS_PER_GROUP = 20_000
ZSTD_LEVEL = 3
_envelope_decoder = msgspec.msgpack.Decoder(Envelope)


class _TypeOnly(msgspec.Struct):
    """Just the event's tag: decoding it is cheap enough to look at every record twice."""

    event: dict[str, msgspec.Raw]


_type_decoder = msgspec.msgpack.Decoder(_TypeOnly)
_text_decoder = msgspec.msgpack.Decoder(str)


def seal(store: Store, path: Path) -> Path | None:
    """Seal one closed journal and remove it.

    Returns:
        The segment, or None when the journal held no events.

    Raises:
        DamagedStore: The journal is damaged, or was not closed in order; it is left as it is.
        OSError: The segment cannot be written; the journal is left as it is.
    """
    content = read_journal(path, path.read_bytes())
    if content is None or content.footer is None or content.footer.records != len(content.payloads):
        raise DamagedStore(f"{path} was not closed in order; 'lhaw-record log recover' closes and seals it")
    segment = _write_segment(store, content) if content.payloads else None
    path.unlink(missing_ok=True)
    sync_directory(path.parent)
    return segment


def _write_segment(store: Store, content: JournalContent) -> Path:
    header = content.header
    name = JournalName(header.writer_id, header.number)
    segment = store.segment_path(header.experiment_id, name, len(content.payloads))
    segment.parent.mkdir(exist_ok=True)
    sync_directory(store.events_dir)
    temporary = segment.with_name(f"{segment.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            _write_parquet(file, content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(segment)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(segment.parent)
    return segment


def _write_parquet(file: object, content: JournalContent) -> None:
    schema = _schema_of(content)
    metadata = {"lhaw_record.header": msgspec.json.encode(content.header).decode()}
    with pq.ParquetWriter(
        file,
        schema.with_metadata(metadata),
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        write_page_checksum=True,
    ) as writer:
        for table in _tables(content.payloads):
            writer.write_table(_with_columns(table, schema))


def _schema_of(content: JournalContent) -> pa.Schema:
    """The envelope's columns and those of the event types that occur."""
    present = {_text_decoder.decode(_type_decoder.decode(payload).event["type"]) for payload in content.payloads}
    names = [field.name for field in ENVELOPE_FIELDS]
    names += [type_name(cls) for cls in EVENT_TYPES if type_name(cls) in present]
    full = event_schema()
    return pa.schema([full.field(name) for name in names])


def _tables(payloads: tuple[bytes, ...]) -> Iterator[pa.Table]:
    for start in range(0, len(payloads), ROWS_PER_GROUP):
        chunk = payloads[start : start + ROWS_PER_GROUP]
        yield to_table([_envelope_decoder.decode(payload) for payload in chunk], only_present=True)


def _with_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with null columns for the event types that other row groups hold."""
    columns = [
        table[field.name] if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def main(arguments: list[str]) -> int:
    """Seal the journal named on the command line; the exit code is 0 or 1."""
    root, journal = arguments
    try:
        seal(Store(Path(root)), Path(journal))
    except (DamagedStore, OSError, pa.ArrowException) as error:
        print(f"lhaw-record: sealing failed: {error}", file=sys.stderr)  # noqa: T201 - a child process has no other voice
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
