"""The images of sandboxes: there already, or pulled with a line for every step, or refused with the next step."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio

from runners.errors import SandboxBoundaryError
from runners.sandboxes.docker.engine import asked

if TYPE_CHECKING:
    from aiodocker import Docker

_PULL_S = 3600.0
# What registries and engines say, in lower case, and what to do about it; looked up in this order.
_REMEDIES = (
    ("toomanyrequests", "registry_limit", True, "the registry limits how much is pulled; wait, or log in there"),
    ("unauthorized", "registry_denied", False, "log in on the engine's machine (docker login), or check the name"),
    ("denied", "registry_denied", False, "log in on the engine's machine (docker login), or check the name"),
    ("no basic auth credentials", "registry_denied", False, "log in on the engine's machine (docker login)"),
    ("not found", "image_missing", False, "check its name and tag"),
    ("manifest unknown", "image_missing", False, "check its name and tag"),
    ("invalid reference", "image_missing", False, "check its name and tag"),
    ("no matching manifest", "image_missing", False, "it is not made for this machine's processor"),
    ("no space left on device", "engine_disk_full", True, "free space on the engine's machine (docker system df)"),
)
_NO_REGISTRY = (
    "the registry cannot be reached; check the network, or bring the image another way: docker load, docker import, or "
    "docker build on the engine's machine"
)


class Images:
    """The images that a run needs of its engine: pulled at their first use, once however many trials wait for one.

    Args:
        report: Takes a line whenever a pull comes to a next step.
    """

    def __init__(self, report: Callable[[str], None] = lambda _: None) -> None:
        self._report = report
        self._turns: dict[str, anyio.Lock] = {}

    async def ensure(self, docker: "Docker", image: str) -> dict[str, Any]:
        """Return what the engine knows of an image, after pulling it if it is not there.

        Raises:
            SandboxBoundaryError: It cannot be had; the message names the image and the next step.
        """
        async with self._turns.setdefault(image, anyio.Lock()):
            return await ensure_image(docker, image, self._report)


async def ensure_image(docker: "Docker", image: str, report: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return what the engine knows of an image, after pulling it if it is not there.

    Args:
        docker: The client.
        image: Its name, with a tag or a digest.
        report: Takes a line whenever the pull comes to a next step.

    Raises:
        SandboxBoundaryError: It cannot be had; the message names the image and the next step.
    """
    known = await _inspect(docker, image)
    if known is None:
        report(f"pulling the image {image}")
        await _pull(docker, image, report)
        known = await _inspect(docker, image)
    if known is None:
        raise SandboxBoundaryError(f"the image {image} was pulled, yet the engine lacks it", kind="image_missing")
    return known


async def _inspect(docker: "Docker", image: str) -> dict[str, Any] | None:
    from aiodocker import DockerError

    async with asked(f"the image {image} cannot be looked at"):
        try:
            return await docker.images.inspect(image)
        except DockerError as error:
            if error.status in (400, 404):
                return None
            raise


async def _pull(docker: "Docker", image: str, report: Callable[[str], None]) -> None:
    from aiodocker import DockerError

    progress = PullProgress(image, report)
    async with asked(f"the image {image} cannot be pulled", timeout_s=_PULL_S):
        try:
            async for message in docker.images.pull(image, stream=True):
                progress.take(message)
        except DockerError as error:
            if error.status == 900:
                raise
            raise pull_refusal(image, error.message) from error


def pull_refusal(image: str, message: str) -> SandboxBoundaryError:
    """Return what the words of an engine that did not get an image mean."""
    lowered = message.lower()
    found = (each[1:] for each in _REMEDIES if each[0] in lowered)
    kind, is_retry_owed, remedy = next(found, ("registry_away", True, _NO_REGISTRY))
    return SandboxBoundaryError(
        f"the image {image} cannot be pulled: {remedy} ({message.strip()})", kind=kind, is_retry_owed=is_retry_owed
    )


class PullProgress:
    """Turns an engine's messages into few lines: one for every tenth of the bytes that are known.

    Args:
        image: What is pulled.
        report: Takes the lines.
    """

    def __init__(self, image: str, report: Callable[[str], None]) -> None:
        self._image = image
        self._report = report
        self._layers: dict[str, tuple[int, int]] = {}
        self._shown_tenths = 0

    def take(self, message: dict[str, Any]) -> None:
        """Take the next message."""
        detail = message.get("progressDetail") or {}
        layer, total_bytes = message.get("id", ""), detail.get("total", 0)
        if message.get("status") == "Downloading" and total_bytes:
            self._layers[layer] = (detail.get("current", 0), total_bytes)
        elif message.get("status") in ("Download complete", "Pull complete") and layer in self._layers:
            self._layers[layer] = (self._layers[layer][1],) * 2
        done_bytes = sum(done for done, _ in self._layers.values())
        all_bytes = sum(total for _, total in self._layers.values())
        tenths = done_bytes * 10 // all_bytes if all_bytes else 0
        if tenths > self._shown_tenths:
            self._shown_tenths = tenths
            self._report(f"pulling the image {self._image}: {tenths * 10} % of {all_bytes / 1e6:.0f} MB known so far")
