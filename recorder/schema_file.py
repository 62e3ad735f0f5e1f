"""One empty Parquet file with every column, so that foreign readers of a store see the whole schema."""

from pathlib import Path

from recorder.store import durable_write


def write_schema_file(events_dir: Path) -> None:
    """Write ``_schema.parquet`` into the folder of segments unless it is there already."""
    path = events_dir / "_schema.parquet"
    if path.exists():
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    from recorder.schema import event_schema

    sink = pa.BufferOutputStream()
    pq.write_table(event_schema().empty_table(), sink, compression="zstd")
    durable_write(path, sink.getvalue().to_pybytes())
