"""Lines of the last events: made from rows of segments and from records of journals, with the fewest rows read."""

import heapq
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from recorder.errors import DamagedStore
from recorder.events import Envelope, type_name
from recorder.segments import where_now

_LONGEST_SUMMARY = 100
_ORDER = ("recorded_at_us", "experiment_id", "stream_id", "sequence")


class Line(msgspec.Struct, frozen=True, order=True):
    """One event: its place in time, what it is, and a summary. Ordered as it is printed."""

    recorded_at_us: int
    experiment_id: str
    stream_id: str
    sequence: int
    type: str
    summary: str

    def row(self) -> dict[str, Any]:
        """Return it as it is printed."""
        seconds, micros = divmod(self.recorded_at_us, 1_000_000)
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
        return {
            "recorded_at": f"{moment}.{micros // 1000:03d}Z",
            "stream_id": self.stream_id,
            "sequence": self.sequence,
            "type": self.type,
            "summary": self.summary,
        }


def line_of(envelope: Envelope) -> Line:
    """Return the line of a record."""
    return Line(
        envelope.recorded_at_us,
        envelope.experiment_id,
        envelope.stream_id,
        envelope.sequence,
        type_name(type(envelope.event)),
        _summary(msgspec.structs.asdict(envelope.event)),
    )


def lines_of(path: Path, rows: pa.Table) -> list[Line]:
    """Return the lines of whole rows of a segment."""
    with readable(path):
        return [
            Line(
                row["recorded_at_us"],
                row["experiment_id"],
                row["stream_id"],
                row["sequence"],
                row["type"],
                _summary(row[row["type"]]),
            )
            for row in rows.to_pylist()
        ]


def last_lines(paths: Iterable[Path], found: list[Line], count: int) -> list[Line]:
    """Return the last lines of some segments and of what was found elsewhere, in no order.

    Row groups are looked at from the newest on, until the next one is older than enough lines.

    Raises:
        FileNotFoundError: A segment is gone.
        DamagedStore: A segment cannot be read.
    """
    best = [_Key((line.recorded_at_us, line.experiment_id, line.stream_id, line.sequence), line=line) for line in found]
    for newest_us, path, group in sorted(chain.from_iterable(map(_groups, paths)), reverse=True):
        if len(best) >= count and newest_us < best[-1].order[0]:
            break
        best = heapq.nlargest(count, [*best, *_last_keys(path, group, count)])
    places: dict[tuple[Path, int], list[int]] = defaultdict(list)
    for key in best:
        if key.path is not None:
            places[key.path, key.group].append(key.row)
    lines = [key.line for key in best if key.line is not None]
    for (path, group), rows in places.items():
        lines += _lines_at(path, group, rows)
    return lines


def fresh_lines(path: Path, sequences: Mapping[tuple[str, str], int], since_us: int) -> list[Line]:
    """Return the lines of a segment's events that come after those that were seen of their streams.

    Args:
        path: The segment.
        sequences: The last sequence that was seen, by experiment and stream.
        since_us: Older events are left out.

    Raises:
        FileNotFoundError: It is gone.
        DamagedStore: It cannot be read.
    """
    lines: list[Line] = []
    for _, _, group in _groups(path):
        keys = _read_keys(path, group).to_pylist()
        rows = [
            row
            for row, key in enumerate(keys)
            if key["sequence"] > sequences.get((key["experiment_id"], key["stream_id"]), -1)
            and key["recorded_at_us"] >= since_us
        ]
        lines += _lines_at(path, group, rows) if rows else []
    return lines


class _Key(msgspec.Struct, frozen=True, order=True):
    """One event as it is ordered, and where its line comes from: a row of a segment, or it is there already."""

    order: tuple[int, str, str, int]
    path: Path | None = None
    group: int = 0
    row: int = 0
    line: Line | None = None


def _groups(path: Path) -> list[tuple[int, Path, int]]:
    """The row groups of a segment, each with the time of its newest event."""
    with readable(path):
        metadata = pq.read_metadata(where_now(path), memory_map=True)
        names = [metadata.schema.column(place).path for place in range(len(metadata.schema))]
        place = names.index("recorded_at_us")
        groups = range(metadata.num_row_groups)
        return [(metadata.row_group(group).column(place).statistics.max, path, group) for group in groups]


def _last_keys(path: Path, group: int, count: int) -> list[_Key]:
    rows = _read_keys(path, group)
    rows = rows.append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    last = rows.sort_by([(key, "descending") for key in _ORDER]).slice(0, count).to_pylist()
    return [
        _Key(
            (each["recorded_at_us"], each["experiment_id"], each["stream_id"], each["sequence"]),
            path,
            group,
            each["row"],
        )
        for each in last
    ]


def _read_keys(path: Path, group: int) -> pa.Table:
    with readable(path), pq.ParquetFile(where_now(path), memory_map=True) as file:
        return file.read_row_group(group, columns=list(_ORDER))


def _lines_at(path: Path, group: int, rows: list[int]) -> list[Line]:
    """The lines of some rows of a row group; only the columns of their types are read."""
    with readable(path), pq.ParquetFile(where_now(path), memory_map=True) as file:
        types = set(file.read_row_group(group, columns=["type"])["type"].take(rows).to_pylist())
        return lines_of(path, file.read_row_group(group, columns=[*_ORDER, "type", *sorted(types)]).take(rows))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what a library raises into an error that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, LookupError, ValueError, pa.ArrowException) as error:
        raise DamagedStore(f"{path} cannot be read ({error}); 'lhaw-record log verify' shows more") from error


def _summary(event: Mapping[str, Any]) -> str:
    parts = [
        f"{name}={value}"
        for name, value in event.items()
        if value not in (None, "", [], ()) and not isinstance(value, dict | msgspec.Struct)
    ]
    text = " ".join(parts).replace("\n", " ")
    return text if len(text) <= _LONGEST_SUMMARY else text[: _LONGEST_SUMMARY - 1] + "…"
