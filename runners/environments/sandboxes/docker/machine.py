"""A container as a machine on which graders and services run programs, without an agent's long-lived shell."""

import json
import math
import posixpath
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import anyio.to_thread
import msgspec

from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.command_output import killed_from_outside
from lhaw_record.runners.environments.sandboxes.docker.config import (
    MEMORY_EVENTS,
    DockerImage,
    limited,
    read_only_mounts,
)
from lhaw_record.runners.environments.sandboxes.docker.containers import connect_network
from lhaw_record.runners.environments.sandboxes.docker.engine import asked
from lhaw_record.runners.environments.sandboxes.docker.execution import (
    ContainerProgram,
    ExecResult,
    end_all,
    execute,
    run_shell,
)
from lhaw_record.runners.environments.sandboxes.docker.files import (
    FileLimits,
    packed,
    put_archive,
    regular_files,
    taken,
)
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget, created_within
from lhaw_record.runners.environments.sandboxes.docker.warden import watch
from lhaw_record.runners.environments.sandboxes.inside.processes import limit_counts, memory_kill
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

if TYPE_CHECKING:
    from aiodocker.containers import DockerContainer

# Process 1 lives as long as its standard input, which the engine closes when our process is gone, even after SIGKILL.
# No signal from inside reaches it, it reaps orphans while it waits, and it restarts its watcher if that was killed.
_MOST = 0.5  # share of a limit: above this, one user has more than all others together
_KEEPER = ("/bin/sh", "-c", "exec 3<&0; while :; do cat <&3 >/dev/null & wait $! && exit; done")
# How often the control groups' limits (version 2 or 1) were hit, for limit_counts.
_LIMIT_EVENTS = (
    f"cat {' '.join(MEMORY_EVENTS)} 2>/dev/null; "
    "cat /sys/fs/cgroup/pids.events /sys/fs/cgroup/pids/pids.events 2>/dev/null | "
    "while read -r words; do echo processes $words; done; exit 0"
)
_LOOK_S = 15.0
_SAVE_S = 600.0
_NO_LOOK = ("image_unfit", "sandbox_died", "exec_failed")  # the container has no shell, or it has just ended
_ENDED = (*_NO_LOOK, "sandbox_out_of_memory", "container_killed")
_KILLED = 137
_NEWS_S = 3.0


class ServiceConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a container runs its image's own command, with Docker's default capabilities, as the publisher expects.

    Args:
        environment: Variables that are added to the image's.
        overrides: Other settings that replace the image's, in the engine's format: command, user, health check.
        files: File content by absolute path, written before the start.
        shared_memory_mb: The size of ``/dev/shm`` in MiB.
        restarts: How often it may fail and restart, as services do that start before their database.
    """

    environment: Mapping[str, str] = {}
    overrides: Mapping[str, Any] = {}
    files: Mapping[str, bytes] = {}
    shared_memory_mb: int = 64
    restarts: int = 0


class MachineState(msgspec.Struct, frozen=True, kw_only=True):
    """A container's state, its last start time, and the number of processes killed for lack of memory.

    ``health`` is ``status`` of :class:`MachineHealth`.
    """

    is_running: bool
    exit_code: int
    started_at: str
    memory_kills: int
    health: str


class MachineHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the engine's own health check.

    Attributes:
        status: ``starting``, ``healthy``, ``unhealthy``, ``restarting`` between two starts; ``none`` without a check.
        said: The output of the last check.
        failures: The number of consecutive failed checks.
        is_running: Whether the container is running or restarting.
        exit_code: Its exit code, if it has ended.
    """

    status: str
    said: str
    failures: int
    is_running: bool
    exit_code: int


class MachineUsage(msgspec.Struct, frozen=True, kw_only=True):
    """A container's usage as fractions of its limits, from 0 to 1: memory without cached files, and processes.

    ``cpu_s`` are the CPU seconds of all its processes so far.
    """

    memory: float
    processes: float
    cpu_s: float = 0.0

    def mostly_taken_since(self, start: "MachineUsage") -> dict[str, float]:
        """Return each limit of which over half was newly taken up since the start, with the share."""
        taken = {"memory": self.memory - start.memory, "processes": self.processes - start.processes}
        return {name: share for name, share in taken.items() if share > _MOST}


