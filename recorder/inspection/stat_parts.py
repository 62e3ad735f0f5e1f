"""What one segment or journal tells of itself without being read whole, for the numbers of a store."""

from collections import Counter
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recorder.digest import CLOSING
from recorder.errors import DamagedStore
from recorder.events import type_name
from recorder.journal import is_live, read_journal
from recorder.segments import Segment
from recorder.store import Store
from recorder.stream_index import load_index

_COLUMNS = ["type", "trial_id"]
_NO_STREAMS = pa.schema({"stream_id": pa.string(), "is_closed": pa.bool_()}).empty_table()


class Part(msgspec.Struct, kw_only=True):
    """What one segment or journal holds; ``live_writer`` where somebody is writing it.

    ``streams`` has the columns stream_id and is_closed. These and the trials stay in Arrow: counting 170,000 of them as
    Python objects took a second.
    """

    experiment_id: str
    writers: frozenset[str] = frozenset()
    live_writer: str | None = None
    types: Counter[str] = msgspec.field(default_factory=Counter)
    trials: list[pa.Array] = msgspec.field(default_factory=list)
    streams: pa.Table = msgspec.field(default_factory=lambda: _NO_STREAMS)
    times_us: list[int] = msgspec.field(default_factory=list)
    problems: list[str] = msgspec.field(default_factory=list)
    is_damaged: bool = False


def segment_part(store: Store, segment: Segment) -> Part:
    """Return what the end of a segment, two of its columns and its index tell.

    Raises:
        FileNotFoundError: It is gone.
    """
    writers = frozenset(name.writer_id for name in segment.covers)
    part = Part(experiment_id=segment.experiment_id, writers=writers)
    try:
        index = load_index(store, segment.path)
        with pq.ParquetFile(segment.path, read_dictionary=_COLUMNS, memory_map=True) as file:
            rows = file.read(_COLUMNS, use_threads=False)
            part.times_us = _times_us(file.metadata)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        part.problems.append(f"{segment.path} cannot be read: {error}")
        part.is_damaged = True
        return part
    if rows.num_rows != segment.records:
        part.problems.append(f"{segment.path} holds {rows.num_rows} of {segment.records} rows")
        part.is_damaged = True
    for chunk in rows["type"].chunks:
        for each in pc.value_counts(chunk.indices).to_pylist():
            part.types[chunk.dictionary[each["values"]].as_py()] += each["counts"]
    for chunk in rows["trial_id"].chunks:
        part.trials.append(chunk.dictionary.cast(pa.string()))
    part.streams = index.select(["stream_id", "is_closed"])
    return part


def _times_us(metadata: pq.FileMetaData) -> list[int]:
    """The first and the last time of each row group, from its statistics."""
    names = [metadata.schema.column(place).path for place in range(len(metadata.schema))]
    place = names.index("recorded_at_us")
    found = [metadata.row_group(group).column(place).statistics for group in range(metadata.num_row_groups)]
    return [time_us for each in found if each is not None for time_us in (each.min, each.max)]


def journal_part(path: Path) -> Part | None:
    """Return what an open journal tells; None when not even its header was finished.

    Raises:
        FileNotFoundError: It is gone.
    """
    try:
        live = is_live(path)
        content = read_journal(path, path.read_bytes())
        envelopes = content.envelopes() if content else []
    except (DamagedStore, OSError, msgspec.MsgspecError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        return Part(experiment_id="unknown", problems=[str(error)], is_damaged=True)
    if content is None:
        return None
    writer_id = content.header.writer_id
    part = Part(
        experiment_id=content.header.experiment_id,
        writers=frozenset([writer_id]),
        live_writer=writer_id if live else None,
    )
    ends = {envelope.stream_id: isinstance(envelope.event, CLOSING) for envelope in envelopes}
    part.types = Counter(type_name(type(envelope.event)) for envelope in envelopes)
    part.trials = [pa.array([each.trial_id for each in envelopes if each.trial_id], pa.string())]
    part.streams = pa.table(
        {"stream_id": pa.array(ends, pa.string()), "is_closed": pa.array(ends.values(), pa.bool_())}
    )
    part.times_us = [envelope.recorded_at_us for envelope in envelopes]
    if content.tail.torn_bytes and not live:
        part.problems.append(
            f"{path}: {content.tail.torn_bytes} bytes of an unfinished commit; 'log recover' cuts them"
        )
    elif not live:
        part.problems.append(f"{path} has no living writer; 'log recover' closes and seals it")
    return part
