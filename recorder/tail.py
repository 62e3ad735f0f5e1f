"""The last events of a store, one line each."""

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from recorder.reader import read_snapshot
from recorder.schema import ENVELOPE_FIELDS

_LONGEST_SUMMARY = 100


def last_events(root: Path, count: int, stream_id: str | None = None) -> list[dict[str, Any]]:
    """Return the last events of a store in the order of their time, as rows of stream, sequence, type and summary.

    Args:
        root: The store.
        count: How many at most.
        stream_id: Only this stream; all if None.
    """
    snapshot = read_snapshot(root)
    sources = [*(ds.dataset(path) for path in snapshot.segments), ds.dataset(snapshot.open_rows)]
    names = [field.name for field in ENVELOPE_FIELDS]
    keys = pa.concat_tables([_positions(source, names, stream_id, place) for place, source in enumerate(sources)])
    order = [("recorded_at_us", "ascending"), ("stream_id", "ascending"), ("sequence", "ascending")]
    last = keys.sort_by(order).slice(max(0, keys.num_rows - count)).to_pylist()
    return [_row(key, sources[key["place"]].take([key["position"]]).to_pylist()[0]) for key in last]


def _positions(source: ds.Dataset, names: list[str], stream_id: str | None, place: int) -> pa.Table:
    """The envelopes of one file with where each row stands, so that only the last rows are read whole."""
    table = source.to_table(columns=names)
    table = table.append_column("position", pa.array(range(table.num_rows), pa.int64()))
    table = table.append_column("place", pa.array([place] * table.num_rows, pa.int64()))
    return table if stream_id is None else table.filter(ds.field("stream_id") == stream_id)


def _row(key: dict[str, Any], full: dict[str, Any]) -> dict[str, Any]:
    seconds, micros = divmod(key["recorded_at_us"], 1_000_000)
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
    return {
        "recorded_at": f"{moment}.{micros // 1000:03d}Z",
        "stream_id": key["stream_id"],
        "sequence": key["sequence"],
        "type": key["type"],
        "summary": _summary(full[key["type"]]),
    }


def _summary(event: dict[str, Any]) -> str:
    parts = [
        f"{name}={value}"
        for name, value in event.items()
        if value not in (None, "", []) and not isinstance(value, dict)
    ]
    text = " ".join(parts).replace("\n", " ")
    return text if len(text) <= _LONGEST_SUMMARY else text[: _LONGEST_SUMMARY - 1] + "…"
