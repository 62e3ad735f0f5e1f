"""The open environment of one trial: the row's enabled tools on running servers, and the grading of the answer."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.values import Task
from lhaw_record.runners.base.conversation.messages import ToolDefinition
from lhaw_record.runners.base.errors import GraderError, ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.claims import grade_claims, grade_of
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import (
    DATA_MOUNT,
    MOUNTED,
    confined,
    translated,
    unconfined,
)
from lhaw_record.runners.environments.benchmarks.mcp_atlas.judge import ClaimJudge, scores_unasked
from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import RecordedCall, Row
from lhaw_record.runners.environments.benchmarks.mcp_atlas.server import ServerAnswer, ServerPlan
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import (
    ServerCatalog,
    ServerSpec,
    command_of,
    runtime_roots,
    with_credentials,
)
from lhaw_record.runners.environments.benchmarks.mcp_lines import shortened
from lhaw_record.runners.environments.benchmarks.protocol import (
    Artifact,
    AskJudge,
    Environment,
    EnvironmentSettings,
    Grade,
    ToolResult,
)
from lhaw_record.runners.environments.grading.confined_grading import grade_apart
from lhaw_record.runners.environments.grading.deliverables import Deliverables
from lhaw_record.runners.environments.sandboxes.protocol import ProgramSandbox, SandboxLimits

if TYPE_CHECKING:
    from mcp_types import Tool

MAX_RESULT_BYTES = 1 << 20


class ToolServer(Protocol):
    """A server that answers calls: an installed one, or one of a container."""

    name: str

    @property
    def pid(self) -> int | None:
        """The id of its process, or None if that is in a container."""

    @property
    def tools(self) -> "Sequence[Tool]":
        """Its tools, under its own names."""

    @property
    def refused_tools(self) -> Mapping[str, str]:
        """The tools that no model can have, and why, by name."""

    async def call(self, tool: str, arguments: dict[str, Any]) -> ServerAnswer:
        """Call one tool.

        Raises:
            ToolBoundaryError: The server died or did not answer in time.
        """


class ServedTool(msgspec.Struct, frozen=True):
    """One enabled tool: its server, and the tool's name on that server."""

    server: ToolServer
    tool: str


class McpAtlasEnvironment(Environment):
    """The open environment of one trial.

    Args:
        task: The task. Its checkpoints are the row's claims.
        offered: The tools, keyed by their names in the row.
        recorded: The calls of the reference. Live results are compared with theirs.
        judge: The model that grades claims, or None to use the deterministic matcher.
        data_at: The host path of the data for unconfined servers, or None if the data is at ``/data``.
        facts: Artifacts that describe the servers.
        sandbox: The place of a program, or None for the native agent and where any empty sandbox will do.
        settings: Say how much of a tool's result the agent reads, and keep what no agent can be shown.
    """

    tools_are_servers = True

    def __init__(
        self,
        task: Task,
        offered: dict[str, ServedTool],
        recorded: Sequence[RecordedCall],
        judge: ClaimJudge | None,
        data_at: str | None = None,
        facts: tuple[Artifact, ...] = (),
        sandbox: ProgramSandbox | None = None,
        settings: EnvironmentSettings | None = None,
    ) -> None:
        self._task = task
        self._offered = offered
        self._judge = judge
        self._data_at = data_at
        self.facts = facts
        self._settings = settings
        self.sandbox = sandbox
        self._recorded: dict[bytes, list[str]] = {}
        for call in recorded:
            if call.result is not None:
                self._recorded.setdefault(_call_key(call.name, call.arguments), []).append(call.result)
        self.tools = tuple(_definition(name, tool) for name, tool in offered.items())
        self.program_tools = self.tools

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool on its server.

        The result names the server process, and says whether the text equals the recorded result of the reference.
        """
        offered = self._offered.get(name)
        if offered is None:
            return ToolResult(text=f"There is no tool {name!r} here.", is_error=True)
        sent = arguments if self._data_at is None else translated(arguments, MOUNTED, self._data_at)
        answer = await offered.server.call(offered.tool, sent)
        most_bytes = MAX_RESULT_BYTES
        if self._settings is not None:
            most_bytes = self._settings.limits.result_bytes(MAX_RESULT_BYTES)
            for artifact in answer.unshown:
                await self._settings.keep(artifact)
        text = answer.text
        if self._data_at is not None:
            text = translated(text, re.compile(re.escape(self._data_at)), DATA_MOUNT)
        reference = self._take_reference(name, arguments)
        return ToolResult(
            text=shortened(text, most_bytes),
            is_error=answer.is_error,
            server=offered.server.name,
            server_pid=offered.server.pid,
            reference_result_sha256=None if reference is None else hashlib.sha256(reference.encode()).hexdigest(),
            is_same_as_reference=None if reference is None else reference == text,
        )

    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Score every claim against the final answer. Changes to the data do not count."""
        if self._judge is None:
            left = Deliverables(None, final_answer)
            return await grade_apart(grade_claims, left, self._task, checkpoints=self._task.checkpoints)
        claims = [checkpoint.label for checkpoint in self._task.checkpoints]
        if (scores := scores_unasked(claims, final_answer)) is not None:
            return grade_of(self._task, scores)
        if ask_judge is None:
            raise GraderError(
                "the claim judge has no model to ask; set [grader.judge]", kind="no_judge", is_retry_owed=False
            )
        return grade_of(self._task, await self._judge.score(claims, final_answer, ask_judge))

    def _take_reference(self, name: str, arguments: dict[str, Any]) -> str | None:
        """Return the recorded result of a call, or None if the reference does not make it.

        Repeated calls get the recorded results in order. After the last one, they get the last one again.
        """
        results = self._recorded.get(_call_key(name, arguments))
        if not results:
            return None
        return results.pop(0) if len(results) > 1 else results[0]


def _call_key(name: str, arguments: dict[str, Any]) -> bytes:
    return canonical_json([name, arguments])


def _definition(name: str, offered: ServedTool) -> ToolDefinition:
    listed = next(tool for tool in offered.server.tools if tool.name == offered.tool)
    return ToolDefinition(name=name, description=listed.description or "", input_schema=dict(listed.input_schema))


def server_plan(
    spec: ServerSpec, servers: Path, data: Path, limits: SandboxLimits, *, is_confined: bool = True
) -> ServerPlan:
    """Return the plan that starts a server on a copy of the data."""
    command = [with_credentials(part) for part in command_of(spec, servers)]
    variables = {name: with_credentials(value) for name, value in spec.variables.items()}
    readable = runtime_roots(spec, servers)
    process = (
        confined(command, variables, data, readable, limits.file_mb, has_network=spec.needs_network)
        if is_confined
        else unconfined(command, variables, data)
    )
    return ServerPlan(name=spec.name, process=process, limits=limits, protocol=spec.protocol)


def offered_tools(row: Row, known: ServerCatalog, servers: Mapping[str, ToolServer]) -> dict[str, ServedTool]:
    """Return the enabled tools of a row that its running servers actually list, in the row's order."""
    offered = {}
    for name in row.enabled_tools:
        split = known.split(name)
        server = servers.get(split[0]) if split else None
        if split and server and split[1] in server.refused_tools:
            raise ToolBoundaryError(
                f"MCP server {server.name}: its tool {split[1]} cannot be offered: {server.refused_tools[split[1]]}",
                kind="malformed_tool",
                is_retry_owed=False,
            )
        if split and server and any(tool.name == split[1] for tool in server.tools):
            offered[name] = ServedTool(server, split[1])
    return offered
