"""Make docker the sandbox of a run: find the engine, clear away what killed runs left, have the image, try it once."""

from collections.abc import Callable

from runners.errors import ExperimentError, SandboxBoundaryError
from runners.sandboxes.docker.config import DockerImage
from runners.sandboxes.docker.containers import memory_of_others_mb, reap
from runners.sandboxes.docker.engine import asked, connected
from runners.sandboxes.docker.images import Images
from runners.sandboxes.docker.provider import DockerSandboxProvider
from runners.sandboxes.docker.room import MemoryRoom
from runners.sandboxes.protocol import SandboxLimits

_SHARE_OF_MEMORY = 0.8  # the rest is for the engine, the system and ourselves
_TRY = SandboxLimits(memory_mb=128, command_seconds=20)


async def docker_provider(image: DockerImage, report: Callable[[str], None]) -> DockerSandboxProvider:
    """Return the provider of an image that has just worked, or of none, for tasks that bring their own.

    Args:
        image: The image and how agents find themselves in it.
        report: Takes lines of progress.

    Raises:
        ExperimentError: The engine or the image is not to be had, or does not do; the message has the next step.
    """
    try:
        images = Images(report)
        provider = DockerSandboxProvider(image, await _prepared(image, images, report), images)
        if not image.name:
            return provider
        async with provider.open(None, _TRY) as sandbox:
            result = await sandbox.run_bash("echo works")
    except SandboxBoundaryError as error:
        if error.kind in ("sandbox_exhausted", "sandbox_died"):
            raise _unfit(image, str(error)) from error
        raise ExperimentError(str(error)) from error
    if result.output != "works\n":
        raise _unfit(image, f"a first command printed {result.output!r}")
    return provider


def _unfit(image: DockerImage, what: str) -> ExperimentError:
    return ExperimentError(
        f"no sandbox works in the image {image.name}: it needs python3 (3.9 or newer) and /bin/bash, see "
        f"docs/sandboxes.md ({what})"
    )


async def _prepared(image: DockerImage, images: Images, report: Callable[[str], None]) -> MemoryRoom:
    """Clear away, have the image, and return the room on the engine's machine."""
    async with connected() as docker:
        async with asked("the Docker Engine cannot be asked"):
            about = await docker.system.info()
        reaped = await reap(docker)
        if reaped:
            report(f"removed {reaped} containers and networks of runs that were killed")
        if image.name:
            await images.ensure(docker, image.name)
    return MemoryRoom(int(about["MemTotal"] * _SHARE_OF_MEMORY) >> 20, _used_by_others_mb)


async def _used_by_others_mb() -> int:
    async with connected() as docker:
        return await memory_of_others_mb(docker)
