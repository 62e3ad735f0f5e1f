"""One trial fetched from a store, timed inside a process of its own, after what it needs is loaded.

    python -m tests.bench.fetching {dropped,warm} STORE STREAM_ID [STREAM_ID ...]

prints one number of milliseconds for each stream. The first has in it what a process does once.
"""

import json
import sys
import time
from pathlib import Path

from lhaw_record.recorder.reading.reader import read_envelopes
from tests.bench.cold import drop_from_cache


def main(page_cache: str, store: str, *stream_ids: str) -> None:
    """Fetch every stream once."""
    root, times_ms = Path(store), []
    for stream_id in stream_ids:
        if page_cache == "dropped":
            drop_from_cache(root)
        began_s = time.perf_counter()
        events = read_envelopes(root, stream_id)
        times_ms.append((time.perf_counter() - began_s) * 1e3)
        assert events[0].stream_id == stream_id
    sys.stdout.write(json.dumps(times_ms) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
