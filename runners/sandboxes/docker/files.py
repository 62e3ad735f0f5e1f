"""Files into and out of a container as archives: bounded, regular files only, no path and no link led astray."""

import errno
import io
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

import anyio.to_thread
import msgspec

from runners.errors import SandboxBoundaryError
from runners.sandboxes.docker.engine import asked
from runners.sandboxes.inside.files import FIXED_TIME_S

if TYPE_CHECKING:
    from aiodocker.containers import DockerContainer

_CHUNK_BYTES = 1 << 20
_ARCHIVE_BYTES_PER_ENTRY = 4096  # headers, and long names in entries of their own


class FileLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What may come out of a container: bytes of all files together, and how many entries."""

    total_bytes: int = 64 << 20
    entries: int = 20_000


def packed(files: Mapping[str, bytes], executable: frozenset[str] = frozenset()) -> bytes:
    """Return an archive of files, all with one fixed time and root's."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o755 if name in executable else 0o644
            entry.mtime = FIXED_TIME_S
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


async def put_archive(container: "DockerContainer", folder: str, archive: bytes) -> None:
    """Unpack an archive into a folder of a container.

    Raises:
        SandboxBoundaryError: The folder is missing, read-only or full, or the container is gone.
    """
    async with asked(f"files cannot be put into {folder} of a container"):
        await container.put_archive(folder, io.BytesIO(archive))  # type: ignore[no-untyped-call]


async def take_archive(container: "DockerContainer", path: str, limits: FileLimits) -> bytes:
    """Return a path of a container as the engine packs it, for :func:`put_archive` into the folder that holds the path.

    Modes, owners and links stay as they are; nobody here looks into it.

    Raises:
        FileNotFoundError: There is nothing at the path.
        SandboxBoundaryError: It is more than the limits allow, or the container is gone.
    """
    with tempfile.TemporaryFile() as file:
        await _download(container, path, limits, file)
        file.seek(0)
        return await anyio.to_thread.run_sync(file.read)


async def read_archive(container: "DockerContainer", path: str, limits: FileLimits) -> dict[str, bytes]:
    """Return the regular files at or below a path of a container, by their path below it.

    Raises:
        FileNotFoundError: There is nothing at the path.
        SandboxBoundaryError: They are more than the limits allow, or the container is gone.
    """
    with tempfile.TemporaryFile() as file:
        await _download(container, path, limits, file)
        file.seek(0)
        return await anyio.to_thread.run_sync(regular_files, file, limits)


async def _download(container: "DockerContainer", path: str, limits: FileLimits, file: IO[bytes]) -> None:
    """Write the engine's archive to a file, and stop as soon as it is larger than anything allowed can be."""
    from aiodocker import DockerError

    left_bytes = limits.total_bytes + limits.entries * _ARCHIVE_BYTES_PER_ENTRY
    async with asked(f"{path} of a container cannot be read"):
        try:
            # The library's own get_archive takes all of it into memory, however much that is.
            query = container.docker._query(f"containers/{container.id}/archive", params={"path": path})
            async with query as response:
                async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                    left_bytes -= len(chunk)
                    if left_bytes < 0:
                        response.close()
                        raise _too_large(limits)
                    file.write(chunk)
        except DockerError as error:
            if error.status == 404 and "no such container" not in error.message.lower():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
            raise


def regular_files(archive: IO[bytes], limits: FileLimits) -> dict[str, bytes]:
    """Return the regular files of an engine's archive, by their paths without the first part, which was asked for.

    A second name of a file that is in the archive too is a file; symbolic links, devices and names that lead out of the
    folder are left out.

    Raises:
        SandboxBoundaryError: It holds more than the limits allow, or is no archive.
    """
    found: dict[str, bytes] = {}
    total_bytes = 0
    try:
        with tarfile.open(fileobj=archive, mode="r:") as entries:
            for count, (name, content) in enumerate(_regular(entries)):
                total_bytes += len(content)
                if total_bytes > limits.total_bytes or count >= limits.entries:
                    raise _too_large(limits)
                if name:
                    found[name] = content
    except tarfile.TarError as error:
        raise SandboxBoundaryError(f"the Docker Engine sent a broken archive: {error}", kind="engine_error") from error
    return found


def _regular(entries: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    """Yield (path, content), and an empty path for what only counts."""
    contents: dict[str, bytes] = {}
    for entry in entries:
        content = b""
        if entry.isfile():
            content = _content(entries, entry)
            contents[entry.name] = content
        elif entry.islnk() and entry.linkname in contents:
            content = contents[entry.linkname]
        else:
            yield "", b""
            continue
        parts = PurePosixPath(entry.name).parts
        below = parts[1:] or parts
        is_inside = not entry.name.startswith("/") and ".." not in parts and "\0" not in entry.name
        yield ("/".join(below) if is_inside else "", content)


def _content(entries: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = entries.extractfile(entry)
    assert file is not None
    return file.read()


def unpacked(files: Mapping[str, bytes], destination: Path) -> None:
    """Write files below a folder of this host that nobody else writes to."""
    for name, content in files.items():
        path = destination / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _too_large(limits: FileLimits) -> SandboxBoundaryError:
    return SandboxBoundaryError(
        f"a container has more to give than {limits.total_bytes} bytes or {limits.entries} entries",
        kind="export_too_large",
        is_retry_owed=False,
    )
