"""The report of the store, made when somebody looks and kept until the store changes."""

from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread

from recorder.store import Store

MakeReport = Callable[[Path], bytes]
"""Makes the page about a store; the layer that can is put in from above."""


class Reports:
    """The report of one store.

    Args:
        store: The store.
        make: Makes the page; in a thread, one at a time.
    """

    def __init__(self, store: Store, make: MakeReport) -> None:
        self._store = store
        self._make = make
        self._lock = anyio.Lock()
        self._kept: tuple[frozenset[tuple[str, int]], bytes] | None = None

    async def page(self) -> bytes:
        """Return the page about the store as it is now."""
        async with self._lock:
            state = await anyio.to_thread.run_sync(self._state)
            if self._kept is None or self._kept[0] != state:
                self._kept = state, await anyio.to_thread.run_sync(self._make, self._store.root)
            return self._kept[1]

    def _state(self) -> frozenset[tuple[str, int]]:
        """What changes with every event: the names of journals and segments, and their sizes."""
        found = set()
        for path in (*self._store.journals().values(), *self._store.segment_paths()):
            try:
                found.add((path.name, path.stat().st_size))
            except FileNotFoundError:
                continue  # sealed or merged meanwhile: its successor differs too
        return frozenset(found)
