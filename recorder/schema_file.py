"""One empty Parquet file with every column, so that foreign readers of a store see the whole schema."""

from pathlib import Path

from recorder.store import durable_write


def write_schema_file(events_dir: Path) -> None:
    """Write the file into a partition of its own, so that readers with hive partitions take it, unless it is there."""
    path = events_dir / "experiment=_schema" / "schema.parquet"
    if path.exists():
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    from recorder.schema import event_schema

    path.parent.mkdir(exist_ok=True)
    sink = pa.BufferOutputStream()
    pq.write_table(event_schema().empty_table(), sink, compression="zstd")
    durable_write(path, sink.getvalue().to_pybytes())
