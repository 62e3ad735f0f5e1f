"""Addresses of stores: a directory of this host, or a place that many hosts share and the working copy of it here.

    stores/demo                                          a directory
    s3://bucket/prefix?region=eu-central-1               an S3-compatible bucket, in the syntax of pyarrow.fs
    shared:/mnt/team/lhaw                                a directory that many hosts have mounted

A shared store has on every host one working copy: a store of its own with this host's journals, segments that were
fetched, and in its ``store.json`` the address.
"""

import argparse
import hashlib
import os
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from recorder.errors import StoreError
from recorder.store import Store, make_working_copy

HOME_VARIABLE = "LHAW_RECORD_HOME"
S3_OPTIONS = ("endpoint_override", "force_virtual_addressing", "region", "scheme", "tls_ca_file_path")


class SharedAddress(msgspec.Struct, frozen=True):
    """The address of a shared store, written in one way: equal places have equal texts."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def working_copy(self) -> Path:
        """The directory on this host that stands for the store; one for each user."""
        return _home() / "shared" / hashlib.sha256(self.text.encode()).hexdigest()[:16]


def store_address(text: str) -> Path | SharedAddress:
    """Read what a command line says of a store. Touches neither disk nor network.

    Raises:
        argparse.ArgumentTypeError: It looks like a shared address and is none.
    """
    if text.startswith("shared:"):
        return _directory_address(text)
    if "://" in text or text.startswith("s3:"):
        return _bucket_address(text)
    return Path(text)


def open_address(address: Path | SharedAddress) -> Path:
    """Return the directory to work with: the named one, or the working copy, made if it is missing.

    Raises:
        StoreError: The working copy cannot be made.
    """
    if isinstance(address, Path):
        return address
    root = address.working_copy
    try:
        make_working_copy(root, address.text)
    except OSError as error:
        raise StoreError(
            f"cannot keep a working copy of {address} at {root} ({error.strerror}); set {HOME_VARIABLE} to a directory "
            "on a disk of this host"
        ) from error
    return root


def opened(options: argparse.Namespace) -> argparse.Namespace:
    """Return parsed options in which every shared address is its working copy.

    Raises:
        StoreError: A working copy cannot be made.
    """
    for name, value in vars(options).items():
        if isinstance(value, SharedAddress):
            setattr(options, name, open_address(value))
    return options


def place_of(root: Path) -> str:
    """Return what a person calls an opened store: its address, or its directory."""
    try:
        return Store(root).name
    except StoreError:
        return str(root)


def _directory_address(text: str) -> SharedAddress:
    path = text.removeprefix("shared:")
    if not path.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is no shared store: write shared: and an absolute path")
    return SharedAddress(f"shared:{os.path.normpath(path)}")


def _bucket_address(text: str) -> SharedAddress:
    parts = urlsplit(text)
    if parts.scheme != "s3":
        raise argparse.ArgumentTypeError(
            f"{text!r} is no store: take a directory, shared:/DIRECTORY or s3://BUCKET/PREFIX"
        )
    options = sorted(parse_qsl(parts.query, keep_blank_values=True))
    if "@" in parts.netloc:  # an address is printed and stored
        raise argparse.ArgumentTypeError("an address holds no keys; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    strange = [name for name, _ in options if name not in S3_OPTIONS]
    if strange:
        raise argparse.ArgumentTypeError(f"{text!r}: {strange[0]!r} is none of {', '.join(S3_OPTIONS)}")
    if not parts.netloc:
        raise argparse.ArgumentTypeError(f"{text!r} names no bucket: s3://BUCKET/PREFIX")
    path = "/".join(filter(None, (parts.netloc, *parts.path.split("/"))))
    return SharedAddress(f"s3://{path}" + (f"?{urlencode(options, safe=':/')}" if options else ""))


def _home() -> Path:
    """Where working copies lie: on a disk of this host."""
    if own := os.environ.get(HOME_VARIABLE):
        return Path(own)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "lhaw-record"
