"""The law of limits: each key of ``[limits]``, met by the agent, is shown to it and counted, or ends its trial graded.

The cases are the fields of the table, so that a new key without a case fails. What meets a limit outside of the agent's
part is missing data: see ``test_infrastructure_law.py``, and with each benchmark ``tests/support/machine_limits.py``.
"""

import errno

import pytest

from lhaw_record.recorder.events import ActionFinished, TrialFinished
from lhaw_record.runners.environments.benchmarks.workspace_tools import call_workspace_tool
from lhaw_record.runners.environments.sandboxes.command_output import command_result
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import LimitsSpec
from lhaw_record.runners.runs.executors.local import _sandbox_limits
from tests.runners.agents import test_trial
from tests.runners.agents.test_trial import SUBMIT, WORK, BrittleEnvironment, Sleepy, attempt
from tests.support.machine_limits import ENDINGS
from tests.support.toy_plan import experiment

OF_TOOL_SERVERS = (
    "tool_start_seconds",
    "tool_message_mb",
    "tool_result_kb",
)  # no agent meets them: mcp_atlas tries them
OF_THE_USER = ("max_user_turns",)  # it ends a trial as handed in: test_prose_questions.py tries it
KEYS = [key for key in LimitsSpec.__struct_fields__ if key not in (*OF_TOOL_SERVERS, *OF_THE_USER)]
ENDS_TRIAL = {"max_turns": (1, "turn_limit"), "max_actions": (1, "action_limit"), "max_seconds": (0.2, "time_limit")}
# Exit code, notes and output of a command, as the driver in a sandbox reports them.
STOPS_COMMAND = {
    "command_seconds": (b"", b"timeout", b""),
    "memory_mb": (b"137", b"memory_limit", b""),
    "processes": (b"254", b"process_limit", b""),
    "file_mb": (b"153", b"", b"File size limit exceeded"),
}
# How a program of a grader ends at the same limit: a case of each benchmark's law of missing data.
STOPS_GRADER = {
    "command_seconds": "is_timeout",
    "memory_mb": "is_out_of_memory",
    "processes": "is_out_of_processes",
    "file_mb": "file_too_large",
}


class Limited:
    """A sandbox whose every command meets a limit."""

    def __init__(self, key):
        self.key = key

    async def run_bash(self, command):
        """Report as the driver does."""
        code, notes, output = STOPS_COMMAND[self.key]
        return command_result([b"done", code, notes, b"%d" % len(output), output, b""], SandboxLimits())


@pytest.mark.thorough
@pytest.mark.parametrize("key", KEYS)
async def test_a_limit_that_the_agent_meets_is_its_own(tmp_path, monkeypatch, key):
    """A trial's limit ends it with its name, and what was left is graded; a command's is told, recorded, survived."""

    class Commands(BrittleEnvironment):
        async def call(self, name, arguments):
            return await call_workspace_tool(Limited(key), "bash", {"command": "x"})

    if key in ENDS_TRIAL:
        value, ended_by = ENDS_TRIAL[key]
        answers, changes, place = [WORK], {"limits": LimitsSpec(**{key: value})}, BrittleEnvironment
        place = Sleepy if key == "max_seconds" else place
    else:
        answers, changes, ended_by, place = [WORK, SUBMIT], {}, "submitted", Commands
    monkeypatch.setattr(test_trial, "BrittleEnvironment", place)
    events, _ = await attempt(tmp_path, answers, changes=changes)
    assert isinstance(events[-1], TrialFinished)
    assert (events[-1].ended_by, events[-1].is_success) == (ended_by, True)
    (done, *_) = [event for event in events if isinstance(event, ActionFinished)]
    assert done.limit_met == (None if key in ENDS_TRIAL else key)
    assert key in ENDS_TRIAL or done.is_error
    assert key in ENDS_TRIAL or any(word in done.result for word in ("limit", "timed out"))


def test_every_limit_of_the_machine_is_tried_on_the_graders():
    """A new key needs a place: it ends the trial, or a grader that meets it is missing data."""
    assert sorted([*ENDS_TRIAL, *STOPS_GRADER]) == sorted(KEYS)
    assert set(STOPS_GRADER.values()) <= set(ENDINGS)


@pytest.mark.parametrize("key", [key for key in LimitsSpec.__struct_fields__ if key not in (*ENDS_TRIAL, *OF_THE_USER)])
def test_every_limit_of_a_sandbox_can_be_set(key):
    """What the file says is what the sandbox gets; one that could not be set was once scored."""
    limits = _sandbox_limits(experiment(limits=LimitsSpec(**{key: 77})))
    assert getattr(limits, key) == 77
    others = {"output_bytes", *OF_TOOL_SERVERS}  # what is cut is marked, and lost to none
    assert set(SandboxLimits.__struct_fields__) - set(KEYS) == others


@pytest.mark.thorough
@pytest.mark.parametrize("message", ["curl: (22) 413 File too large", "File too large: 20 MB at most"])
def test_an_answer_about_a_large_file_is_no_limit(message):
    """A command may fail because a server takes no such file."""
    output = message.encode()
    assert command_result([b"done", b"22", b"", b"%d" % len(output), output, b""], SandboxLimits()).limit_met is None


async def test_a_file_that_could_not_grow_is_counted_wherever_it_is_told():
    """By the words of a program that does not die of it, and by the error of the tool that writes files."""
    said = command_result([b"done", b"1", b"", b"20", b"x: File too large\n..", b""], SandboxLimits())
    quoted = command_result([b"done", b"0", b"", b"20", b"x: File too large\n..", b""], SandboxLimits())
    assert (said.limit_met, quoted.limit_met) == ("file_mb", None)

    class Full:
        async def write_file(self, path, content):
            raise OSError(errno.EFBIG, "File too large", path)

    written = await call_workspace_tool(Full(), "write_file", {"path": "a", "content": "b"})
    assert (written.limit_met, written.is_error) == ("file_mb", True)
