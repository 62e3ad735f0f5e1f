"""Writes a segment: one Parquet file of tables sorted by stream, which is durable before readers can see it."""

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lhaw_record.recorder.files.disk import publish
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.storage import manifest
from lhaw_record.recorder.storage.segments import COVERS_KEY
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.storage.stream_index import write_index

ROWS_PER_GROUP = 20_000
ZSTD_LEVEL = 3
_STATISTICS = [
    "stream_id",
    "sequence",
    "type",
    "recorded_at_us",
]  # readers filter by these; statistics for more columns took up a tenth of a file
_KEYS = ["stream_id", "type", "trial_id", "recorded_at_us"]
_CLOCKS = ("recorded_at_us", "elapsed_ns")
_DIGESTS = ("request_digest", "stream_digest")


def write_segment(
    store: Store,
    experiment_id: str,
    name: str,
    *,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    covers: tuple[JournalName, ...],
) -> Path:
    """Write one segment, atomically and durably, and its stream index.

    On a shared store, the segment is uploaded first, so every host can see any segment that is on this host.
    """
    content, rows = _file_of(schema, tables, covers)
    path = store.events_dir / f"experiment={experiment_id}" / f"{name}-{rows.num_rows}.parquet"
    store.disk.make_directory(path.parent)
    store.disk.sync_directory(store.events_dir)
    if store.remote is not None:
        store.remote.put(path.relative_to(store.root).as_posix(), content)
    import pyarrow.compute as pc

    times = pc.min_max(rows["recorded_at_us"]).as_py()
    announced = manifest.ManifestEntry(
        kind="segment",
        journals=tuple(map(str, covers)),
        experiment_id=experiment_id,
        file=path.relative_to(store.root).as_posix(),
        bytes=len(content),
        crc32=zlib.crc32(content),
        records=rows.num_rows,
        streams=pc.count_distinct(rows["stream_id"]).as_py(),
        trials=pc.count_distinct(rows["trial_id"]).as_py(),
        first_us=times["min"],
        last_us=times["max"],
    )
    manifest.append(store, announced)
    write_index(store, path, rows.select(["stream_id", "type"]))
    publish(store.disk, path, content)
    return path


def _file_of(schema: pa.Schema, tables: Iterable[pa.Table], covers: tuple[JournalName, ...]) -> tuple[bytes, pa.Table]:
    """Return the bytes of a segment, with one table in memory at a time, and the keys of its rows."""
    sink = pa.BufferOutputStream()
    keys: list[pa.Table] = []
    with pq.ParquetWriter(sink, schema, **_options(schema)) as writer:
        writer.add_key_value_metadata({COVERS_KEY: msgspec.json.encode([str(each) for each in covers])})
        for table in tables:
            writer.write_table(_with_columns(table, schema))
            keys.append(table.select(_KEYS))
            del table  # before the next one is made
    return sink.getvalue().to_pybytes(), pa.concat_tables(keys)


def _options(schema: pa.Schema) -> dict[str, Any]:
    """Return the Parquet writer's options, without dictionaries for columns of unique values.

    Measured on real text: zstd level 6 saves 7 % but takes twice as long; dictionary pages of up to 16 MiB save 12.5 %,
    but then reading one stream takes 107 ms instead of 41 ms.
    """
    leaves = _leaves(schema)
    encodings = dict.fromkeys(_CLOCKS, "PLAIN")
    encodings |= {name: "DELTA_LENGTH_BYTE_ARRAY" for name in leaves if name.endswith(_DIGESTS)}
    return {
        "compression": "zstd",
        "compression_level": ZSTD_LEVEL,
        "use_dictionary": [name for name in leaves if name not in encodings],
        "column_encoding": encodings,
        "write_statistics": _STATISTICS,
        "write_page_checksum": True,
        "store_schema": False,
    }


def _leaves(schema: pa.Schema) -> list[str]:
    """Return the Parquet columns of a schema, as dotted paths."""
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema).close()
    with pq.ParquetFile(pa.BufferReader(sink.getvalue())) as file:
        return [file.schema.column(place).path for place in range(len(file.schema))]


def _with_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Add null columns for the event types that only other row groups have."""
    columns = [
        table[field.name] if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
