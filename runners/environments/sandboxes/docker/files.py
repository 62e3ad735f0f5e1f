"""Copy files into and out of a container as archives, with size limits and without links or unsafe paths."""

import errno
import io
import os
import tarfile
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, TypeVar

import anyio.to_thread
import msgspec

from lhaw_record.runners.base.errors import SandboxBoundaryError, SandboxUnfit
from lhaw_record.runners.environments.sandboxes.docker.engine import asked
from lhaw_record.runners.environments.sandboxes.inside.files import DEPTH_LIMIT, FIXED_TIME_S, PATH_LIMIT_BYTES

if TYPE_CHECKING:
    from aiodocker.containers import DockerContainer

T = TypeVar("T")

_CHUNK_BYTES = 1 << 20
_ARCHIVE_BYTES_PER_ENTRY = 4096  # headers, and long names in entries of their own


class FileLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much may be copied out of a container: total bytes and number of entries."""

    total_bytes: int = 64 << 20
    entries: int = 20_000


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files that are owned by root and have one fixed modification time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mtime = FIXED_TIME_S
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@asynccontextmanager
async def folder_archive(folder: Path, target: str = ".") -> AsyncIterator[IO[bytes]]:
    """Yield an archive file of a host folder with modes and links, owned by root, below the path ``target``."""
    with tempfile.TemporaryFile() as file:
        await anyio.to_thread.run_sync(_write_archive, folder, target, file)
        yield file


def _write_archive(folder: Path, target: str, file: IO[bytes]) -> None:
    # A builder does not recognise an archive that begins with a PAX header.
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(folder, arcname=target, filter=_of_root)
    file.seek(0)


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = int(entry.mtime)
    return entry


async def put_archive(container: "DockerContainer", folder: str, archive: bytes | IO[bytes]) -> None:
    """Unpack an archive, given as bytes or as a file, into a folder of a container."""
    async with asked(f"files cannot be put into {folder} of a container"):
        await container.put_archive(folder, pieces(archive))  # type: ignore[no-untyped-call]


async def pieces(archive: bytes | IO[bytes]) -> AsyncIterator[bytes]:
    """Yield an archive, given as bytes or as a file, in chunks.

    An engine may answer before it has read the padding of an archive. aiohttp's own file reader would then read from
    the closed file and print a traceback.
    """
    file = io.BytesIO(archive) if isinstance(archive, bytes) else archive
    while piece := await anyio.to_thread.run_sync(file.read, _CHUNK_BYTES):
        yield piece


async def taken(container: "DockerContainer", path: str, limits: FileLimits, read: Callable[[IO[bytes]], T]) -> T:
    """Read a path of a container as an archive whose entries have their modes, owners and links."""
    with tempfile.TemporaryFile() as file:
        await _download(container, path, limits, file)
        file.seek(0)
        return await anyio.to_thread.run_sync(read, file)


async def _download(container: "DockerContainer", path: str, limits: FileLimits, file: IO[bytes]) -> None:
    """Write the engine's archive to a file, and stop as soon as it exceeds the limits."""
    from aiodocker import DockerError

    left_bytes = limits.total_bytes + limits.entries * _ARCHIVE_BYTES_PER_ENTRY
    async with asked(f"{path} of a container cannot be read"):
        try:
            # The library's own get_archive reads everything into memory, without a limit.
            query = container.docker._query(f"containers/{container.id}/archive", params={"path": path})
            async with query as response:
                async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                    left_bytes -= len(chunk)
                    if left_bytes < 0:
                        response.close()
                        raise too_large(limits)
                    file.write(chunk)
        except DockerError as error:
            if error.status == 404 and "no such container" not in error.message.lower():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
            raise


def regular_files(archive: IO[bytes], limits: FileLimits) -> dict[str, bytes]:
    """Return the regular files of an engine's archive, keyed by their paths below the requested path.

    Hard links to files in the archive count as files. Symbolic links, devices and unsafe paths are skipped.
    """
    found: dict[str, bytes] = {}
    total_bytes = 0
    try:
        with tarfile.open(fileobj=archive, mode="r:") as entries:
            for count, (name, content) in enumerate(_regular(entries)):
                total_bytes += len(content)
                if total_bytes > limits.total_bytes or count >= limits.entries:
                    raise too_large(limits)
                if name:
                    found[name] = content
    except tarfile.TarError as error:
        raise SandboxBoundaryError(f"the Docker Engine sent a broken archive: {error}", kind="engine_error") from error
    return found


def _regular(entries: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    """Yield (path, content) for each entry. The path is empty for entries that only count towards the limits."""
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
        is_inside &= len(os.fsencode("/".join(below))) <= PATH_LIMIT_BYTES and len(below) <= DEPTH_LIMIT
        yield ("/".join(below) if is_inside else "", content)


def _content(entries: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = entries.extractfile(entry)
    assert file is not None
    return file.read()


def too_large(limits: FileLimits) -> SandboxBoundaryError:
    return SandboxUnfit(
        f"the files in the container exceed {limits.total_bytes} bytes or {limits.entries} entries",
        kind="export_too_large",
    )
