"""Where the daemon of a store can be reached: written into the store while it runs, read by its clients."""

import socket
from pathlib import Path

import msgspec

from recorder.disk import publish
from recorder.store import Store

NAME = "daemon.json"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon that runs, or ran when its host lost power: what is written is believed only if it answers."""

    url: str
    process: int
    host: str
    daemon_id: str


def write_address(store: Store, address: Address) -> None:
    """Write where a store's daemon can be reached."""
    publish(store.disk, store.root / NAME, msgspec.json.encode(address) + b"\n")


def read_address(root: Path) -> Address | None:
    """Return where a store's daemon said that it can be reached; None where none did."""
    try:
        return msgspec.json.decode((root / NAME).read_bytes(), type=Address)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def remove_address(store: Store, daemon_id: str) -> None:
    """Remove the address of a daemon that ends; that of another stays."""
    found = read_address(store.root)
    if found is not None and found.daemon_id == daemon_id:
        store.disk.remove(store.root / NAME)


def url_of(host: str, port: int) -> str:
    """Return the URL of a server that is bound to a host; one that is bound to every address is also on loopback."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def host_name() -> str:
    """Return the name of this host."""
    return socket.gethostname()
