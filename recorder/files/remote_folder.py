"""The location of a shared store's files: a directory that all hosts mount, or a prefix in an S3 bucket.

Both use pyarrow's file systems and guarantee that a file is complete when it appears and never changes. An object in an
S3-compatible bucket appears when its upload completes; a file in a directory gets its name when its bytes are durable.
Methods do not retry, and raise pyarrow's OSError.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.files.disk import Disk, publish
from lhaw_record.recorder.files.layout import MARKER

_CONNECT_TIMEOUT_S = 5.0
_SILENCE_TIMEOUT_S = 20.0


class RemoteFolder:
    """Files below a base path in a pyarrow file system. Methods take file names relative to that path."""

    def __init__(self, files: Any, base: str) -> None:
        self._files = files
        self._base = base

    def make(self, first: Mapping[str, bytes]) -> None:
        """Create the base path if the file system needs one, and write the first files in order."""
        for name, content in first.items():
            self.write(name, content)

    def names(self, folder: str) -> set[str]:
        """Return the names of all complete files below a folder."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._path(folder), recursive=True, allow_not_found=True)
        try:
            found = self._files.get_file_info(selector)
        except FileNotFoundError:  # pyarrow checks twice, and another host created the folder in between
            found = self._files.get_file_info(selector)
        start = len(self._base) + 1
        return {each.path[start:] for each in found if each.type == FileType.File and not each.path.endswith(".tmp")}

    def has(self, name: str) -> bool:
        """Return whether a file exists, with one request to a bucket (get_file_info sends two)."""
        try:
            self._files.open_input_file(self._path(name)).close()
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""
        with self._files.open_input_stream(self._path(name)) as stream:
            return bytes(stream.read())

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically."""
        stream = self._files.open_output_stream(self._path(name))
        stream.write(content)  # no context manager: closing would complete a failed upload
        stream.close()

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._files.delete_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}".rstrip("/")


class Directory(RemoteFolder):
    """A mounted directory, written through :class:`Disk` because pyarrow does not sync files."""

    def make(self, first: Mapping[str, bytes]) -> None:
        """Create the directory and write the first files in order. Its parent, a mount point, must exist."""
        Disk().make_directory(Path(self._base))
        for name, content in first.items():
            self._write(name, content)

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically and durably."""
        (Path(self._base) / MARKER).stat()
        self._write(name, content)

    def _write(self, name: str, content: bytes) -> None:
        disk = Disk()
        base, path = Path(self._base), Path(self._base) / name
        for folder in reversed([each for each in path.parents if base in each.parents]):
            if not folder.exists():
                disk.make_directory(folder)
                disk.sync_directory(folder.parent)
        publish(disk, path, content)


def open_folder(address: str) -> RemoteFolder:
    from pyarrow import ArrowException, fs

    if address.startswith("shared:"):
        return Directory(fs.LocalFileSystem(), address.removeprefix("shared:"))
    parts = urlsplit(address)
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    if "force_virtual_addressing" in options:
        options["force_virtual_addressing"] = options["force_virtual_addressing"] == "true"
    try:
        files = fs.S3FileSystem(
            **options,
            allow_delayed_open=True,  # a small file needs one request
            background_writes=False,
            connect_timeout=_CONNECT_TIMEOUT_S,
            request_timeout=_SILENCE_TIMEOUT_S,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),  # Remote retries
        )
    except (ArrowException, TypeError, ValueError) as error:
        raise StoreError(f"cannot open {address}: {error}") from error
    return RemoteFolder(files, parts.netloc + parts.path)
