"""The published container as a trial's world: its pinned servers behind HTTP, with the data that it brings.

Its interface (``/``, ``/list-tools``, ``/call-tool``, ``/enabled-servers`` at port 1984, ``ENABLED_SERVERS`` and keys
in its environment) is that of ``services/agent-environment`` in the repository of MCP-Atlas, version 1.2.7. Our
container is queried from a second one that shares its network, so that it needs no other network.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.runners.base.errors import SandboxBoundaryError, ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas import http_program
from lhaw_record.runners.environments.benchmarks.mcp_atlas.server import ServerAnswer
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import variables_in_container
from lhaw_record.runners.environments.benchmarks.mcp_lines import ToolListing, shown_result, whole_result
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.refusals import docker_of
from lhaw_record.runners.environments.sandboxes.docker.config import DockerImage
from lhaw_record.runners.environments.sandboxes.docker.engine import connected
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine, ServiceConfig, open_machine
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.docker.sidecar import LineChannel, open_sidecar
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

Ask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Makes a request of :mod:`http_program`, without its number, and returns the answer."""

PUBLISHED_IMAGE = "ghcr.io/scaleapi/mcp-atlas:1.2.7"
RELAY = SandboxLimits(memory_mb=128, processes=64)
MEMORY_MB = 4096  # a guess at what the image's servers need; nobody measured it
PORT = 1984
_ADDRESS = f"http://127.0.0.1:{PORT}"
_NETWORK = "bridge"
_PROCESSES = 4096
_SECOND = ("calculator", "filesystem")  # a lone server's tools are listed without its name
_OFFLINE = {"UV_OFFLINE": "1", "NPM_CONFIG_OFFLINE": "true"}  # uvx and npx would ask registries for what they have
_LOOK_S, _LOOK_AGAIN_S, _LIST_S = 5.0, 2.0, 180.0  # as the published client waits
_ADDRESS_S = 30.0  # a container that runs already needs no time to start
_GRACE_S = 5.0
_OK, _TOOL_FAILED = 200, 500


class WorldSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The container that is a trial's world.

    Args:
        image: The image, also of a container that runs already.
        address: Where a container answers that runs already, such as ``http://127.0.0.1:1984``. All trials share it. If
            empty, every trial has a container of its own.
        memory_mb: The memory limit of a trial's own container in MiB, or None for the guess ``MEMORY_MB``.
        start_seconds: How long it may take until its servers answer.
    """

    image: str = PUBLISHED_IMAGE
    address: Annotated[str, msgspec.Meta(pattern=r"^(https?://[^/]+)?$")] = ""
    memory_mb: Annotated[int, msgspec.Meta(ge=64)] | None = None
    start_seconds: Annotated[float, msgspec.Meta(gt=0)] = 600.0


class ContainerServer:
    """One server of a world: its tools under the server's own names, and their output schemas by name."""

    pid = None

    def __init__(self, name: str, listed: Sequence[dict[str, Any]], world: "World", call_seconds: float) -> None:
        from mcp_types import Tool

        self.name = name
        self._world = world
        self._call_seconds = call_seconds
        listing = ToolListing()
        named = ({**each, "name": each["name"].removeprefix(f"{name}_")} for each in listed)
        self.tools = tuple(Tool.model_validate(each) for each in listing.of(named))
        self.output_schemas, self.refused_tools = listing.output_schemas, listing.refused

    async def call(self, tool: str, arguments: dict[str, Any]) -> ServerAnswer:
        """Call one tool. What the published client shows its agent is the text: also the bare body of an error."""
        from mcp_types import CallToolResult

        body = {"tool_name": f"{self.name}_{tool}", "tool_args": arguments}
        status, text = await self._world.ask("POST", "/call-tool", body, self._call_seconds)
        if status == _TOOL_FAILED:
            await self._world.check(self.name, f"during {tool}")
            return ServerAnswer(text, is_error=True)
        try:
            content = json.loads(text) if status == _OK else _refuse(status, text)
            result = CallToolResult.model_validate(whole_result({"content": content}))
        except ValueError as error:
            raise self._world.malformed(f"/call-tool of {self.name}", error) from error
        has_text = any(part.type == "text" and part.text.strip() for part in result.content)
        text, unshown = shown_result(result, tool)
        return ServerAnswer(text if has_text else "success", is_error=False, unshown=unshown)


