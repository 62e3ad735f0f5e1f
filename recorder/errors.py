"""The errors that the recorder raises.

RecorderError
├── StoreError          the directory is not a store, has a newer format, or cannot be written to
│   ├── NewerData       a file holds what only a newer version knows
│   └── StoreInUse      another run holds the experiment
├── RecordingFailed     the journal could not be written (disk full, I/O error): the run must stop
└── DamagedStore        bytes on disk are not what was written; the message names the file and what is lost
"""

import errno
import os
import tempfile
from pathlib import Path

NEXT_STEPS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free space there or name another place"),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "ask for the rights to it, or name another place"),
    errno.EROFS: "name a place that you may write to",
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "a file is in the way of a folder, so name another place"),
    errno.EISDIR: "name a file, not a folder",
    errno.ENOENT: "name a place that can be created",
    errno.ENAMETOOLONG: "name a shorter path",
    errno.EIO: "check the disk",
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "allow more open files (ulimit -n 4096)"),
    **dict.fromkeys(
        (errno.ENOLCK, errno.EOPNOTSUPP),
        "its file system has no locks, so name a place on a disk of this host (docs/shared-stores.md)",
    ),
}
"""What a user can do when the system refuses something, by the number of its error."""


def refusal(error: OSError, path: Path | None = None) -> str:
    """Return a sentence from a system's error: the place, what is wrong, and the next step.

    The place is ``path``, or what the error names; a failed write names none.
    """
    place = path or error.filename
    step = NEXT_STEPS.get(error.errno or 0, "correct this or name another place")
    if place is not None:
        return f"{place}: {os.strerror(error.errno) if error.errno else error}; {step}"
    if error.errno in (errno.ENOSPC, errno.ENOENT):  # most often of a temporary file
        now = f" (now {tempfile.tempdir})" if tempfile.tempdir else ""
        step = f"free space, or name a folder for temporary files with TMPDIR{now}"
    return f"{error.strerror or error}; {step}"


class RecorderError(Exception):
    """Base class of the recorder's errors. Every message names the file and the next step."""


class StoreError(RecorderError):
    """The directory cannot be used as a store."""


class NewerData(StoreError):
    """A file holds what only a newer version knows, and this one would lose."""

    def __init__(self, path: Path, what: object) -> None:
        self.path = path
        super().__init__(
            f"{path} holds data of a newer version ({what}), which this version would lose; "
            "use the newest lhaw-record that wrote to the store"
        )


class StoreInUse(StoreError):
    """Another process is running the experiment. The message names the process."""


class RecordingFailed(RecorderError):
    """An event could not be made durable. All events acknowledged before it are safe."""


class DamagedStore(RecorderError):
    """Stored bytes fail their checksum, do not decode, or are missing."""
