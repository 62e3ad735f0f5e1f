"""Choose a kind of sandbox by name, after checking that it works on this machine."""

import os
import shutil
import sys
from collections.abc import Callable

from lhaw_record.runners.base.errors import ExperimentError, SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.docker.config import DockerImage
from lhaw_record.runners.environments.sandboxes.docker.provider import docker_provider
from lhaw_record.runners.environments.sandboxes.local.bubblewrap import BubblewrapSandboxProvider
from lhaw_record.runners.environments.sandboxes.local.providers import NamespaceSandboxProvider, ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits, SandboxProvider

KINDS = ("auto", "bubblewrap", "namespaces", "docker", "process")
_WORKS = "works\n"
_INSTALLERS = {
    "apt-get": "apt-get install",
    "dnf": "dnf install",
    "zypper": "zypper install",
    "pacman": "pacman -S",
    "apk": "apk add",
}


async def provider(
    kind: str, image: DockerImage | None = None, report: Callable[[str], None] = lambda _: None
) -> SandboxProvider:
    """Return the provider of a kind; ``auto`` is bubblewrap, or namespaces if bubblewrap does not work.

    ``process`` does not isolate, so ``auto`` never falls back to it: the caller decides whether to run without
    isolation.
    """
    if kind == "process":
        return ProcessSandboxProvider()
    if kind == "docker":
        if image is None:
            raise ExperimentError("the sandbox docker needs an image; name one in sandbox.image")
        return await docker_provider(image, report)
    if kind not in KINDS:
        raise ExperimentError(f"unknown sandbox {kind!r}; known: {', '.join(KINDS)}")
    problems = []
    for name, (isolated, _) in _ISOLATED.items():
        if kind in ("auto", name):
            problem = await problem_with(name, report)
            if problem is None:
                return isolated()
            problems.append(problem)
    raise ExperimentError("; and ".join(problems))


async def isolation_problem() -> str | None:
    """Return why no kind that ``auto`` tries works here, with the remedies; None if one works."""
    try:
        await provider("auto")
    except ExperimentError as error:
        return str(error)
    return None


def remedy() -> str:
    """Return what brings isolation to this system."""
    if sys.platform != "linux":
        return 'start Docker and set sandbox.kind = "docker"'
    if shutil.which("bwrap") is not None:
        return (
            "let this user make namespaces; in a container by docker run --security-opt seccomp=unconfined "
            "--security-opt systempaths=unconfined (docs/container.md)"
        )
    found = next((words for program, words in _INSTALLERS.items() if shutil.which(program)), _INSTALLERS["apt-get"])
    return f"run {'sudo ' if os.geteuid() != 0 and shutil.which('sudo') else ''}{found} bubblewrap"


async def problem_with(kind: str, report: Callable[[str], None] = lambda _: None) -> str | None:
    """Try one sandbox of an isolated kind; return why it fails here and the remedy, or None if it works."""
    if kind == "bubblewrap" and shutil.which("bwrap") is None:
        return f"the sandbox bubblewrap is not installed; {remedy()}"
    isolated, needs = _ISOLATED[kind]
    try:
        async with isolated().open(None, SandboxLimits()) as sandbox:
            result = await sandbox.run_bash("echo works")
    except SandboxBoundaryError as error:
        return f"the sandbox {kind} does not work here ({error}); {needs}, in a container see docs/container.md"
    if result.output != _WORKS:
        return f"a first command in the sandbox {kind} printed {result.output!r}"
    if sandbox.weak_limits:
        report(f"sandbox {kind} cannot fully enforce limits here: {'; '.join(sandbox.weak_limits)} (docs/sandboxes.md)")
    return None


_ISOLATED: dict[str, tuple[Callable[[], SandboxProvider], str]] = {
    "bubblewrap": (
        BubblewrapSandboxProvider,
        (
            "as an ordinary user it needs user namespaces (sysctl kernel.unprivileged_userns_clone=1), as root an "
            "interpreter that every user may read"
        ),
    ),
    "namespaces": (
        NamespaceSandboxProvider,
        (
            "it needs Linux 5.12 or newer, as an ordinary user also user namespaces (sysctl user.max_user_namespaces, "
            "kernel.unprivileged_userns_clone=1; on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)"
        ),
    ),
}
