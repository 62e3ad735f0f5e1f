"""The events of single streams of a store, read one stream at a time while other things are written beside them."""

from collections import defaultdict
from pathlib import Path

from recorder.errors import DamagedStore
from recorder.events import AnyEvent
from recorder.reader import Snapshot, read_envelopes, stream_rows
from recorder.schema import from_row
from recorder.store import Store
from recorder.stream_index import load_index


class StreamReader:
    """Reads whole streams of one look at a store; each reads only the row groups that hold it.

    Args:
        store: The store.
        snapshot: The look.
    """

    def __init__(self, store: Store, snapshot: Snapshot) -> None:
        self._store = store
        self._places: dict[str, list[Path]] = defaultdict(list)
        for path in snapshot.segments:
            for stream_id in load_index(store, path)["stream_id"].to_pylist():
                self._places[stream_id].append(path)
        self._open: dict[str, list[dict[str, object]]] = defaultdict(list)
        for row in snapshot.open_rows.to_pylist():
            self._open[row["stream_id"]].append(row)

    def read(self, stream_id: str) -> list[AnyEvent]:
        """Return the events of a stream in order. Blocking: call it from a thread.

        Raises:
            StoreError: The store never holds still.
            DamagedStore: The stream is not as it was written.
        """
        try:
            rows = [
                row for path in self._places[stream_id] for row in stream_rows(self._store, path, stream_id).to_pylist()
            ]
        except FileNotFoundError:  # merged into another segment, and gone after its time of grace
            return [envelope.event for envelope in read_envelopes(self._store.root, stream_id)]
        envelopes = [from_row(row) for row in (*rows, *self._open.get(stream_id, ()))]
        envelopes.sort(key=lambda each: each.sequence)
        if [(each.stream_id, each.sequence) for each in envelopes] != [(stream_id, n) for n in range(len(envelopes))]:
            raise DamagedStore(
                f"stream {stream_id} of {self._store.name} is not whole; 'lhaw-record log verify' shows why"
            )
        return [envelope.event for envelope in envelopes]
