"""The benchmark in a real sandbox: opened, worked in, graded."""

from collections.abc import Mapping

import msgspec
import pytest

from lhaw_record.runners.base.errors import GraderError
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, desk_tasks
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

SETTINGS = EnvironmentSettings(sandbox=ProcessSandboxProvider(), limits=SandboxLimits())


async def test_workspace_holds_the_task_and_nothing_else():
    """The agent sees exactly the files of the task: no grader, no answers, no prompt."""
    benchmark = DeskBenchmark()
    for task, template in zip(benchmark.tasks(), desk_tasks(), strict=True):
        async with benchmark.open(task, SETTINGS) as environment:
            listing = await environment.call("bash", {"command": "find . -type f | sort"})
            files: Mapping[str, object] = template.build(template.parameters)
            assert listing.text.split("\n")[:-1] == sorted(f"./{name}" for name in files)


async def test_what_the_agent_left_is_graded():
    """A file written through a tool reaches the grader and comes back as an artifact."""
    benchmark = DeskBenchmark()
    task = next(task for task in benchmark.tasks() if task.task_id == "expense-audit")
    async with benchmark.open(task, SETTINGS) as environment:
        await environment.call("write_file", {"path": "note_to_finance.md", "content": "# Nothing found\n"})
        grade = await environment.grade("done", None)
    assert [item.name for item in grade.artifacts] == ["note_to_finance.md"]
    assert not grade.is_success


async def test_crashing_check_is_the_graders_fault():
    """A check that crashes is missing data at the boundary grader, not a score of zero."""
    template = desk_tasks()[0]
    broken = msgspec.structs.replace(
        template, checkpoints=(DeskCheckpoint(checkpoint_id="c", label="crashes", check=_crash),)
    )
    benchmark = DeskBenchmark([broken])
    async with benchmark.open(benchmark.tasks()[0], SETTINGS) as environment:
        with pytest.raises(GraderError, match="half of nothing") as caught:
            await environment.grade("", None)
    assert not caught.value.is_retry_owed


def _crash(left, parameters):
    raise ZeroDivisionError("half of nothing")
