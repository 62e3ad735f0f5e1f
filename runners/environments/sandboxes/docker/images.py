"""Find, pull or build the images of sandboxes. Errors say what to do next."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from lhaw_record.runners.base.errors import SandboxBoundaryError, SandboxUnfit
from lhaw_record.runners.environments.sandboxes.docker.engine import asked
from lhaw_record.runners.environments.sandboxes.docker.files import folder_archive, pieces

if TYPE_CHECKING:
    from aiodocker import Docker

_PULL_S = 3600.0
# Lower-case text in a refusal, our error kind, whether to retry, and the remedy; searched in this order.
_LIMITED = ("registry_limit", True, "the registry limits the number of pulls; wait, or log in there")
_REMEDIES = (
    ("toomanyrequests", *_LIMITED),
    ("too many requests", *_LIMITED),
    ("http 429", *_LIMITED),  # from a registry or proxy that does not use the registry API's error format
    ("unauthorized", "registry_denied", False, "log in on the engine's machine (docker login), or check the name"),
    ("denied", "registry_denied", False, "log in on the engine's machine (docker login), or check the name"),
    ("no basic auth credentials", "registry_denied", False, "log in on the engine's machine (docker login)"),
    ("not found", "image_missing", False, "check its name and tag"),
    ("manifest unknown", "image_missing", False, "check its name and tag"),
    ("invalid reference", "image_missing", False, "check its name and tag"),
    ("no matching manifest", "image_missing", False, "it is not made for this machine's processor"),
    ("no space left on device", "engine_disk_full", True, "free space on the engine's machine (docker system df)"),
)
_BUILDKIT = "2"  # the builder of `docker build` and `docker compose build`
_NO_REGISTRY = (
    "the registry cannot be reached; check the network, or bring the image another way: docker load, docker import, or "
    "docker build on the engine's machine"
)


class Images:
    """The images that a run needs. Each is pulled at its first use, once for all trials that wait for it.

    Args:
        report: Called with a message for each step of a pull.
    """

    def __init__(self, report: Callable[[str], None] = lambda _: None) -> None:
        self._report = report
        self._turns: dict[str, anyio.Lock] = {}
        self._given_up: set[str] = set()
        self._built: set[str] = set()

    def turn(self, image: str) -> anyio.Lock:
        """Return the lock of an image: one caller creates the image while the others wait."""
        return self._turns.setdefault(image, anyio.Lock())

    def give_up(self, image: str, reason: str) -> None:
        """Report that an image cannot be created, and remember it for this run."""
        self._given_up.add(image)
        self._report(reason)

    def is_given_up(self, image: str) -> bool:
        return image in self._given_up

    async def has(self, docker: "Docker", image: str) -> bool:
        """Return whether the engine already has an image."""
        return await _inspect(docker, image) is not None

    async def ensure(self, docker: "Docker", image: str) -> dict[str, Any]:
        """Return the engine's description of an image, after pulling it if it is missing."""
        async with self.turn(image):
            return await ensure_image(docker, image, self._report)

    async def build(self, docker: "Docker", folder: Path, image: str, **how: Any) -> None:
        """Build an image from a folder with a Dockerfile, once in this run. See :func:`build_image` for ``how``."""
        async with self.turn(image):
            if image not in self._built:
                self._report(f"building the image of {folder}")
                await build_image(docker, folder, image, **how)
                self._built.add(image)


async def build_image(
    docker: "Docker",
    folder: Path,
    image: str,
    *,
    timeout_s: float,
    network: str,
    choices: Mapping[str, str] | None = None,
) -> None:
    """Build an image from a folder with a Dockerfile."""
    what = f"the image of {folder} cannot be built"
    parameters = {"version": _BUILDKIT, "t": image, "rm": "true", "networkmode": network, **(choices or {})}
    try:
        async with folder_archive(folder) as archive:
            with anyio.fail_after(timeout_s):
                async with asked(what, timeout_s=timeout_s + 1.0):
                    # The library's own build method supports neither the builder version nor its network.
                    query = docker._query(
                        "build",
                        method="POST",
                        params=parameters,
                        data=pieces(archive),
                        headers={"content-type": "application/x-tar"},
                        timeout=None,
                    )
                    async with query as response:
                        lines = (await response.read()).splitlines()
        errors = [found for line in lines if (found := json.loads(line).get("error"))]
    except TimeoutError as error:
        raise _build_error(f"{what} in {timeout_s:.0f} s", folder) from error
    if errors:
        raise _build_error(f"{what}: {errors[0]}", folder)


def _build_error(message: str, folder: Path) -> SandboxBoundaryError:
    return SandboxUnfit(f"{message}; 'docker build {folder}' shows every step", kind="build_failed")


async def ensure_image(docker: "Docker", image: str, report: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return the engine's description of an image, after pulling it if it is missing."""
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

    async with asked(f"the image {image} cannot be inspected"):
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
    """Return the error for an engine's message that an image could not be pulled."""
    lowered = message.lower()
    found = (each[1:] for each in _REMEDIES if each[0] in lowered)
    kind, is_retry_owed, remedy = next(found, ("registry_away", True, _NO_REGISTRY))
    return SandboxBoundaryError(
        f"the image {image} cannot be pulled: {remedy} ({message.strip()})", kind=kind, is_retry_owed=is_retry_owed
    )


class PullProgress:
    """Condenses an engine's many messages into a few: one for each tenth of the bytes known so far.

    Args:
        report: Called with each message.
    """

    def __init__(self, image: str, report: Callable[[str], None]) -> None:
        self._image = image
        self._report = report
        self._layers: dict[str, tuple[int, int]] = {}
        self._shown_tenths = 0

    def take(self, message: dict[str, Any]) -> None:
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
