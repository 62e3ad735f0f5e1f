"""The connection to a Ray cluster: the one that RAY_ADDRESS names, else the one of this machine. Never started here."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from runners.errors import ExecutorError, ExperimentError

ADDRESS_VARIABLE = "RAY_ADDRESS"
NAMESPACE = "lhaw-record"
_CONNECT_SECONDS = 10.0


def ray_library() -> ModuleType:
    """Return ray.

    Raises:
        ExperimentError: It is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise ExperimentError(
            f"--executor ray needs Ray, which is not installed here ({error}); install it on every machine of the "
            "cluster: pip install 'lhaw-record[ray]'"
        ) from error
    library: ModuleType = ray
    return library


@contextmanager
def connected() -> Iterator[Any]:
    """Connect to the cluster, give ray, and disconnect.

    Raises:
        ExecutorError: There is no cluster, or it cannot be reached.
    """
    ray = ray_library()
    address = os.environ.get(ADDRESS_VARIABLE) or "auto"
    _check_listens(address)
    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        place = "of this machine" if address == "auto" else f"at {address}"
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise ExecutorError(
            f"cannot connect to the Ray cluster {place}: {said[0]} Start one with 'ray start --head' and join it from "
            f"the other machines with 'ray start --address=HOST:6379', or set {ADDRESS_VARIABLE}=HOST:6379"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_listens(address: str) -> None:
    """Refuse an address that nobody listens at, for which ray would try for more than a minute.

    Raises:
        ExecutorError: Nobody does.
    """
    if "://" in address:
        raise ExecutorError(
            f"{ADDRESS_VARIABLE}={address} is a client's address; start the run on a machine of the cluster, and set "
            f"{ADDRESS_VARIABLE}=HOST:6379 or nothing"
        )
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise ExecutorError(
            f"no Ray cluster answers at {address} ({error.strerror or error}), which {ADDRESS_VARIABLE} names; start "
            "it with 'ray start --head' there, or name another one"
        ) from error
