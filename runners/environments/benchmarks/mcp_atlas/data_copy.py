"""Compute the digest of the data that servers see, and make a private copy of it for every trial."""

import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import DATA_MOUNT

_PREFIX = "lhaw-mcp-"
_LOCK = "lock"
_MOUNTED = re.compile(rf"(?<![\w./-]){re.escape(DATA_MOUNT)}(?![\w.-])")


def data_digest(folder: Path) -> str:
    """Return the SHA-256 over the sorted relative paths and contents of a folder's files."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return whole.hexdigest()


@asynccontextmanager
async def private_copy(folder: Path) -> AsyncIterator[Path]:
    """Create a writable copy of the data, and remove it at the end, even if a server changed its permissions.

    If a process is killed, its copy stays but is no longer locked. The next process that makes a copy removes it.
    """
    _sweep_once(tempfile.gettempdir())
    root = Path(tempfile.mkdtemp(prefix=_PREFIX))
    with (root / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            copy = root / "data"
            await anyio.to_thread.run_sync(copy_writable, folder, copy)
            yield copy
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove_tree, root)


@lru_cache(maxsize=4)
def _sweep_once(parent: str) -> None:
    """Remove the copies that killed processes left behind.

    A copy has no owner if its lock can be acquired. This also works if the owner ran in another container.
    """
    for root in Path(parent).glob(f"{_PREFIX}*"):
        try:
            with (root / _LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(root)
        except OSError:
            continue  # in use, somebody else's, or gone meanwhile


def copy_writable(source: Path, target: Path) -> None:
    """Copy a folder tree and make the copy writable for its owner, because servers run without root permissions."""
    target.mkdir()
    for entry in sorted(source.iterdir()):
        to = target / entry.name
        if entry.is_symlink():
            to.symlink_to(entry.readlink())
        elif entry.is_dir():
            copy_writable(entry, to)
        elif entry.is_file():
            shutil.copy2(entry, to)
            to.chmod(to.stat().st_mode | stat.S_IRUSR | stat.S_IWUSR)


def translated(value: Any, old: re.Pattern[str], new: str) -> Any:
    """Return JSON data with a path replaced in every string, for servers whose data cannot be mounted at ``/data``."""
    if isinstance(value, str):
        return old.sub(lambda _: new, value)
    if isinstance(value, dict):
        return {key: translated(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [translated(item, old, new) for item in value]
    return value


def mount_pattern() -> re.Pattern[str]:
    """Return a pattern that matches ``/data`` as a whole path, not inside another path."""
    return _MOUNTED


def remove_tree(root: Path) -> None:
    """Remove a folder tree, even if a server removed permissions from its folders."""
    for folder, _, _ in os.walk(root):
        with suppress(OSError):
            Path(folder).chmod(stat.S_IRWXU)
    shutil.rmtree(root, ignore_errors=True)
