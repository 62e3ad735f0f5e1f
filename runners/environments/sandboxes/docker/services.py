"""Service containers beside an agent's, which must become healthy and stay undisturbed while the agent works.

If a service ends, becomes unhealthy or hits a limit, the agent did not work on its real task, so the trial is missing
data. The same holds if a grader hit a limit of the machine (:func:`is_full`, :func:`names_limit`).
"""

from collections.abc import Mapping

import anyio

from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine, MachineState

_LOOK_AGAIN_S = 0.2
_DECIDED_S = 300
_HEALTHY = "healthy"


async def wait_until_healthy(name: str, machine: DockerMachine) -> None:
    """Wait until the engine's health check of a service succeeds. A service without a check only has to run.

    The time is limited by the check's own interval, timeout and retries.
    """
    while True:
        found = await machine.health()
        if not found.is_running:
            raise SandboxBoundaryError(
                f"the service {name} ended with exit code {found.exit_code} at its start; {await last_words(machine)}",
                kind="service_died",
            )
        if found.status in (_HEALTHY, "none"):
            return
        if found.status == "unhealthy":
            raise SandboxBoundaryError(
                f"the service {name} did not become healthy: its check said {found.said[-300:] or 'nothing'!r}; "
                f"{await last_words(machine)}",
                kind="service_unhealthy",
            )
        await anyio.sleep(_LOOK_AGAIN_S)


async def wait_until_done(name: str, machine: DockerMachine, timeout_s: float) -> None:
    """Wait until a service that is a job, such as one that fills a database, has ended."""
    found = await machine.health()
    with anyio.move_on_after(timeout_s):
        while found.is_running:
            await anyio.sleep(_LOOK_AGAIN_S)
            found = await machine.health()
    if found.is_running:
        raise SandboxBoundaryError(
            f"the service {name} has not ended within {timeout_s:g} s, and others wait for its end; raise "
            f"environment.build_timeout_sec of the task; {await last_words(machine)}",
            kind="service_unprepared",
        )
    if found.exit_code != 0:
        raise SandboxBoundaryError(
            f"the service {name} ended with exit code {found.exit_code}; {await last_words(machine)}",
            kind="service_unprepared",
        )


async def check_undisturbed(
    containers: Mapping[str, DockerMachine], at_start: Mapping[str, MachineState], owner: str
) -> None:
    """Check that no container has hit a machine limit, ended or become unhealthy since the trial began."""
    for name, container in containers.items():
        before, now = at_start[name], await container.state()
        if now.memory_kills > before.memory_kills:
            reason, kind = "ran out of memory; raise its memory_mb", "service_out_of_memory"
        elif not now.is_running or now.started_at != before.started_at:
            reason, kind = f"ended; {await last_words(container)}", "service_died"
        elif before.health == _HEALTHY and (said := await _complaint(container)) is not None:
            reason = f"is no longer healthy: its check said {said[-300:] or 'nothing'!r}; {await last_words(container)}"
            kind = "service_unhealthy"
        else:
            continue
        owed = kind != "service_unhealthy"
        raise SandboxBoundaryError(f"{name}, a container of {owner}, {reason}", kind=kind, is_retry_owed=owed)


async def _complaint(container: DockerMachine) -> str | None:
    """Return the output of an unhealthy container's health check, None if the container is healthy.

    If the last check failed, the following ones decide, at the check's own interval and retries, for five minutes.
    """
    found = await container.health()
    with anyio.move_on_after(_DECIDED_S):
        while found.status == _HEALTHY and found.failures:
            await anyio.sleep(_LOOK_AGAIN_S)
            found = await container.health()
    return None if found.status == _HEALTHY and not found.failures else found.said


async def last_words(container: DockerMachine) -> str:
    """Return the end of a service's log as part of a sentence."""
    words = await container.last_words()
    return f"its last output: {words[-300:]}" if words else "it said nothing"


LEAST_FREE_KB = 1024
_FULL = ("no space left on device", "out of diskspace", "disk quota exceeded")
_LIMITS = (
    "died of signal",
    "file too large",
    "cannot allocate memory",
    "out of memory, malloc failed",
    "resource temporarily unavailable",
    "unable to create thread",
    "too many open files",
)


def free_space_command(*paths: str) -> str:
    """Return a command that prints the free kilobytes at each path."""
    return f"df -Pk {' '.join(paths)} | awk 'NR > 1 {{ print $4 }}'"


def is_full(said: str, free_space: str, quoted: str = "") -> bool:
    """Return whether a program failed because the disk is full."""
    said, quoted = said.lower(), quoted.lower()
    free_kb = [int(word) for word in free_space.split() if word.isdigit()]
    return (
        any(words in said and words not in quoted for words in _FULL)
        or min(free_kb, default=LEAST_FREE_KB) < LEAST_FREE_KB
    )


def names_limit(said: str) -> bool:
    """Return whether a program's output mentions a limit on memory, processes, open files or file size."""
    return any(words in said.lower() for words in _LIMITS)
