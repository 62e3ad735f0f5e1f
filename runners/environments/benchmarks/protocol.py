"""The base classes of benchmarks and their environments, with defaults for the optional members.

Every benchmark inherits from :class:`Benchmark`, and its environments from :class:`Environment`.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.conversation.messages import ToolDefinition, ToolResult
from lhaw_record.runners.environments.grading.grade import Artifact, CheckpointResult, Grade
from lhaw_record.runners.environments.sandboxes.protocol import (
    ProgramAccess,
    ProgramSandbox,
    SandboxLimits,
    SandboxProvider,
)
from lhaw_record.runners.models.replay import Reference
from lhaw_record.runners.models.reply_forms import ReplyForm

__all__ = [
    "Artifact",
    "AskJudge",
    "Benchmark",
    "CheckpointResult",
    "Environment",
    "EnvironmentSettings",
    "Grade",
    "Reference",
    "ToolDefinition",
    "ToolResult",
]
"""Everything that the author of a benchmark imports. Some of it is defined elsewhere and re-exported here."""


class AskJudge(Protocol):
    """The judge model. Its calls are recorded."""

    async def __call__(self, system: str, user: str, form: ReplyForm | None = None) -> str:
        """Send a system prompt, unless it is empty, and a user prompt, and return the model's text.

        The text has the given form only if the model takes JSON schemas.

        Raises:
            GraderError: The model cannot be reached, or its reply was cut twice.
        """
        ...


Keep = Callable[[Artifact], Awaitable[None]]
"""Stores an artifact of a trial."""


FillIn = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Lets the user fill in a form of a tool server: the parameters of ``elicitation/create`` to its result."""


async def _forget(artifact: Artifact) -> None:
    """Discard an artifact, for environments that are not recorded."""


class EnvironmentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an experiment opens its environments."""

    sandbox: SandboxProvider
    limits: SandboxLimits
    access: ProgramAccess | None = None
    """How an agent program reaches its model. None for the native agent."""
    keep: Keep = _forget
    """Stores artifacts that arise while the agent works, such as screenshots, even if the trial fails later."""
    fill_in: FillIn | None = None
    """Set if the condition has a user to ask. Otherwise tool servers are told that nobody fills in their forms."""


class Environment(ABC):
    """The open environment of one trial. ``ask_user`` and ``submit`` belong to the agent loop, not to ``tools``."""

    tools: tuple[ToolDefinition, ...]

    sandbox: ProgramSandbox | None = None
    """The sandbox in which an agent program runs instead of the native agent, opened with ``settings.access``.

    If None, a program runs in an empty sandbox of the experiment and gets all ``tools`` over MCP.
    """

    program_tools: tuple[ToolDefinition, ...] = ()
    """The subset of ``tools`` that a program gets over MCP in addition to its own tools, if ``sandbox`` is set."""

    ask_command: str | None = None
    """A shell command by which agents may ask the user too, in arms where somebody answers."""

    facts: tuple[Artifact, ...] = ()
    """Artifacts that describe the environment. They are recorded before the agent begins."""

    bounds_its_grading: bool = False
    """Whether every step of grading has its own time limit, so that the common limit does not apply.

    A test suite may take an hour, and may first have to wait for its container's memory.
    """

    tools_are_servers: bool = False
    """Whether the tools are separate servers, whose time is not charged to the agent."""

    @abstractmethod
    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Execute one of ``tools``. Wrong arguments give an error result.

        Raises:
            BoundaryError: The infrastructure behind the tool, or the sandbox, broke.
        """

    async def next_step(self) -> str | None:
        """Grade the submitted step and return the user's next request, or None after the last step.

        Only tasks with several steps override this method.

        Raises:
            BoundaryError: The step could not be graded, or the next one cannot begin.
        """
        return None

    def program_did(self, name: str, arguments: dict[str, Any], result: str) -> None:
        """Receive a tool call by an agent program, in the order of the results. Its own tools are included.

        Graders that depend on the agent's tool calls need this. By default the call is ignored.
        """
        del name, arguments, result

    @abstractmethod
    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Grade the final state of the environment and the agent's final answer.

        Args:
            final_answer: The agent's final answer. It may be empty.
            ask_judge: Asks the judge model, or None if there is none.

        Raises:
            GraderError: The grader crashed or a judge could not be reached.
        """


class Benchmark(ABC):
    """A source of tasks and graders."""

    name: str
    """The name in ``[benchmark] name`` and in the ``benchmark`` column of every table."""

    version: str
    """Part of every trial's identity. It changes when tasks or files change."""

    grader: str
    """Part of every trial's identity. It changes when the grading of tasks changes."""

    ends_on_text: bool
    """Whether a reply without tool calls is the final answer. Otherwise the agent must call ``submit``."""

    why_no_programs: str = ""
    """Why a program cannot be the agent, in one sentence. Empty if it can."""

    tools_over_mcp: Literal["none", "some", "all"] = "none"
    """Which tools programs get over MCP: none, some (in the task's own sandbox), or all (in an empty sandbox).

    With ``some``, a task may have no such tools: see :meth:`has_mcp_tools`.
    """

    needs_sandbox: str | None = None
    """The only ``sandbox.kind`` in which the tasks can run, or None if any kind will do."""

    has_own_images: bool = False
    """Whether every task has its own Docker image, so that an experiment need not name ``sandbox.image``."""

    files: tuple[Path, ...] = ()
    """The files and folders that the benchmark's options name. Workers on other machines get copies."""

    @abstractmethod
    def tasks(self) -> Sequence[Task]:
        """Return every task that can run here, in a fixed order."""

    def has_mcp_tools(self, task_id: str) -> bool:
        """Return whether programs get tools over MCP for a task. Programs without MCP support cannot run it."""
        del task_id
        return self.tools_over_mcp != "none"

    def needed_tools(self, task_id: str) -> frozenset[str]:
        """Return the names of the tools without which a task cannot be done. Its trials start with all of them."""
        del task_id
        return frozenset()

    async def lacking_tools(self, tasks: Sequence[Task], settings: EnvironmentSettings) -> dict[str, frozenset[str]]:
        """Return the needed tools that environments lack, by task id. Such tasks are refused before the first trial.

        The default opens environments in turn until every needed tool was met.

        Raises:
            BoundaryError: An environment cannot be opened.
        """
        met: set[str] = set()
        lacking: dict[str, frozenset[str]] = {}
        for task in tasks:
            if needed := self.needed_tools(task.task_id) - met:
                async with self.open(task, settings) as environment:
                    met.update(tool.name for tool in environment.tools)
                lacking |= {task.task_id: needed - met} if needed - met else {}
        return lacking

    def variants(self) -> Sequence[Variant]:
        """Return every variant that comes with the benchmark, in a fixed order. Others are generated or imported."""
        return ()

    @abstractmethod
    def system_prompt(self) -> str:
        """Return the system prompt, which describes the environment.

        It is the same under every condition, and may be empty.
        """

    def program_prompt(self) -> str:
        """Return the text that agent programs get before the task, in place of the system prompt.

        It is the same under every condition, and may be empty.
        """
        return data_path("prompts", "program.md").read_text(encoding="utf-8").strip()

    @abstractmethod
    def open(
        self, task: Task, settings: EnvironmentSettings, variant: Variant | None = None
    ) -> AbstractAsyncContextManager[Environment]:
        """Open the environment of a task. Closing it leaves no process or file behind.

        Args:
            task: The task.
            settings: How environments are opened.
            variant: The variant to run, or None to run the full prompt. Its ``environment_change`` is applied.

        Raises:
            BoundaryError: The environment cannot be opened.
        """

    def reference(self, task_id: str) -> Reference | None:
        """Return a reference solution of a task, which scripted models replay, or None if none is known."""
        del task_id
        return None

    def has_steps(self, task_id: str) -> bool:
        """Return whether the environment of a task has a ``next_step``."""
        del task_id
        return False

    def left_out(self) -> Sequence[str]:
        """Return the ids of the tasks that cannot run here, in a fixed order."""
        return ()

    def why_not(self, task_id: str) -> str | None:
        """Return why a task cannot run here, also for an unknown task.

        Returns None if the task can run, or if the reason is unknown.
        """
        del task_id
        return None

    def remarks(self) -> Sequence[str]:
        """Return remarks about this setup to print with a plan, such as a tool that agents lack."""
        return ()

    def memory_mb(self, task_id: str, sandbox_mb: int) -> int:
        """Return the total memory that a trial of a task needs, in MiB, if its sandbox has ``sandbox_mb``."""
        del task_id
        return sandbox_mb

    async def check_before_run(self, settings: EnvironmentSettings) -> None:
        """Check, before the first trial, for problems that would make every trial fail. The default checks nothing.

        Raises:
            BoundaryError: There is such a problem. The message says how to fix it.
        """
        del settings

    def secrets(self) -> frozenset[str]:
        """Return the secret values that the benchmark was given. They must never be recorded."""
        return frozenset()
