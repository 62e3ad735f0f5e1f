"""The desk benchmark: lists its tasks and variants, opens a workspace in a sandbox, grades the result."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread

from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.base.host.scratch import scratch_folder
from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.task import (
    DeskTask,
    desk_tasks,
    environment_digest,
    faulty_requests,
    grade_desk,
    modules_of,
    prompt_variants,
)
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import apply_change, write_files
from lhaw_record.runners.environments.benchmarks.protocol import (
    AskJudge,
    Benchmark,
    Environment,
    EnvironmentSettings,
    Grade,
    ToolResult,
)
from lhaw_record.runners.environments.benchmarks.workspace_tools import WORKSPACE_TOOLS, call_workspace_tool
from lhaw_record.runners.environments.grading.confined_grading import grade_apart
from lhaw_record.runners.environments.sandboxes.protocol import Sandbox
from lhaw_record.runners.experiment.tables import GraderSpec

_VERSION = "1"  # raise it when a prompt, a workspace or a variant changes: trials of different versions differ
_GRADER = "desk-checks/1"  # raise it when a check changes
_LICENCE = "MIT"


def open_desk(options: dict[str, Any], base: Path, grader: GraderSpec) -> "DeskBenchmark":
    del base, grader
    if options:
        raise ExperimentError(f"unknown key 'benchmark.{next(iter(options))}'; desk has no options")
    return DeskBenchmark()


class DeskBenchmark(Benchmark):
    """The desk benchmark, with the published tasks or with ``tasks``, for example with changed parameters."""

    name = "desk"
    version = _VERSION
    grader = _GRADER
    ends_on_text = False

    def __init__(self, tasks: Sequence[DeskTask] | None = None) -> None:
        self._tasks = {task.task_id: task for task in (desk_tasks() if tasks is None else tasks)}

    def tasks(self) -> Sequence[Task]:
        return [self._recorded(task) for task in self._tasks.values()]

    def variants(self) -> Sequence[Variant]:
        """Return all hand-written variants, by task: removals first, then requests with a fault."""
        return [
            variant for task in self._tasks.values() for variant in (*prompt_variants(task), *faulty_requests(task))
        ]

    def system_prompt(self) -> str:
        """Return the system prompt, which describes the work directory and the tools."""
        return data_path("prompts", "system.md").read_text(encoding="utf-8").strip()

    @asynccontextmanager
    async def open(
        self, task: Task, settings: EnvironmentSettings, variant: Variant | None = None
    ) -> AsyncIterator["DeskEnvironment"]:
        """Open the task's workspace in a new sandbox. It contains the task's files but nothing of the grader.

        A variant may change the files, but the grader expects the same result.
        """
        desk_task = self._tasks[task.task_id]
        files = apply_change(desk_task.build(desk_task.parameters), variant.environment_change if variant else None)
        with scratch_folder() as folder:
            await anyio.to_thread.run_sync(write_files, files, folder)
            async with settings.sandbox.open(folder, settings.limits, settings.access) as sandbox:
                yield DeskEnvironment(desk_task, sandbox)

    def _recorded(self, task: DeskTask) -> Task:
        return Task(
            benchmark=self.name,
            benchmark_version=self.version,
            task_id=task.task_id,
            prompt=task.prompt(),
            checkpoints=task.recorded_checkpoints(),
            environment_digest=environment_digest(task),
            domain=task.domain,
            licence=_LICENCE,
        )


class DeskEnvironment(Environment):
    """The open workspace of one trial."""

    tools = WORKSPACE_TOOLS
    sandbox: Sandbox
    bounds_its_grading = True

    def __init__(self, task: DeskTask, sandbox: Sandbox) -> None:
        self._task = task
        self.sandbox = sandbox

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Execute a workspace tool in the sandbox."""
        return await call_workspace_tool(self.sandbox, name, arguments)

    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Export the work directory and run the task's checks on it in a child process with resource limits."""
        with scratch_folder() as folder:
            await self.sandbox.export(folder)
            return await grade_apart(
                grade_desk,
                OfficeDeliverables(folder, final_answer),
                self._task,
                checkpoints=self._task.recorded_checkpoints(),
                modules=modules_of(self._task),
            )
