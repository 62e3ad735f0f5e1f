"""Addresses of stores. An address names a directory on this host or a location shared by several hosts.

    stores/demo                                          a directory
    s3://bucket/prefix?region=eu-central-1               an S3-compatible bucket, in the syntax of pyarrow.fs
    shared:/mnt/team/lhaw                                a directory that many hosts have mounted

Each user of a host has one working copy of a shared store: a store with this host's journals, the fetched segments and,
in ``store.json``, the address.
"""

import argparse
import hashlib
import os
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from lhaw_record.recorder.errors import RecorderError, StoreError
from lhaw_record.recorder.files.disk import Disk, publish
from lhaw_record.recorder.files.layout import FOLDERS, MARKER, marker
from lhaw_record.recorder.resources import user_folder
from lhaw_record.recorder.storage.store import Store

HOME_VARIABLE = "LHAW_RECORD_HOME"
S3_OPTIONS = ("endpoint_override", "force_virtual_addressing", "region", "scheme", "tls_ca_file_path")


class SharedAddress(msgspec.Struct, frozen=True):
    """The normalised address of a shared store. Equal locations have equal texts."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def working_copy(self) -> Path:
        """The directory of this user's working copy on this host."""
        return _home() / "shared" / hashlib.sha256(self.text.encode()).hexdigest()[:16]


def store_address(text: str) -> Path | SharedAddress:
    """Parse a command's store argument, without disk or network access."""
    if text.startswith("shared:"):
        return _directory_address(text)
    if "://" in text or text.startswith("s3:"):
        return _bucket_address(text)
    return Path(text)


def open_address(address: Path | SharedAddress) -> Path:
    """Return the directory of a store, or the working copy of a shared store, creating it if it is missing."""
    if isinstance(address, Path):
        return address
    root = address.working_copy
    try:
        _create_working_copy(root, address.text)
    except OSError as error:
        raise StoreError(
            f"cannot keep a working copy of {address} at {root} ({error.strerror}); set {HOME_VARIABLE} to a directory "
            "on a disk of this host"
        ) from error
    return root


def _create_working_copy(root: Path, address: str) -> None:
    """Create the working copy of a shared store if it is missing."""
    if not (root / MARKER).exists():
        for name in FOLDERS:
            (root / name).mkdir(parents=True, exist_ok=True)
        publish(Disk(), root / MARKER, marker(address=address))


def opened(options: argparse.Namespace) -> argparse.Namespace:
    """Replace every shared address in parsed options with its working copy, and return the options."""
    for name, value in vars(options).items():
        if isinstance(value, SharedAddress):
            setattr(options, name, open_address(value))
    return options


def store_name(root: Path) -> str:
    """Return the display name of a store: its address or its directory."""
    try:
        return Store(root).name
    except RecorderError:
        return str(root)


def _directory_address(text: str) -> SharedAddress:
    path = text.removeprefix("shared:")
    if not path.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a shared store: write shared: and an absolute path")
    return SharedAddress(f"shared:{os.path.normpath(path)}")


def _bucket_address(text: str) -> SharedAddress:
    parts = urlsplit(text)
    if parts.scheme != "s3":
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a store: use a directory, shared:/DIRECTORY or s3://BUCKET/PREFIX"
        )
    options = sorted(parse_qsl(parts.query, keep_blank_values=True))
    if "@" in parts.netloc:  # an address is printed and stored
        raise argparse.ArgumentTypeError("addresses cannot have keys; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    strange = [name for name, _ in options if name not in S3_OPTIONS]
    if strange:
        raise argparse.ArgumentTypeError(f"{text!r}: {strange[0]!r} is not one of {', '.join(S3_OPTIONS)}")
    if not parts.netloc:
        raise argparse.ArgumentTypeError(f"{text!r} names no bucket: write s3://BUCKET/PREFIX")
    path = "/".join(filter(None, (parts.netloc, *parts.path.split("/"))))
    return SharedAddress(f"s3://{path}" + (f"?{urlencode(options, safe=':/')}" if options else ""))


def _home() -> Path:
    """Return the folder on this host that holds the program's working copies."""
    if own := os.environ.get(HOME_VARIABLE):
        return Path(own)
    return user_folder("state")
