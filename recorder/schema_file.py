"""One empty Parquet file with every column, so that foreign readers of a store see the whole schema."""

from recorder.disk import publish
from recorder.store import Store

SCHEMA_FILE = "events/experiment=_schema/schema.parquet"


def write_schema_file(store: Store) -> None:
    """Write the file into a partition of its own, so that readers with hive partitions take it, unless it is there."""
    path = store.root / SCHEMA_FILE
    if path.exists():
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    from recorder.schema import event_schema

    store.disk.make_directory(path.parent)
    store.disk.sync_directory(store.events_dir)
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, event_schema(), store_schema=False).close()
    publish(store.disk, path, sink.getvalue().to_pybytes())
