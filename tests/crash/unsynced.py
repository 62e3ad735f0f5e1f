"""A disk without syncs: all the same for whatever a kill or an error leaves, for files outlive a process without them.

Which syncs are needed, and in which order, is what the power cuts show: they follow what was asked of the disk.
"""

from pathlib import Path

from lhaw_record.recorder.files.disk import Disk


class UnsyncedDisk(Disk):
    """The real disk without its longest waits."""

    def sync(self, descriptor: int) -> None:
        """Take it as done."""

    def sync_directory(self, path: Path) -> None:
        """Take it as done."""
