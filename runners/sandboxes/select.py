"""Choose a kind of sandbox by name, after trying that it works on this machine."""

import shutil
from collections.abc import Callable

from runners.errors import ExperimentError, SandboxBoundaryError
from runners.sandboxes.bubblewrap import BubblewrapSandboxProvider
from runners.sandboxes.docker.config import DockerImage
from runners.sandboxes.docker.opening import docker_provider
from runners.sandboxes.process import ProcessSandboxProvider
from runners.sandboxes.protocol import SandboxLimits, SandboxProvider

KINDS = ("auto", "bubblewrap", "docker", "process")


async def provider(
    kind: str, image: DockerImage | None = None, report: Callable[[str], None] = lambda _: None
) -> SandboxProvider:
    """Return the provider of a kind; ``auto`` is bubblewrap.

    ``process`` isolates nothing, so ``auto`` never falls back to it: the caller decides who may run without isolation.

    Args:
        kind: One of ``KINDS``.
        image: The image of docker's sandboxes.
        report: Takes lines of progress, as while an image is pulled.

    Raises:
        ExperimentError: The kind is unknown or does not work here, with the remedy.
    """
    if kind == "process":
        return ProcessSandboxProvider()
    if kind == "docker":
        if image is None:
            raise ExperimentError("the sandbox docker needs an image; name one in sandbox.image")
        return await docker_provider(image, report)
    if kind not in KINDS:
        raise ExperimentError(f"unknown sandbox {kind!r}; known: {', '.join(KINDS)}")
    problem = await bubblewrap_problem()
    if problem is not None:
        raise ExperimentError(problem)
    return BubblewrapSandboxProvider()


async def bubblewrap_problem() -> str | None:
    """Return why bubblewrap does not work here and what to do about it, or None when one sandbox has just worked."""
    if shutil.which("bwrap") is None:
        return "the sandbox bubblewrap is not installed; run: apt-get install bubblewrap"
    try:
        async with BubblewrapSandboxProvider().open(None, SandboxLimits()) as sandbox:
            result = await sandbox.run_bash("echo works")
    except SandboxBoundaryError as error:
        return (
            f"bubblewrap is installed but does not work here ({error}); as an ordinary user it needs user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1), as root an interpreter that every user may read, and in a "
            "container the option --privileged"
        )
    if result.output != "works\n":
        return f"bubblewrap is installed but a first command printed {result.output!r} in it"
    return None
