"""The data that servers see: its digest, and the private copy that every trial works on."""

import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runners.benchmarks.mcp_atlas.confinement import DATA_MOUNT

_MOUNTED = re.compile(rf"(?<![\w./-]){re.escape(DATA_MOUNT)}(?![\w.-])")


def data_digest(folder: Path) -> str:
    """Return the SHA-256 over the sorted relative paths and contents of a folder's files."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return whole.hexdigest()


@contextmanager
def private_copy(folder: Path) -> Iterator[Path]:
    """Make a writable copy of the data and remove it afterwards, whatever was done to it."""
    root = Path(tempfile.mkdtemp(prefix="lhaw-mcp-"))
    try:
        copy = root / "data"
        copy_writable(folder, copy)
        yield copy
    finally:
        shutil.rmtree(root, onerror=_make_removable)


def copy_writable(source: Path, target: Path) -> None:
    """Copy a tree so that its owner may write: servers run without the privilege to ignore permissions."""
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
    """Return JSON data with a path replaced in every text; for servers that cannot have their data at ``/data``."""
    if isinstance(value, str):
        return old.sub(lambda _: new, value)
    if isinstance(value, dict):
        return {key: translated(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [translated(item, old, new) for item in value]
    return value


def mount_pattern() -> re.Pattern[str]:
    """Return what finds ``/data`` as a path of its own, and not inside another path."""
    return _MOUNTED


def _make_removable(function: Any, path: str, _: Any) -> None:
    """Give back the permissions that a server took away, and try once more; what vanished meanwhile is gone."""
    try:
        Path(path).parent.chmod(0o700)
        if not Path(path).is_symlink():
            Path(path).chmod(0o700)
        function(path) if function is not os.scandir else shutil.rmtree(path, ignore_errors=True)
    except OSError:
        return
