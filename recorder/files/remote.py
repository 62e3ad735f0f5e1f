"""Reads and writes the remote files of a shared store, and retries while the connection is lost.

Retries use exponential backoff up to a time limit, the patience. Permanent errors, such as a missing bucket, a rejected
key or a full disk, are raised at once.
"""

import errno
import json
import os
import random
import re
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.files.disk import Disk, publish
from lhaw_record.recorder.files.layout import FORMAT, MARKER, marker

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


T = TypeVar("T")

PATIENCE_VARIABLE = "LHAW_RECORD_PATIENCE_S"
PUBLISHING_PATIENCE_S = 600.0
READING_PATIENCE_S = 20.0
_MAKERS = "makers"
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 15.0
_INCURABLE_ERRNOS = (errno.EACCES, errno.EDQUOT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS)
_INCURABLE_S3 = re.compile(
    r"AWS Error (ACCESS_DENIED|INCOMPLETE_SIGNATURE|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|INVALID_SIGNATURE|"
    r"MISSING_AUTHENTICATION_TOKEN|NO_SUCH_BUCKET|OPT_IN_REQUIRED|SIGNATURE_DOES_NOT_MATCH|UNRECOGNIZED_CLIENT)"
    r"|HTTP status 30[17]"
)
_S3_ERROR = re.compile(
    r"AWS Error (?P<code>\w+) during \w+ operation: (?P<said>.*?)\.?( \(Request ID: .*\))?"
    r"(; Details: (?P<details>.*))?$",
    re.DOTALL,
)


class Remote:
    """The files of a shared store. Methods block and take paths relative to the store's location.

    Args:
        address: The text of a :class:`lhaw_record.recorder.sharing.address.SharedAddress`.
        patience_s: How long to retry after a lost connection, in seconds.
        sleep: Waits between two attempts.
    """

    def __init__(
        self, address: str, *, patience_s: float = READING_PATIENCE_S, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.address = address
        self.patience_s = patience_s
        self._sleep = sleep
        self._is_made = False

    def is_made(self) -> bool:
        """Return whether the location holds a shared store; a positive answer is cached."""
        if self._is_made:
            return True
        try:
            said = json.loads(self.get(MARKER))
            found, is_shared = said["format"], said.get("is_shared")
        except FileNotFoundError:
            return False
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{MARKER} in {self.address} is damaged ({error}); restore it") from error
        if found != FORMAT:
            raise StoreError(f"{self.address} has store format {found}, this version reads {FORMAT}")
        if not is_shared:
            raise StoreError(f"{self.address} is a store of one host; name another place for a shared store")
        self._is_made = True
        return True

    def make(self) -> None:
        """Create a shared store in an empty location; hosts that do this concurrently create the same store."""
        strangers = {name for name in self.names("") if not name.startswith(f"{_MAKERS}/")}
        if strangers and not self.has(MARKER):
            raise StoreError(
                f"{self.address} is neither empty nor a store (it holds {min(strangers)!r}); name an empty place"
            )
        first = {f"{_MAKERS}/{secrets.token_hex(8)}": b"", MARKER: marker(is_shared=True)}
        self._write("make", lambda: self._place.make(first))

    @cached_property
    def makers(self) -> frozenset[str]:
        """Return the identity of this shared store: the names of its creators' files, which are never removed."""
        return frozenset(self.names(_MAKERS))

    def names(self, folder: str) -> set[str]:
        """Return the paths of all complete files below a folder."""
        return self._try("list", lambda: self._place.names(folder))

    def has(self, name: str) -> bool:
        """Return whether a file exists."""
        return self._try("look into", lambda: self._place.has(name))

    def put(self, name: str, content: bytes) -> None:
        """Write a file unless it exists; files with the same name always have the same content."""
        if not self.has(name):
            self._write("write to", lambda: self._place.write(name, content))

    def get(self, name: str) -> bytes:
        """Return the bytes of a file."""
        return self._try("read from", lambda: self._place.read(name))

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        try:
            self._try("remove from", lambda: self._place.remove(name))
        except FileNotFoundError:
            return

    @cached_property
    def _place(self) -> RemoteFolder:
        """The location, opened on first use."""
        return open_folder(self.address)

    def _write(self, what: str, step: Callable[[], None]) -> None:
        try:
            self._try(what, step)
        except FileNotFoundError as error:
            raise StoreError(f"cannot {what} {self.address}: {error}; is it mounted?") from error

    def _try(self, what: str, step: Callable[[], T]) -> T:
        """Run a step, and retry it while the connection is lost."""
        began_s = time.monotonic()
        tries = 0
        while True:
            try:
                return step()
            except FileNotFoundError:
                raise
            except OSError as error:
                self._pause(what, error, tries, time.monotonic() - began_s)
                tries += 1

    def _pause(self, what: str, error: OSError, tries: int, waited_s: float) -> None:
        """Wait before the next try."""
        if error.errno in _INCURABLE_ERRNOS or _INCURABLE_S3.search(str(error)):
            raise StoreError(f"cannot {what} {self.address}: {_reason(error)}; fix this, then try again") from error
        if waited_s >= self.patience_s:
            raise StoreError(
                f"cannot {what} {self.address}: no connection for {waited_s:.0f} s ({_reason(error)}). Everything "
                "recorded is safe; try again when the connection is back"
            ) from error
        if tries == 0:
            text = f"cannot {what} {self.address} now ({_reason(error)}); trying again for {self.patience_s:.0f} s"
            print(f"lhaw-record: {text}", file=sys.stderr, flush=True)  # noqa: T201 - tells the waiting user why
        pause_s = min(_FIRST_PAUSE_S * 2**tries, _LONGEST_PAUSE_S) * random.uniform(0.5, 1.0)  # noqa: S311
        self._sleep(min(pause_s, self.patience_s - waited_s))


def _reason(error: OSError) -> str:
    """Return the readable part of an error: for an S3 error, the code and the reason without the request."""
    if match := _S3_ERROR.search(str(error)):
        return f"{match['code']}: {match['details'] or match['said']}"
    return str(error)


def publishing_patience_s() -> float:
    """Return how long a run retries after a lost connection, in seconds."""
    said = os.environ.get(PATIENCE_VARIABLE)
    try:
        return PUBLISHING_PATIENCE_S if said is None else float(said)
    except ValueError:
        raise StoreError(f"{PATIENCE_VARIABLE} is {said!r}; set it to a number of seconds") from None