class World:
    """A world that answers.

    Args:
        ask: Makes a request.
        machine: The container, or None if it is not ours.
        spec: Where it comes from.
    """

    def __init__(self, ask: Ask, machine: DockerMachine | None, spec: WorldSpec) -> None:
        self._ask = ask
        self._machine = machine
        self._spec = spec

    async def ask(self, method: str, path: str, body: Any, timeout_s: float) -> tuple[int, str]:
        """Return the status and the body of an answer."""
        answer = await self._ask({"method": method, "path": path, "body": body, "timeout_s": timeout_s})
        status, text = answer["status"], answer["body"]
        if status in (0, _TOOL_FAILED) and self._machine is not None:
            await self.check_container(path)
        if status == 0:
            kind = "server_timeout" if text.startswith("timeout") else "server_gone"
            raise ToolBoundaryError(f"{self._name} gave no answer to {path}: {text}", kind=kind)
        return status, text

    async def wait(self) -> None:
        """Wait until the servers have been started. They are asked at least once, however short the limit."""
        limit_s = min(self._spec.start_seconds, _ADDRESS_S) if self._spec.address else self._spec.start_seconds
        until_s = anyio.current_time() + limit_s
        while True:
            try:
                status, said = await self.ask("GET", "/", None, _LOOK_S)
            except ToolBoundaryError as error:
                if error.kind not in ("server_gone", "server_timeout"):
                    raise
                said = str(error)
            else:
                if status == _OK:
                    return
                said = f"status {status}: {said[:200]}"
            if anyio.current_time() + _LOOK_AGAIN_S > until_s:
                break
            await anyio.sleep(_LOOK_AGAIN_S)
        remedy = "check that benchmark.container.address is the address of a running container"
        if self._machine:
            words = (await self._machine.last_words())[-300:] or "none"
            remedy = f"its last output: {words}; raise benchmark.container.start_seconds, or look at the image"
        raise SandboxBoundaryError(
            f"{self._name} was not healthy within {limit_s:g} s ({said}); {remedy}", kind="service_unhealthy"
        )

    async def servers(self, names: Sequence[str], call_seconds: float) -> dict[str, ContainerServer]:
        """Return the named servers with the tools that the world lists."""
        status, text = await self.ask("POST", "/list-tools", None, _LIST_S)
        try:
            listed: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
            for tool in json.loads(text) if status == _OK else _refuse(status, text):
                owners = [name for name in names if tool["name"].startswith(f"{name}_")]
                if owners:
                    listed[max(owners, key=len)].append(tool)
            return {name: ContainerServer(name, own, self, call_seconds) for name, own in listed.items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self.malformed("/list-tools", error) from error

    async def check(self, name: str, when: str) -> None:
        """Check that a server answers."""
        status, text = await self.ask("GET", "/enabled-servers", None, _LIST_S)
        try:
            states = dict(json.loads(text)["servers"]) if status == _OK else _refuse(status, text)
        except (ValueError, TypeError, KeyError) as error:
            raise self.malformed("/enabled-servers", error) from error
        if states.get(name) != "OK":
            raise ToolBoundaryError(
                f"MCP server {name} of {self._name} is gone {when}: {states.get(name, 'it is not enabled')}",
                kind="server_gone",
            )

    def malformed(self, path: str, error: Exception) -> ToolBoundaryError:
        """Return the error for an answer that is not of the published form."""
        return ToolBoundaryError(
            f"{self._name} answered {path} in a form other than the published one: {str(error)[:300]}; check that "
            f"benchmark.container names a container of MCP-Atlas",
            kind="malformed_result",
        )

    @property
    def _name(self) -> str:
        return f"the container at {self._spec.address}" if self._spec.address else f"a container of {self._spec.image}"

    async def check_container(self, path: str) -> None:
        """Check that our container runs and has not run out of memory."""
        assert self._machine is not None
        state = await self._machine.state()
        if state.memory_kills:
            raise ToolBoundaryError(
                f"{self._name} has run out of memory ({path}); raise benchmark.container.memory_mb",
                kind="out_of_memory",
            )
        if not state.is_running:
            words = (await self._machine.last_words())[-300:] or "none"
            if words.endswith("exec format error"):
                raise ToolBoundaryError(
                    f"{self._name} cannot run: the image is not made for this machine's processor; get one that is",
                    kind="image_unfit",
                    is_retry_owed=False,
                )
            raise ToolBoundaryError(
                f"{self._name} ended with exit code {state.exit_code} ({path}); its last output: {words}",
                kind="container_gone",
            )


def _refuse(status: int, text: str) -> Any:
    raise ValueError(f"status {status}: {text[:200]}")


@asynccontextmanager
async def open_world(
    spec: WorldSpec, names: Sequence[str], settings: EnvironmentSettings, *, has_network: bool
) -> AsyncIterator[tuple[World, str]]:
    """Open a world for one trial, with its servers started. Closing it removes our container completely."""
    if spec.address:
        asked = partial(_asked_here, spec.address)
        world = World(asked, None, spec)
        await world.wait()
        yield world, ""
        return
    provider = docker_of(settings, "mcp_atlas with a container")
    async with connected() as docker:
        image_id = (await provider.images.ensure(docker, spec.image))["Id"]
    total_mb = memory_mb(spec)
    image = DockerImage(name=spec.image, network=_NETWORK if has_network else "none", work_dir="/")
    limits = SandboxLimits(memory_mb=spec.memory_mb or MEMORY_MB, processes=_PROCESSES)
    program = ("python3", "-c", _inside(), _ADDRESS)
    service = ServiceConfig(environment={**_variables(names), **({} if has_network else _OFFLINE)})
    async with provider.room.hold(total_mb):
        room = MemoryBudget.of_trial(total_mb)
        async with open_machine(image, limits, room, service=service) as machine, AsyncExitStack() as stack:
            beside = open_sidecar(image, RELAY, room, beside=machine, entrypoint=program[:1], arguments=program[1:])
            try:
                relay = HttpRelay(await stack.enter_async_context(beside))
            except SandboxBoundaryError:
                await World(partial(_asked_here, _ADDRESS), machine, spec).check_container("at its start")
                raise
            world = World(relay, machine, spec)
            await world.wait()
            yield world, image_id


def memory_mb(spec: WorldSpec) -> int:
    """Return the memory of a trial's containers in MiB."""
    return (spec.memory_mb or MEMORY_MB) + RELAY.memory_mb


@lru_cache(maxsize=1)
def _inside() -> str:
    """Return the source code of the program that runs in containers."""
    return Path(http_program.__file__).read_text(encoding="utf-8")


def _variables(names: Sequence[str]) -> Mapping[str, str]:
    """Return the environment of our container: which servers start, and their keys."""
    chosen = names if len(names) > 1 else [*names, next(name for name in _SECOND if name not in names)]
    return {"ENABLED_SERVERS": ",".join(chosen), **variables_in_container(names)}


async def _asked_here(address: str, asked: dict[str, Any]) -> dict[str, Any]:
    request = {**asked, "id": 0}
    with anyio.move_on_after(asked["timeout_s"] + _GRACE_S):
        return await anyio.to_thread.run_sync(http_program.answered, address, request, abandon_on_cancel=True)
    return {"status": 0, "body": f"timeout after {asked['timeout_s']:g} s"}


class HttpRelay:
    """Makes requests through a container, one after another.

    Args:
        channel: The standard streams of :mod:`http_program` in it.
    """

    def __init__(self, channel: LineChannel) -> None:
        self._channel = channel
        self._turn = anyio.Lock()
        self._number = 0

    async def __call__(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request."""
        async with self._turn:
            self._number += 1
            await self._channel.write(json.dumps({**asked, "id": self._number}).encode())
            with anyio.move_on_after(asked["timeout_s"] + _GRACE_S):
                async for line in self._channel.lines:
                    answer: dict[str, Any] = json.loads(line)
                    if answer["id"] == self._number:  # an earlier one may come late
                        return answer
                reason = self._channel.end[0] if self._channel.end else "it ended"
                return {"status": 0, "body": f"the relay is gone: {reason}"}
        return {"status": 0, "body": f"timeout after {asked['timeout_s']:g} s"}
