"""The reports of the store and of its experiments, made when somebody looks and kept until the store changes."""

from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread

from recorder.store import Store

MakeReport = Callable[[Path, str | None], bytes]
"""Makes the page about a store, or about one experiment in it; the layer that can is put in from above."""

_KEPT = 8  # pages may be some megabytes


class Reports:
    """The reports of one store; the last ones that were looked at are kept.

    Args:
        store: The store.
        make: Makes the page; in a thread, one at a time.
    """

    def __init__(self, store: Store, make: MakeReport) -> None:
        self._store = store
        self._make = make
        self._lock = anyio.Lock()
        self._kept: dict[str | None, tuple[frozenset[tuple[str, int]], bytes]] = {}

    async def page(self, experiment: str | None = None) -> bytes:
        """Return the page about the store, or one experiment in it, as it is now."""
        async with self._lock:
            state = await anyio.to_thread.run_sync(self._state)
            made, page = self._kept.pop(experiment, (None, b""))
            if made != state:
                page = await anyio.to_thread.run_sync(self._make, self._store.root, experiment)
            self._kept[experiment] = state, page
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
            return page

    def _state(self) -> frozenset[tuple[str, int]]:
        """What changes with every event: the names of journals and segments, and their sizes."""
        found = set()
        for path in (*self._store.journals().values(), *self._store.segment_paths()):
            try:
                found.add((path.name, path.stat().st_size))
            except FileNotFoundError:
                continue  # sealed or merged meanwhile: its successor differs too
        return frozenset(found)
