"""Access to a Docker Engine: one client per open sandbox, a time limit on every request, and translated errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from lhaw_record.runners.base.errors import SandboxBoundaryError

if TYPE_CHECKING:
    from aiodocker import Docker

ANSWER_S = 60.0
_NOT_FOUND = (
    "no Docker Engine was found: neither DOCKER_HOST nor a socket such as /var/run/docker.sock; start one "
    "(apt-get install docker.io; service docker start), or set DOCKER_HOST"
)
# Words of an engine's refusal in lower case; our error kind; whether another attempt could succeed.
_REFUSALS = (
    ("no space left on device", "engine_disk_full", True),
    ("no such image", "image_missing", False),
    ("no command specified", "image_unfit", False),
    ("executable file not found", "image_unfit", False),
    ("no such file or directory", "image_unfit", False),
    ("is already in use", "engine_conflict", True),
    ("address pool", "engine_networks_full", True),
)


@asynccontextmanager
async def connected() -> AsyncIterator["Docker"]:
    """Open a client of the engine that DOCKER_HOST, the Docker context or a well-known socket specifies.

    Each sandbox has its own client, because a client holds at most a hundred connections, and an open sandbox keeps
    one.
    """
    from aiodocker import Docker
    from aiodocker.exceptions import DockerContextError

    try:
        docker = Docker()
    except (AssertionError, ValueError, DockerContextError) as error:
        raise SandboxBoundaryError(str(error) or _NOT_FOUND, kind="engine_away") from error
    try:
        yield docker
    finally:
        with anyio.CancelScope(shield=True):
            await docker.close()


@asynccontextmanager
async def asked(what: str, *, timeout_s: float = ANSWER_S) -> AsyncIterator[None]:
    """Put a time limit on requests to an engine, and translate its errors."""
    from aiodocker import DockerError
    from aiohttp import ClientError

    try:
        with anyio.fail_after(timeout_s):
            yield
    except TimeoutError as error:
        raise SandboxBoundaryError(
            f"{what}: the Docker Engine gave no answer in {timeout_s:.0f} s", kind="engine_hung"
        ) from error
    except DockerError as error:
        raise refusal(what, error.status, error.message) from error
    except (ClientError, ConnectionError) as error:
        raise SandboxBoundaryError(f"{what}: the Docker Engine went away ({error})", kind="engine_away") from error


def refusal(what: str, status: int, message: str) -> SandboxBoundaryError:
    """Return the error for an engine's refusal."""
    if status == 900:
        return SandboxBoundaryError(f"{what}: {message}", kind="engine_away")
    lowered = message.lower()
    for words, kind, is_retry_owed in _REFUSALS:
        if words in lowered:
            return SandboxBoundaryError(f"{what}: {message}", kind=kind, is_retry_owed=is_retry_owed)
    return SandboxBoundaryError(f"{what}: {message} (status {status})", kind="engine_error")