class DockerMachine:
    """A running container in which programs run one after another or at the same time."""

    def __init__(self, container: "DockerContainer") -> None:
        self._container = container
        self._stopped: dict[str, int] = {}

    @property
    def container_id(self) -> str:
        return self._container.id

    async def run(self, argv: Sequence[str], *, timeout_s: float, **options: Any) -> ExecResult:
        """Run a program to its end. After a timeout or a cancellation, kill all processes but the main process.

        A service that must keep running therefore needs its own container.
        """
        result = await execute(self._container, ContainerProgram(argv=argv, timeout_s=timeout_s, **options))
        before = self._stopped
        try:
            await self._look()
        except SandboxBoundaryError as error:
            if result.exit_code != 0 or error.kind not in _NO_LOOK:
                raise
        return with_limits_met(result, before, self._stopped)

    async def end_all(self) -> None:
        """End every process but the main one, so that nothing left behind can write what is read next."""
        await end_all(self._container)

    async def put(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Write files, owned by root, below an existing folder of the container."""
        await put_archive(self._container, folder, await anyio.to_thread.run_sync(packed, files))

    async def get(self, path: str, limits: FileLimits) -> dict[str, bytes]:
        """Return the regular files (no links) at or below a path of the container, keyed by their relative paths."""
        return await taken(self._container, path, limits, lambda file: regular_files(file, limits))

    async def take(self, path: str, limits: FileLimits) -> bytes:
        """Return a path as one archive with modes, owners and links, for :meth:`put_back`."""
        return await taken(self._container, path, limits, lambda file: file.read())

    async def put_back(self, folder: str, archive: bytes | IO[bytes]) -> None:
        """Unpack an archive from :meth:`take`, given as bytes or as a file, into a folder."""
        await put_archive(self._container, folder, archive)

    async def export(self, path: str, destination: Path, limits: FileLimits) -> None:
        """Copy the regular files below a folder of the container to a host folder, without following links."""
        for name, content in (await self.get(path, limits)).items():
            (destination / name).parent.mkdir(parents=True, exist_ok=True)
            (destination / name).write_bytes(content)

    async def save_as(self, image: str) -> None:
        """Create an image of the container's current files, on the engine only."""
        repository, _, tag = image.rpartition(":")
        async with asked(f"the image {image} cannot be made", timeout_s=_SAVE_S):
            await self._container.commit(repository=repository, tag=tag)

    async def state(self) -> MachineState:
        """Return the container's current state, also if it has ended."""
        state = await self._shown()
        kills = 0
        if state["Running"] and not state["Restarting"]:
            try:
                await self._look()
                kills = self._stopped.get("oom_kill", 0)
            except SandboxBoundaryError as error:
                if error.kind not in _ENDED:
                    raise
                state = await self._shown()  # it may have ended in the meantime
        is_running = state["Running"] and not state["Restarting"]
        if not is_running and state["ExitCode"] == _KILLED:
            kills = max(kills, int(state["OOMKilled"] or await self._has_oom_event()))
        return MachineState(
            is_running=is_running,
            exit_code=state["ExitCode"],
            started_at=state["StartedAt"],
            memory_kills=kills,
            health=_health_status(state),
        )

    async def health(self) -> MachineHealth:
        """Return the result of the engine's health check, without running anything in the container."""
        state = await self._shown()
        health = state.get("Health") or {}
        last = (health.get("Log") or [{}])[-1]
        return MachineHealth(
            status=_health_status(state),
            said=" ".join(str(last.get("Output", "")).split()),
            failures=health.get("FailingStreak") or 0,
            is_running=state["Running"] or state["Restarting"],
            exit_code=state["ExitCode"],
        )

    async def _shown(self) -> dict[str, Any]:
        async with asked("a container cannot be inspected"):
            state: dict[str, Any] = (await self._container.show())["State"]
        return state

    async def _has_oom_event(self) -> bool:
        """Return whether the engine reports within a few seconds that the container ran out of memory.

        The engine learns of the end and its cause from two sources, and the end may arrive first.
        """
        path, filters = "events", json.dumps({"container": [self._container.id], "event": ["oom"]})
        async with asked("the events of a container cannot be read"):
            now = time.time()
            params = {"since": "0", "until": f"{now + _NEWS_S:.3f}", "filters": filters}
            async with self._container.docker._query(path, params=params) as response, response:
                return bool(await response.content.readline())

    async def usage(self) -> MachineUsage:
        """Return the container's usage as the engine measures it, without running anything in the container."""
        async with asked("the use of a container cannot be read"):
            # The library's own stats method waits for a second sample.
            path, once = f"containers/{self._container.id}/stats", {"stream": "false", "one-shot": "true"}
            found = await self._container.docker._query_json(path, params=once)
        memory, processes = found["memory_stats"], found["pids_stats"]
        parts = memory.get("stats") or {}  # names differ between control group versions 2 and 1
        names = ("anon", "shmem") if "anon" in parts else ("total_rss", "total_shmem")
        held_bytes = sum(parts.get(name, 0) for name in names)
        return MachineUsage(
            memory=held_bytes / (memory.get("limit") or math.inf),
            processes=processes.get("current", 0) / (processes.get("limit") or math.inf),
            cpu_s=found["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9,
        )

    async def cpu_s(self) -> float | None:
        """Return the CPU seconds of the container's processes so far, or None if the engine does not say."""
        try:
            return (await self.usage()).cpu_s
        except SandboxBoundaryError:
            return None

    async def last_words(self, lines: int = 5) -> str:
        """Return the end of a service's log on one line, empty for machines without a service."""
        async with asked("the log of a container cannot be read"):
            printed = await self._container.log(stdout=True, stderr=True, tail=lines)
        return " ".join(" ".join(printed).split())

    async def _look(self) -> None:
        """Read how often a memory or process limit has stopped something in the container so far."""
        looked = await run_shell(self._container, _LIMIT_EVENTS, _LOOK_S)
        self._stopped = limit_counts(looked.stdout.decode())


def _health_status(state: Mapping[str, Any]) -> str:
    return "restarting" if state["Restarting"] else (state.get("Health") or {}).get("Status") or "none"


def with_limits_met(result: ExecResult, before: dict[str, int], now: dict[str, int]) -> ExecResult:
    """Return a result that says which limits were hit between two readings of the counts.

    Raises:
        SandboxBoundaryError: The kernel killed a process of the container for a limit that is not its own.
    """
    killed = memory_kill(before, now)
    if killed == "memory_outside":
        raise killed_from_outside("a container")
    return msgspec.structs.replace(
        result,
        is_out_of_memory=bool(killed),
        is_out_of_processes=now.get("processes", 0) > before.get("processes", 0),
    )


@asynccontextmanager
async def open_machine(
    image: DockerImage,
    limits: SandboxLimits,
    room: MemoryBudget,
    *,
    service: "ServiceConfig | None" = None,
    aliases: Sequence[str] = (),
    keeps_entrypoint: bool = False,
    environment: Mapping[str, str] | None = None,
    mounts: Sequence[str] = (),
    volumes: Sequence[Mapping[str, Any]] = (),
    outside: str = "",
) -> AsyncIterator[DockerMachine]:
    """Open a writable container of an unchanged image as root. Remove everything on exit."""
    async with AsyncExitStack() as stack:
        config = _machine_config(image, limits, service, aliases, keeps_entrypoint=keeps_entrypoint)
        config["HostConfig"]["Mounts"] = [*read_only_mounts({path: path for path in mounts}), *volumes]
        if environment:
            config["Env"] = [f"{name}={value}" for name, value in environment.items()]
        container = await created_within(stack, room, limits, config)
        if outside:
            await connect_network(container, outside)
        what = f"a container of the image {image.name} cannot be started"
        if service is None:
            stream = container.attach(stdin=True)
            async with asked(what):
                await stream.__aenter__()
            stack.push_async_callback(stream.close)
        for path, content in (service.files if service else {}).items():
            folder, name = posixpath.split(path)
            await put_archive(container, folder, await anyio.to_thread.run_sync(packed, {name: content}))
        if service is not None:
            await anyio.to_thread.run_sync(watch)
        async with asked(what):
            await container.start()
        yield DockerMachine(container)


def _machine_config(
    image: DockerImage,
    limits: SandboxLimits,
    service: "ServiceConfig | None",
    aliases: Sequence[str],
    *,
    keeps_entrypoint: bool,
) -> dict[str, Any]:
    host = limited(image, limits)
    if service is not None or keeps_entrypoint:
        host |= {"CapDrop": [], "SecurityOpt": []}
    if service is not None:
        host |= {
            "ShmSize": service.shared_memory_mb << 20,
            # A count of 0 would mean no limit.
            "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": service.restarts} if service.restarts else {},
            "LogConfig": {"Type": "local", "Config": {"max-size": "1m", "max-file": "1", "compress": "false"}},
        }
        own = {"Env": [f"{name}={value}" for name, value in service.environment.items()], **service.overrides}
    else:
        own = {
            **({"Cmd": list(_KEEPER)} if keeps_entrypoint else {"Entrypoint": list(_KEEPER), "Cmd": [], "User": "0"}),
            "OpenStdin": True,
            "StdinOnce": True,
            "AttachStdin": True,
            "Healthcheck": {"Test": ["NONE"]},
        }
    return {
        "Image": image.name,
        **own,
        "StopSignal": "SIGKILL",
        "HostConfig": host,
        "NetworkingConfig": {"EndpointsConfig": {image.network: {"Aliases": list(aliases)}}} if aliases else {},
    }
