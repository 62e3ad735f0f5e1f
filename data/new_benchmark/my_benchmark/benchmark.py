"""The benchmark: lists its tasks, opens a work directory with tools for one of them, and grades what is left in it."""

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.runners.environments.benchmarks.protocol import (
    AskJudge,
    Benchmark,
    CheckpointResult,
    Environment,
    EnvironmentSettings,
    Grade,
    ToolResult,
)
from lhaw_record.runners.environments.benchmarks.workspace_tools import WORKSPACE_TOOLS, call_workspace_tool
from lhaw_record.runners.environments.grading.confined_grading import grade_apart
from lhaw_record.runners.environments.grading.deliverables import CheckpointNotMet, Deliverables
from lhaw_record.runners.environments.sandboxes.protocol import Sandbox
from lhaw_record.runners.models.replay import Reference
from my_benchmark.tasks import CHECKPOINTS, NAME, TASKS, VERSION, CountingTask


class MyBenchmark(Benchmark):
    """Counting words in files. The base class has defaults for the optional members."""

    name = NAME
    version = VERSION
    grader = "count-1"
    ends_on_text = True  # a reply without tool calls ends the trial; with False the agent must call `submit`

    def __init__(self) -> None:
        self._tasks = {task.task_id: task for task in TASKS}

    def tasks(self) -> Sequence[Task]:
        """Return every task, always in the same order."""
        return [task.task() for task in self._tasks.values()]

    def variants(self) -> Sequence[Variant]:
        """Return the variants that come with the benchmark; there may be none."""
        return [task.variant() for task in self._tasks.values()]

    def system_prompt(self) -> str:
        """Return what the agent is told about its tools, the same under every condition."""
        return "You work in a directory of your own, with the tools given. When you are done, say so in a sentence."

    def reference(self, task_id: str) -> Reference:
        """Return what scripted/replay_masked replays."""
        return self._tasks[task_id].reference()

    @asynccontextmanager
    async def open(
        self, task: Task, settings: EnvironmentSettings, variant: Variant | None = None
    ) -> AsyncIterator["CountingEnvironment"]:
        """Open a sandbox that holds the task's files and nothing of the grader."""
        del variant  # these variants change the prompt only
        own = self._tasks[task.task_id]
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "notes.txt").write_text(own.text + "\n", encoding="utf-8")
            async with settings.sandbox.open(Path(folder), settings.limits, settings.access) as sandbox:
                yield CountingEnvironment(own, sandbox)


class CountingEnvironment(Environment):
    """One open work directory of one trial."""

    tools = WORKSPACE_TOOLS  # bash, python, read_file, write_file; add your own definitions and execute them in `call`

    def __init__(self, task: CountingTask, sandbox: Sandbox) -> None:
        self._task = task
        self.sandbox = sandbox  # public: here programs are started

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Execute a tool; what the agent does wrong is an error result, never an exception."""
        return await call_workspace_tool(self.sandbox, name, arguments)

    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Grade what the agent left behind, in a child process with limits: no file of an agent is read here."""
        del ask_judge
        with tempfile.TemporaryDirectory() as folder:
            await self.sandbox.export(Path(folder))
            left = Deliverables(Path(folder), final_answer)
            return await grade_apart(grade_count, left, self._task, checkpoints=CHECKPOINTS)


def grade_count(left: Deliverables, task: CountingTask) -> Grade:
    """Grade what an agent left behind in a task: one result for every checkpoint, whatever it did."""
    try:
        found = int(left.text("sum.json"))
    except (CheckpointNotMet, ValueError):
        found = None
    scores = (float(found is not None), float(found == task.right_count))
    details = f"sum.json holds {'no number' if found is None else found}"
    return Grade(
        results=tuple(
            CheckpointResult(checkpoint_id=f"c{at}", score=score, details=details)
            for at, score in enumerate(scores, start=1)
        ),
        is_success=all(scores),
        artifacts=left.artifacts(),
    )
