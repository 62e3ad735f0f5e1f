"""Write files into the work directory and read them back without following links or opening special files."""

# pathlib would cost milliseconds of every start.
# ruff: noqa: PTH103, PTH116, PTH118, PTH120, PTH211
import errno
import os
import stat

from lhaw_record.runners.environments.sandboxes.inside.pipes import CHUNK_BYTES

FIXED_TIME_S = 946_684_800  # 2000-01-01 UTC: a listing of new files is the same in every trial
LISTED_FILES_LIMIT = 20_000
LISTED_NAMES_LIMIT_BYTES = 8 << 20
DEPTH_LIMIT = 64
PATH_LIMIT_BYTES = 2048  # a choice: with the folder of a grader before it, below what Linux can open (PATH_MAX, 4096)


class ExportTooLargeError(Exception):
    """The work directory holds more than may be exported."""


def put(work_dir: str, kind: bytes, path: bytes, data: bytes) -> None:
    """Create one entry and its parent folders."""
    full = os.path.join(os.fsencode(work_dir), path)
    if kind == b"d":
        os.makedirs(full, exist_ok=True)
        return
    try:
        os.makedirs(os.path.dirname(full), exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
    if kind == b"l":
        os.symlink(data, full)
        return
    descriptor = _open_regular(full, os.O_WRONLY | (os.O_APPEND if kind == b"a" else os.O_CREAT))
    try:
        if kind != b"a":
            os.ftruncate(descriptor, 0)
        if kind == b"x":
            os.fchmod(descriptor, 0o755)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def settle(work_dir: str) -> None:
    """Set the modification time of every entry of the work directory to one fixed value."""
    times = (FIXED_TIME_S, FIXED_TIME_S)
    for folder, folder_names, file_names in os.walk(work_dir, topdown=False):
        for name in folder_names + file_names:
            os.utime(os.path.join(folder, name), times, follow_symlinks=False)
    os.utime(work_dir, times)


def read_chunk(work_dir: str, path: bytes, offset: int, limit_bytes: int) -> tuple[int, bytes]:
    """Return a file's size, and one chunk of its bytes from an offset."""
    descriptor = _open_regular(os.path.join(os.fsencode(work_dir), path), os.O_RDONLY)
    return _chunk(descriptor, offset, limit_bytes)


def export_chunk(work_dir: str, path: bytes, offset: int) -> tuple[int, bytes]:
    """Return the size and a chunk of a listed file, opening each path component without following links."""
    descriptor = _open_below(work_dir, path, os.O_RDONLY | os.O_NONBLOCK)
    return _chunk(descriptor, offset, 1 << 62)


def list_regular(work_dir: str, limit_bytes: int) -> list[bytes]:
    """Return a flat list of (path, size, kind) for every regular file (``x`` or ``f``), in a fixed order.

    Empty folders are listed too, with the kind ``d``, because a repository needs them.
    """
    fields: list[bytes] = []
    total = names = 0
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        entries = _entries(work_dir, folder)
        if folder and not entries:
            fields += (folder, b"0", b"d")
        for name, status in entries:
            path = os.path.join(folder, name)
            names += len(path)
            if stat.S_ISDIR(status.st_mode):
                waiting.append(path)
            elif stat.S_ISREG(status.st_mode):
                total += status.st_size
                fields += (path, b"%d" % status.st_size, b"x" if status.st_mode & 0o100 else b"f")
            _check_limits(path, len(fields) // 3 + len(waiting), names, total, limit_bytes)
    return fields


def _check_limits(path: bytes, count: int, names: int, total: int, limit_bytes: int) -> None:
    if count > LISTED_FILES_LIMIT or names > LISTED_NAMES_LIMIT_BYTES:
        raise ExportTooLargeError(f"more than {LISTED_FILES_LIMIT} files, or {LISTED_NAMES_LIMIT_BYTES} bytes of names")
    if path.count(b"/") >= DEPTH_LIMIT:
        raise ExportTooLargeError(f"folders nested more than {DEPTH_LIMIT} deep")
    if len(path) > PATH_LIMIT_BYTES:
        raise ExportTooLargeError(f"a path of more than {PATH_LIMIT_BYTES} bytes")
    if total > limit_bytes:
        raise ExportTooLargeError(f"files of more than {limit_bytes} bytes in all")


def _entries(work_dir: str, folder: bytes) -> list[tuple[bytes, os.stat_result]]:
    try:
        descriptor = _open_below(work_dir, folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return []  # unreadable, or just replaced by something else
    try:
        names = _names(descriptor)
        found = []
        for name in names:
            try:
                found.append((name, os.stat(name, dir_fd=descriptor, follow_symlinks=False)))
            except FileNotFoundError:
                continue
        return found
    finally:
        os.close(descriptor)


def _names(descriptor: int) -> list[bytes]:
    """Return the sorted names in a folder; a folder with millions of entries is not read to its end."""
    names = []
    with os.scandir(descriptor) as entries:
        for entry in entries:
            names.append(os.fsencode(entry.name))
            if len(names) > LISTED_FILES_LIMIT:
                raise ExportTooLargeError(f"a folder of more than {LISTED_FILES_LIMIT} entries")
    return sorted(names)


def _open_below(work_dir: str, path: bytes, flags: int) -> int:
    descriptor = os.open(work_dir, os.O_RDONLY | os.O_DIRECTORY)
    parts = path.split(b"/") if path else []
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        try:
            below = os.open(
                part, (flags if is_last else os.O_RDONLY | os.O_DIRECTORY) | os.O_NOFOLLOW, dir_fd=descriptor
            )
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _open_regular(path: bytes, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, 0o644)
    status = os.fstat(descriptor)
    problem = 0
    if stat.S_ISDIR(status.st_mode):
        problem = errno.EISDIR
    elif not stat.S_ISREG(status.st_mode):
        problem = errno.EINVAL
    elif os.access("/proc", os.F_OK) and status.st_dev == os.stat("/proc").st_dev:
        problem = errno.EACCES  # the driver would expose or change itself; commands can read their own /proc
    if problem:
        os.close(descriptor)
        raise OSError(problem, os.strerror(problem))
    return descriptor


def _chunk(descriptor: int, offset: int, limit_bytes: int) -> tuple[int, bytes]:
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if status.st_size > limit_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return status.st_size, os.pread(descriptor, CHUNK_BYTES, offset)
    finally:
        os.close(descriptor)
