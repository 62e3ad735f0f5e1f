"""What a benchmark is: it lists tasks, opens an environment with tools for one of them, and grades what is left."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from recorder.values import Task, Variant
from runners.conversation import ToolDefinition
from runners.sandboxes.protocol import Sandbox, SandboxLimits, SandboxProvider, Way

AskJudge = Callable[[str, str], Awaitable[str]]
"""Send (system prompt, user prompt) to the judge model, recorded, and return its text. Raises GraderError."""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave back; ``server`` and ``server_pid`` where an MCP server ran it.

    ``reference_result_sha256`` and ``is_same_as_reference`` where a recorded reference has the same call.
    """

    text: str
    is_error: bool = False
    server: str | None = None
    server_pid: int | None = None
    reference_result_sha256: str | None = None
    is_same_as_reference: bool | None = None


class CheckpointResult(msgspec.Struct, frozen=True, kw_only=True):
    """Points for one checkpoint, and what the grader saw, in one sentence."""

    checkpoint_id: str
    score: float
    details: str


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file to keep: what the trial left behind and grading read."""

    name: str
    role: str
    media_type: str
    content: bytes


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """One result for every checkpoint, success as the benchmark defines it, and its own final score if it has one.

    ``resource_abuse`` says what the agent left behind that cannot be read within the limits of grading; the trial then
    ends by ``resource_abuse``, whatever ended the agent's part.
    """

    results: tuple[CheckpointResult, ...]
    is_success: bool
    final_score: float | None = None
    final_total: float | None = None
    artifacts: tuple[Artifact, ...] = ()
    resource_abuse: str | None = None


class Environment(Protocol):
    """One open environment of one trial. ``ask_user`` and ``submit`` are the agent loop's own, not tools here."""

    tools: tuple[ToolDefinition, ...]

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Execute one of ``tools``; wrong arguments are an error result.

        Raises:
            BoundaryError: The tool's machinery or the sandbox broke.
        """
        ...

    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Grade what the agent left behind and its final answer.

        Raises:
            GraderError: The grader crashed or a judge could not be reached.
        """
        ...


@runtime_checkable
class HasSandbox(Protocol):
    """An environment that is a sandbox, so that a program can work there in place of the native agent.

    It is opened with the ``way`` of its settings, and a benchmark of such environments says ``takes_programs = True``.
    """

    sandbox: Sandbox


@runtime_checkable
class HasFacts(Protocol):
    """An environment that tells what it is made of; recorded as artifacts before the agent begins."""

    facts: tuple[Artifact, ...]


@runtime_checkable
class BoundsItsGrading(Protocol):
    """An environment whose grading has limits of time of its own for every step, so that the common one is not set.

    A suite of tests may take an hour, and wait for the memory of its container before it begins.
    """

    bounds_its_grading: Literal[True]


@runtime_checkable
class ToolsAreServers(Protocol):
    """An environment whose tools are servers of their own: their time is waited for, not charged to the agent."""

    tools_are_servers: Literal[True]


@runtime_checkable
class HasSecrets(Protocol):
    """A benchmark that is given secrets."""

    def secrets(self) -> frozenset[str]:
        """Return values that must never be recorded."""
        ...


@runtime_checkable
class LeavesOut(Protocol):
    """A benchmark that knows tasks which cannot run on this machine, or as its options are."""

    def tasks(self) -> Sequence[Task]:
        """Return the tasks that can."""
        ...

    def left_out(self) -> Sequence[str]:
        """Return the ids of those that cannot, in a fixed order."""
        ...

    def why_not(self, task_id: str) -> str | None:
        """Return why one of them cannot, also of an id that nobody knows; None where it can."""
        ...


class EnvironmentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the environments of an experiment are opened."""

    sandbox: SandboxProvider
    limits: SandboxLimits
    way: Way | None = None
    """What a program that is the agent needs; None for the native agent."""


class Benchmark(Protocol):
    """A source of tasks and graders."""

    name: str
    version: str
    grader: str
    ends_on_text: bool
    """Whether a reply without tool calls is the final answer; else the agent must call ``submit``."""

    def tasks(self) -> Sequence[Task]:
        """Return every task, in a fixed order."""
        ...

    def variants(self) -> Sequence[Variant]:
        """Return every variant that comes with the benchmark, in a fixed order."""
        ...

    def system_prompt(self) -> str:
        """Return what the agent is told about the environment, the same under every condition; may be empty."""
        ...

    def open(
        self, task: Task, settings: EnvironmentSettings, variant: Variant | None = None
    ) -> AbstractAsyncContextManager[Environment]:
        """Open the environment of a task; closing leaves no process and no file behind.

        Args:
            task: The task.
            settings: How environments are opened.
            variant: The variant that is run, None with the full prompt; its ``environment_change`` is made.

        Raises:
            BoundaryError: It cannot be opened.
        """
        ...
