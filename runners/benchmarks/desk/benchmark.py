"""The desk benchmark: lists its tasks and variants, opens a workspace in a sandbox, grades what is left in it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio.to_thread
import msgspec

from recorder.resources import data_path
from recorder.values import Task, Variant
from runners.benchmarks.desk.changes import changed
from runners.benchmarks.desk.delivered import Delivered
from runners.benchmarks.desk.files import write_files
from runners.benchmarks.desk.registry import desk_tasks
from runners.benchmarks.desk.template import DeskTask, grade_desk, modules_of
from runners.benchmarks.desk.variants import read_variants, variant_of
from runners.benchmarks.protocol import AskJudge, EnvironmentSettings, Grade, ToolResult
from runners.errors import ExperimentError
from runners.experiment import GraderSpec
from runners.grading import grade_apart
from runners.sandboxes.protocol import Sandbox
from runners.scratch import scratch_folder
from runners.tools import WORKSPACE_TOOLS, call_workspace_tool


class _About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``data/desk/benchmark.toml``."""

    version: str
    grader: str
    licence: str


def open_desk(options: dict[str, Any], base: Path, grader: GraderSpec) -> "DeskBenchmark":
    """Return the benchmark; nothing about it can be chosen.

    Raises:
        ExperimentError: It is given an option.
    """
    del base, grader
    if options:
        raise ExperimentError(f"unknown key 'benchmark.{next(iter(options))}'; desk has no options of its own")
    return DeskBenchmark()


class DeskBenchmark:
    """Office work with deterministic graders.

    Args:
        tasks: Other instances than the published ones, for example with changed parameters.
    """

    name = "desk"
    ends_on_text = False
    takes_programs = True

    def __init__(self, tasks: Sequence[DeskTask] | None = None) -> None:
        about = msgspec.toml.decode(data_path("desk", "benchmark.toml").read_bytes(), type=_About)
        self.version = about.version
        self.grader = about.grader
        self._licence = about.licence
        self._tasks = {task.task_id: task for task in (desk_tasks() if tasks is None else tasks)}

    def tasks(self) -> Sequence[Task]:
        """Return every task, in the order of their names."""
        return [self._recorded(task) for task in self._tasks.values()]

    def variants(self) -> Sequence[Variant]:
        """Return every hand-written variant, in the order of the tasks and of their files."""
        return [variant_of(task, entry) for task in self._tasks.values() for entry in read_variants(task)]

    def system_prompt(self) -> str:
        """Return what the agent is told about its work directory and tools."""
        return data_path("prompts", "system.md").read_text(encoding="utf-8").strip()

    @asynccontextmanager
    async def open(
        self, task: Task, settings: EnvironmentSettings, variant: Variant | None = None
    ) -> AsyncIterator["DeskEnvironment"]:
        """Open the task's workspace in a new sandbox; it holds the task's files and nothing of the grader.

        A variant may change the files; what the grader looks for stays the same.

        Raises:
            SandboxBoundaryError: The sandbox or the change cannot be made.
        """
        desk_task = self._tasks[task.task_id]
        files = changed(desk_task.build(desk_task.parameters), variant.environment_change if variant else None)
        with scratch_folder() as folder:
            await anyio.to_thread.run_sync(write_files, files, folder)
            async with settings.sandbox.open(folder, settings.limits, settings.way) as sandbox:
                yield DeskEnvironment(desk_task, sandbox)

    def _recorded(self, task: DeskTask) -> Task:
        return Task(
            benchmark=self.name,
            benchmark_version=self.version,
            task_id=task.task_id,
            prompt=task.prompt(),
            checkpoints=task.recorded_checkpoints(),
            environment_digest=task.environment_digest(),
            domain=task.domain,
            licence=self._licence,
        )


class DeskEnvironment:
    """One open workspace of one trial."""

    tools = WORKSPACE_TOOLS
    bounds_its_grading: Literal[True] = True

    def __init__(self, task: DeskTask, sandbox: Sandbox) -> None:
        self._task = task
        self.sandbox = sandbox

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Execute a workspace tool in the sandbox.

        Raises:
            SandboxBoundaryError: The sandbox broke.
        """
        return await call_workspace_tool(self.sandbox, name, arguments)

    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Export the work directory and run the task's checks on it, in a child with limits.

        Raises:
            GraderError: A check crashed: a fault of ours, not of the agent.
            SandboxBoundaryError: The work directory cannot be exported.
        """
        with scratch_folder() as folder:
            await self.sandbox.export(folder)
            return await grade_apart(
                grade_desk,
                Delivered(folder, final_answer),
                self._task,
                checkpoints=self._task.recorded_checkpoints(),
                modules=modules_of(self._task),
            )
