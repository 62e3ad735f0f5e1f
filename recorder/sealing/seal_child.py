"""The child process that seals a large journal while the run continues.

    python -m lhaw_record.recorder.sealing.seal_child STORE JOURNAL

The child inherits the journal's descriptor, and thereby its lock, so that no other process takes the journal. It lowers
its priority below that of the run before it loads large libraries.
"""

import gc
import os
import subprocess
import sys
from pathlib import Path

from lhaw_record.recorder.processes import refuse_pandas, start_module
from lhaw_record.recorder.storage.journal import JournalFile
from lhaw_record.recorder.storage.store import Store

NICENESS = 10
SMALL_BYTES = 1 << 20
"""Sealing a journal up to this size takes 0.06 s of CPU time; a child takes 0.3 s to start and load pyarrow."""


class _Sealed:
    """A journal that has been sealed."""

    def wait(self) -> int:
        """Return 0."""
        return 0


def start_sealing(store: Store, journal: JournalFile) -> "_Sealed | subprocess.Popen[bytes]":
    """Seal a small closed journal in this thread, or start a child process for a large one."""
    if journal.size <= SMALL_BYTES and _is_sealed_here(store, journal.path):
        return _Sealed()
    return start_child(store, journal)  # if sealing failed here, the child retries and reports the reason


def _is_sealed_here(store: Store, journal: Path) -> bool:
    from lhaw_record.recorder.sealing.seal import seal

    try:
        seal(store, journal)
    except Exception:  # noqa: BLE001 - the child retries and reports the reason
        return False
    return True


def start_child(store: Store, journal: JournalFile) -> "subprocess.Popen[bytes]":
    """Start a child process that seals a closed journal."""
    return start_module(
        "lhaw_record.recorder.sealing.seal_child", [str(store.root), str(journal.path)], journal.descriptor
    )


def main(arguments: list[str]) -> int:
    """Seal the journal named on the command line. Return the exit code, 0 or 1."""
    os.nice(NICENESS)
    refuse_pandas("numpy")
    gc.disable()  # sealing makes no cycles
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # pyarrow's own keeps much of what was freed
    import pyarrow as pa

    from lhaw_record.recorder.errors import DamagedStore
    from lhaw_record.recorder.sealing.seal import seal

    root, journal = arguments
    try:
        seal(Store(Path(root)), Path(journal))
    except (DamagedStore, OSError, pa.ArrowException) as error:
        print(f"lhaw-record: sealing failed: {error}", file=sys.stderr)  # noqa: T201 - a child can only print
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
