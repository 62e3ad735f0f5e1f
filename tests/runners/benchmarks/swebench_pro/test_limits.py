"""The law of missing data for the tests of a patch: whichever step meets a limit of this machine, nothing is scored."""

import json

import pytest

from runners.benchmarks.swebench_pro import suite
from runners.benchmarks.swebench_pro.instances import Instance
from runners.benchmarks.swebench_pro.scripts import Scripts
from runners.errors import GraderError
from runners.sandboxes.docker.execution import ExecResult

STEPS = {
    "base commit": "git reset",
    "patch": "git apply",
    "files of the tests": "git checkout solved --",
    "run script": "run_script.sh",
    "parser": "parser.py",
}
LIMITS = {
    "time": {"exit_code": None, "is_timeout": True},
    "memory": {"exit_code": 137, "is_out_of_memory": True},
    "memory of a child": {"exit_code": 1, "is_out_of_memory": True},
    "processes": {"exit_code": 1, "is_out_of_processes": True},
    "disk": {"exit_code": 1, "stderr": b"error: x: No space left on device\n"},
    "size of a file": {"exit_code": 1, "stderr": b"error: x: File too large\n"},
    "a signal": {"exit_code": 137},
}


class Machine:
    """A container in which every step ends well and one test fails, but for the steps that meet a limit."""

    def __init__(self, step="", **ending):
        self.step, self.ending = step, ending

    async def run(self, argv, **_):
        """End as ordered."""
        good = {"exit_code": 0, "stdout": b"", "stderr": b""}
        if argv[-1].startswith("tail"):
            good["stdout"] = b"test_x failed"
        return ExecResult(**{**good, **(self.ending if self.step and self.step in argv[-1] else {})})

    async def put(self, folder, files):
        """Take files."""

    async def get(self, path, limits):
        """Return what the parser wrote."""
        return {"output.json": json.dumps({"tests": [{"name": "test_x", "status": "FAILED"}]}).encode()}


def opened_on(machine):
    """Return the tester of an instance."""
    instance = Instance(
        instance_id="i",
        repo="a/b",
        base_commit="base",
        problem_statement="p",
        requirements="",
        interface="",
        fail_to_pass=("test_x",),
        pass_to_pass=(),
        before_tests="git checkout solved -- t.py",
        test_files=("t.py",),
    )
    scripts = Scripts(run_script=b"run", parser=b"parse")
    return suite.Tester(machine, instance, scripts, work_dir="/app", timeout_s=1.0)


async def test_a_test_that_fails_counts_where_no_limit_was_met():
    """The verdict without a limit, so that the law below proves something."""
    run = await opened_on(Machine()).test(b"patch")
    assert run.statuses == {"test_x": "failed"}


CASES = [(step, limit) for step in STEPS for limit in LIMITS]
CASES.remove(("run script", "size of a file"))  # its own output may quote these words


@pytest.mark.parametrize(("step", "limit"), CASES)
async def test_a_limit_in_any_step_is_missing_data(step, limit):
    """The trial failed at the grader and is owed again."""
    with pytest.raises(GraderError) as caught:
        await opened_on(Machine(STEPS[step], **LIMITS[limit])).test(b"patch")
    assert caught.value.is_retry_owed
