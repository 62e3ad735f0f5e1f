"""Scratch folders. They are removed after use, or by a later start if their owner was killed."""

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "lhaw-scratch-"
_YOUNG_S = 60.0  # a folder exists briefly before it is locked


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield an empty private folder, and remove it with its content at the end."""
    root = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    owner = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(owner, fcntl.LOCK_EX)
        yield root
    finally:
        remove_folder(root)
        os.close(owner)


def sweep_scratch_folders(now_s: float | None = None) -> int:
    """Remove this user's scratch folders whose owners have died, and return how many were removed."""
    now_s = time.time() if now_s is None else now_s
    count = 0
    for root in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another start removed it, or the folder belongs to another user
            status = root.stat(follow_symlinks=False)
            if status.st_uid == os.geteuid() and now_s - status.st_mtime > _YOUNG_S:
                count += _is_removed(root)
    return count


def remove_folder(folder: Path) -> None:
    """Remove a folder and its content, including what an agent made unreadable or too deep for Python to walk."""
    with suppress(OSError, RecursionError):
        for inner, folder_names, _ in os.walk(folder):
            for name in folder_names:
                path = Path(inner, name)
                if not path.is_symlink():
                    path.chmod(0o700)
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    for command in (("chmod", "-R", "u+rwx"), ("rm", "-rf")) if folder.exists() else ():
        subprocess.run([*command, "--", folder], check=False, stderr=subprocess.DEVNULL)


def _is_removed(root: Path) -> bool:
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_folder(root)
    finally:
        os.close(descriptor)
    return True
