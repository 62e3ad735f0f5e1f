"""Reading a store while it is being written: sealed segments and open journals as one stream, each event once.

Journals are listed first and segments second. A journal that is sealed between the two looks is seen as its segment,
and the journal is skipped because a segment of its name covers it; a journal that vanished means: look again.
"""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from recorder.digest import CLOSING
from recorder.errors import StoreError
from recorder.events import Envelope, type_name
from recorder.journal import is_live, read_journal
from recorder.schema import from_row, to_table
from recorder.store import JournalName, Store

_MOST_LOOKS = 100
_CLOSING_NAMES = frozenset(type_name(cls) for cls in CLOSING)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One consistent look at a store.

    ``open_rows`` has the full schema, also when it is empty. ``live_streams`` are those that a living writer has
    begun and not closed; other open streams were interrupted. ``warnings`` name torn tails that were skipped.
    """

    store: Path
    segments: tuple[Path, ...]
    open_rows: pa.Table
    live_streams: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


def read_snapshot(root: Path) -> Snapshot:
    """Return everything in a store as it is now.

    Raises:
        StoreError: There is no store, or it never holds still.
        DamagedStore: A journal is damaged in the middle.
    """
    store = Store(root)
    for _ in range(_MOST_LOOKS):
        try:
            return _look(store)
        except FileNotFoundError:
            continue  # sealed between listing and reading
    raise StoreError(f"{root} changed {_MOST_LOOKS} times while it was being read; try again")


def _look(store: Store) -> Snapshot:
    journals = store.journals()
    segments = store.segments()
    envelopes: list[Envelope] = []
    live_writers: set[str] = set()
    warnings: list[str] = []
    for name, path in journals.items():
        if name in segments:
            continue
        live = is_live(path)
        content = read_journal(path, path.read_bytes())
        if live:
            live_writers.add(name.writer_id)
        elif content is not None and content.tail.torn_bytes:
            warnings.append(f"{path}: {content.tail.torn_bytes} bytes of an unfinished record are skipped")
        if content is not None:
            envelopes += content.envelopes()
    return Snapshot(
        store=store.root,
        segments=tuple(segments.values()),
        open_rows=to_table(envelopes),
        live_streams=_open_streams(envelopes, segments, live_writers),
        warnings=tuple(warnings),
    )


def _open_streams(envelopes: list[Envelope], segments: dict[JournalName, Path], writers: set[str]) -> frozenset[str]:
    """The streams of some writers that have no closing event yet."""
    begun: set[str] = set()
    closed: set[str] = set()
    for name, path in segments.items():
        if name.writer_id in writers:
            rows = pq.read_table(path, columns=["stream_id", "type"], partitioning=None).to_pydict()
            begun.update(rows["stream_id"])
            pairs = zip(rows["stream_id"], rows["type"], strict=True)
            closed.update(stream for stream, kind in pairs if kind in _CLOSING_NAMES)
    for envelope in envelopes:
        if envelope.writer_id in writers:
            begun.add(envelope.stream_id)
            if isinstance(envelope.event, CLOSING):
                closed.add(envelope.stream_id)
    return frozenset(begun - closed)


def read_envelopes(root: Path, stream_id: str | None = None) -> list[Envelope]:
    """Return the events of a store, or of one of its streams, as records; each stream in its order.

    Raises:
        StoreError: There is no store.
        DamagedStore: A journal is damaged in the middle.
    """
    snapshot = read_snapshot(root)
    wanted = None if stream_id is None else ds.field("stream_id") == stream_id
    found: list[Envelope] = []
    for path in snapshot.segments:
        found += [from_row(row) for row in ds.dataset(path).to_table(filter=wanted).to_pylist()]
    found += [from_row(row) for row in ds.dataset(snapshot.open_rows).to_table(filter=wanted).to_pylist()]
    return sorted(found, key=lambda envelope: envelope.sequence) if stream_id else found


def stream_ids(root: Path) -> frozenset[str]:
    """Return the ids of all streams of a store.

    Raises:
        StoreError: There is no store.
    """
    snapshot = read_snapshot(root)
    sources = [*(ds.dataset(path) for path in snapshot.segments), ds.dataset(snapshot.open_rows)]
    tables = [source.to_table(columns=["stream_id"]) for source in sources]
    return frozenset(pa.concat_tables(tables)["stream_id"].unique().to_pylist())
