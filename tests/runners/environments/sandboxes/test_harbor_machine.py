"""Machines of the harbor package: what comes back of a command and of files, and what breaks on the way.

The environment here is this machine itself; tests/harbor asks the package's own Docker.
"""

import asyncio
import shutil
from types import SimpleNamespace

import pytest

from lhaw_record.runners.base.errors import ExperimentError, GraderError, SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.harbor import read_task
from lhaw_record.runners.environments.benchmarks.harbor.container import TaskContainer
from lhaw_record.runners.environments.sandboxes import harbor_machine
from lhaw_record.runners.environments.sandboxes.docker.execution import ExecResult
from lhaw_record.runners.environments.sandboxes.docker.machine import MachineUsage
from lhaw_record.runners.environments.sandboxes.harbor_machine import (
    HarborMachine,
    HarborSandboxProvider,
    harbor_provider,
)
from tests.cli.program import called
from tests.runners.environments.benchmarks.harbor.folders import write_task
from tests.support.harbor_machine_facts import EXPECTED, facts


class Here:
    """An environment as the harbor package has them, of which this machine is the container.

    Args:
        spoil: Changes what a command has printed.
    """

    def __init__(self, spoil=lambda printed: printed):
        self._spoil = spoil

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        """Run a command; standard error comes with standard output, as some environments have it."""
        process = await asyncio.create_subprocess_shell(
            command,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **(env or {})},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed, _ = await process.communicate()
        return SimpleNamespace(stdout=self._spoil(printed.decode()), stderr=None, return_code=process.returncode)

    async def upload_file(self, source_path, target_path):
        """Copy a file in."""
        shutil.copy(source_path, target_path)

    async def download_file(self, source_path, target_path):
        """Copy a file out."""
        shutil.copy(source_path, target_path)


@pytest.mark.thorough
async def test_what_a_container_does_comes_back_as_it_was(tmp_path):
    """Bytes, exit codes, limits, variables and files; and nothing of ours stays."""
    found = await facts(HarborMachine(Here()), str(tmp_path))
    assert {**found, "nothing_left": ""} == EXPECTED  # others may use this machine's /tmp


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda _: "", id="nothing"),
        pytest.param(lambda _: None, id="none"),
        pytest.param(lambda printed: printed[: len(printed) // 2], id="half"),
        pytest.param(lambda printed: printed[:-30], id="almost all"),
        pytest.param(lambda _: "the sandbox was preempted\n", id="words of the cloud"),
    ],
)
async def test_a_command_whose_end_does_not_come_back_is_an_error_of_the_sandbox(spoil):
    """It is never taken for a result, whatever exit code the environment has for it."""
    with pytest.raises(SandboxBoundaryError) as caught:
        await HarborMachine(Here(spoil)).run(("true",), timeout_s=60.0)
    assert (caught.value.kind, caught.value.is_retry_owed) == ("harbor_environment", True)


async def test_an_error_of_any_class_is_one_of_the_sandbox():
    """Each cloud raises its own."""
    broken = Here()
    broken.exec = _raise
    with pytest.raises(SandboxBoundaryError, match=r"Exotic: the quota is used up second line$"):
        await HarborMachine(broken).run(("true",), timeout_s=60.0)


async def test_a_sandbox_with_our_driver_is_refused():
    """Tasks without an image of their own have nothing to run there."""
    with pytest.raises(SandboxBoundaryError, match="images of their own"):
        HarborSandboxProvider("docker", {}, print).open(None, None)


@pytest.mark.thorough
def test_tests_without_memory_in_a_cloud_blame_no_limit_of_ours(tmp_path):
    """Who took it is not known, so it is missing data; the key that helps is the task's."""
    task = read_task(write_task(tmp_path / "hello"))
    container = TaskContainer(HarborMachine(Here()), task.config.environment)
    idle, met = MachineUsage(memory=0.0, processes=0.0), {"stdout": b"", "stderr": b"", "exit_code": 1}
    for met_limit, name, key in (
        ({"is_out_of_memory": True}, "memory", "; set environment.memory_mb of the task;"),
        ({"is_out_of_processes": True}, "processes", "does not tell;"),
    ):
        with pytest.raises(GraderError, match=f"ran out of {name} during the tests.*{key}") as raised:
            container._check_limits(task, ExecResult(**met, **met_limit), idle, b"")
        assert raised.value.kind == f"out_of_{name}"
        assert "limits." not in str(raised.value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("option", "said"),
    [("a", "has no value; write NAME=VALUE"), ("a=b", "the value as JSON"), ('a="b"', "add --environment")],
)
def test_options_of_an_environment_that_do_not_fit_are_named(tmp_path, option, said):
    """Before anything is opened."""
    write_task(tmp_path / "hello")
    done = called("harbor", tmp_path, "--environment-option", option)
    assert done.returncode == 2
    assert said in done.stderr


def test_an_older_python_is_told(monkeypatch):
    """The package needs 3.12."""
    monkeypatch.setattr(harbor_machine.sys, "version_info", (3, 11, 9))
    with pytest.raises(ExperimentError, match=r"Python 3\.12"):
        harbor_provider("docker", {}, print)


_FILE = """
name = "clouds"
conditions = ["full"]
[benchmark]
name = "desk"
[sandbox]
{sandbox}
[[agents]]
name = "balanced"
model = "scripted/balanced"
"""


@pytest.mark.parametrize(
    ("sandbox", "said"),
    [
        ('kind = "harbor"', "key 'sandbox.environment': name one of the harbor package"),
        ('environment = "modal"', "it is for harbor only"),
        ('kind = "harbor"\nenvironment = "modal"', "tasks of desk cannot run in 'harbor'"),
    ],
)
def test_keys_that_do_not_fit_are_named(tmp_path, sandbox, said):
    """Before anything is opened."""
    (tmp_path / "x.toml").write_text(_FILE.format(sandbox=sandbox))
    done = called("run", tmp_path / "x.toml", "--store", tmp_path / "store")
    assert done.returncode == 2
    assert said in done.stderr


async def _raise(*_, **__):
    raise type("Exotic", (Exception,), {})("the quota is used up\nsecond line")
