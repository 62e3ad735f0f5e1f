"""Bad days on a real engine: what was not the agent's doing is missing data with a retry owed, never a zero."""

import json
import os
from collections import defaultdict

import anyio
import msgspec
import pytest

from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.swebench_pro import open_swebench_pro, suite
from lhaw_record.runners.environments.benchmarks.swebench_pro.patch import is_stopped_by_limit
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import CommandResult, SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.preparation import prepare
from lhaw_record.runners.runs.run import run_experiment
from tests.contracts.test_sandboxes import _command_lines
from tests.runners.environments.benchmarks.swebench_pro.acme import PERL, PYTHON, USER, task_of
from tests.runners.environments.sandboxes.docker_fixtures import (
    kill_first_attempt,
    make_provider,
    needs_engine,
    own_names,
)
from tests.support.docker import BASE_IMAGE, docker, private_engine
from tests.support.image_registry import image_registry

pytestmark = needs_engine
_MANY_PROCESSES = """
import subprocess
many = []
try:
    while True: many.append(subprocess.Popen(["sleep", "60"]))
except OSError: pass
for each in many: each.kill(); each.wait()
"""


async def refusal(opened, acme, **options):
    """Grade an untouched instance that cannot be graded, and return the error; nothing of it is left."""
    async with opened(PYTHON, acme, **options) as environment:
        with pytest.raises(GraderError) as caught:
            await environment.grade("", None)
    assert own_names() == []
    assert caught.value.is_retry_owed
    return caught.value


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (
            "import sys\nopen(sys.argv[3], 'w').write('no tests today')",
            "parser_garbage",
            "it begins with 'no tests today'",
        ),
        ("import sys\nopen(sys.argv[3], 'w').write('{\"tests\": [{\"name\": 3}]}')", "parser_garbage", "KeyError"),
        ("import sys\nopen(sys.argv[3], 'w').write('{\"tests\": null}')", "parser_garbage", "TypeError"),
        ("pass", "parser_garbage", "wrote no output.json"),
        ("import os, sys\nos.mkdir(sys.argv[3])", "parser_garbage", "wrote no list of tests"),
        ("raise KeyError('a new format')", "parser_crash", "exit code 1: KeyError: 'a new format'"),
        ("import time\ntime.sleep(1000)", "parser_timeout", "stopped after 2 s"),
    ],
    ids=["text", "no status", "no list", "nothing", "a folder", "crash", "hang"],
)
async def test_a_parser_that_fails_is_no_grade(opened, acme, tmp_path, monkeypatch, script, kind, words):
    """Whatever a parser does instead of listing tests, the trial failed at the grader."""
    monkeypatch.setattr(suite, "_PARSER_S", 2.0)
    error = await refusal(opened, acme.with_script(tmp_path / "a", PYTHON, "parser.py", script))
    assert error.kind == kind
    assert words in str(error)


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ("sleep 7654399 & setsid sleep 7654399", "suite_timeout", "stopped after 2 s"),
        ("no-such-runner", "suite_crash", "exit code 127: "),
        ("exit 0", "suite_crash", "exit code 0: no output"),
        ("echo begins; kill -9 $$", "suite_killed", "exit code 137"),
        ("echo begins; python -c 'x = bytearray(1 << 30)'; false", "out_of_memory", "benchmark.test_memory_mb"),
        ("echo begins; python -c 'x = bytearray(1 << 30)'; true", "out_of_memory", "benchmark.test_memory_mb"),
        (f"echo begins; python -c '{_MANY_PROCESSES}'; true", "out_of_processes", "raise limits.processes"),
    ],
    ids=["hang", "no runner", "silence", "killed", "memory", "memory, and it goes on", "processes"],
)
async def test_a_run_script_that_fails_is_no_grade(opened, acme, tmp_path, script, kind, words):
    """A suite that hangs, cannot be started, says nothing, is killed or finds no memory tells nothing about a patch."""
    seconds = 2.0 if kind == "suite_timeout" else 60.0
    error = await refusal(
        opened, acme.with_script(tmp_path / "a", PYTHON, "run_script.sh", script), test_seconds=seconds
    )
    assert error.kind == kind
    assert words in str(error)
    assert not [line for line in _command_lines() if b"7654399" in line]


@pytest.mark.parametrize(
    ("deed", "ending"),
    [
        ("time.sleep(600)", "stopped after"),
        ("os.kill(os.getppid(), 9)", "exit code 137"),
        ("bytearray(1 << 30)", "memory"),
    ],
    ids=["sleeps", "kills", "memory"],
)
async def test_a_patch_on_which_the_suite_gives_no_verdict_is_graded(opened, acme, deed, ending):
    """The suite still passes on the published patch, so the work is to blame: no points, and the trial counts."""
    async with opened(PYTHON, acme, test_seconds=20.0) as environment:
        command = f"printf 'import os, time\n{deed}\n' >> /app/ledger/__init__.py"
        await environment.call("bash", {"command": command})
        grade = await environment.grade("", None)
    assert not grade.is_success
    assert ending in grade.resource_abuse
    assert "on the published patch it gives a verdict" in grade.resource_abuse
    assert own_names() == []


async def test_a_full_pass_is_believed(opened, acme, tmp_path):
    """Where every test passed it does not matter how the run script ended."""
    script = 'python -m unittest -v tests/test_money.py; kill -9 "$$"'
    changed = acme.with_script(tmp_path / "a", PYTHON, "run_script.sh", script)
    async with opened(PYTHON, changed) as environment:
        await environment.call("write_file", {"path": "/tmp/p", "content": acme.rows[PYTHON]["patch"]})
        await environment.call("bash", {"command": "cd /app && git apply /tmp/p"})
        grade = await environment.grade("", None)
    assert grade.is_success


async def test_tests_have_the_network_and_the_agent_has_not(opened, acme, tmp_path):
    """A run script that needs a network, as some published ones do, has the one that is named. It is recorded."""
    apart = "[ $(wc -l < /proc/net/route) -gt 1 ]"
    text = acme.script(PYTHON, "run_script.sh")
    changed = acme.with_script(tmp_path / "a", PYTHON, "run_script.sh", f"{apart} || exit 1\n{text}")
    name = f"lhaw-record-test-{os.getpid()}"
    assert docker("network", "create", "--internal", name).returncode == 0
    try:
        async with opened(PYTHON, changed, test_network=name) as environment:
            await environment.call("write_file", {"path": "/tmp/p", "content": acme.rows[PYTHON]["patch"]})
            looked = await environment.call("bash", {"command": f"cd /app && git apply /tmp/p; {apart} && echo open"})
            assert "open" not in looked.text
            (facts,) = environment.facts
            assert json.loads(facts.content)["test_network"] == name
            grade = await environment.grade("", None)
        assert grade.is_success
    finally:
        docker("network", "rm", name)
    with pytest.raises(
        SandboxBoundaryError, match=f"has no network '{name}'; name one of `docker network ls`"
    ) as caught:
        async with opened(PYTHON, changed, test_network=name):
            pytest.fail("an agent would be paid for nothing")
    assert caught.value.kind == "no_network"


async def test_a_patch_that_a_limit_cuts_off_is_no_grade(benchmark, settings):
    """Two files below ``file_mb`` make a patch above it: the limit stops git, which says nothing about the patch."""
    limits = msgspec.structs.replace(settings.limits, file_mb=4)
    settings = msgspec.structs.replace(settings, limits=limits)
    async with benchmark.open(task_of(benchmark, PYTHON), settings) as environment:
        command = "for name in a b; do head -c 3000000 /dev/urandom > $name.bin; done"
        await environment.call("bash", {"command": command})
        with pytest.raises(SandboxBoundaryError, match="does not give the agent's changes") as caught:
            await environment.grade("", None)
    assert caught.value.kind == "patch_not_taken"


async def test_tests_that_cannot_be_brought_along_are_no_grade(acme, settings, tmp_path):
    """Without the commit that has the tests the image does not fit the instance: the trial failed at the grader."""
    source = open_swebench_pro(acme.options(), tmp_path, GraderSpec())
    task = task_of(source, PYTHON)
    broken = acme.rows[PYTHON]["before_repo_set_cmd"].replace(" -- ", "0 -- ")
    text = (
        (acme.folder / "instances.jsonl")
        .read_text()
        .replace(acme.rows[PYTHON]["before_repo_set_cmd"].replace("\n", "\\n"), broken.replace("\n", "\\n"))
    )
    (tmp_path / "i.jsonl").write_text(text)
    source = open_swebench_pro(acme.options(instances=str(tmp_path / "i.jsonl")), tmp_path, GraderSpec())
    async with source.open(task, settings) as environment:
        with pytest.raises(GraderError, match="does not get the files of its tests") as caught:
            await environment.grade("", None)
    assert caught.value.kind == "repository"


async def test_an_image_that_is_not_there(acme, settings, tmp_path):
    """The pull is told; an image that the registry does not have is named, and another attempt would not find it."""
    lines = []
    settings = msgspec.structs.replace(settings, sandbox=make_provider(lines.append))
    with image_registry() as address:
        source = open_swebench_pro(acme.options(image=f"{address}/no/image:{{tag}}"), tmp_path, GraderSpec())
        with pytest.raises(
            SandboxBoundaryError, match=r"no/image:acme\.ledger-acme__ledger-\w+ cannot be pulled"
        ) as caught:
            await source.open(task_of(source, PYTHON), settings).__aenter__()
    assert (caught.value.kind, caught.value.is_retry_owed) == ("image_missing", False)
    assert [line.startswith(f"pulling the image {address}/no/image:acme.ledger") for line in lines] == [True]
    assert own_names() == []


async def test_an_image_of_something_else(acme, settings, tmp_path):
    """An image without the instance's commit is refused with git's words, and not tried again."""
    source = open_swebench_pro(acme.options(work_dir="/usr"), tmp_path, GraderSpec())
    with pytest.raises(
        SandboxBoundaryError, match=r"cannot be set to its base commit: .*not a git repository"
    ) as caught:
        await source.open(task_of(source, PYTHON), settings).__aenter__()
    assert (caught.value.kind, caught.value.is_retry_owed) == ("image_unfit", False)
    assert own_names() == []


async def test_another_sandbox_is_refused(benchmark):
    """An instance cannot run where images cannot; the message has the key."""
    settings = EnvironmentSettings(sandbox=ProcessSandboxProvider(), limits=SandboxLimits())
    with pytest.raises(SandboxBoundaryError, match=r'set sandbox\.kind = "docker"') as caught:
        benchmark.open(task_of(benchmark, PYTHON), settings)
    assert not caught.value.is_retry_owed


async def test_a_container_killed_during_the_tests(opened, acme, tmp_path):
    """The container of the tests is ended from outside: the trial failed at the sandbox and is owed again."""
    changed = acme.with_script(tmp_path / "a", PYTHON, "run_script.sh", "sleep 7654398")
    async with opened(PYTHON, changed) as environment:

        async def kill():
            while not any(b"7654398" in line for line in _command_lines()):  # noqa: ASYNC110  of another process
                await anyio.sleep(0.05)
            docker("kill", *own_names())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill)
            with pytest.raises(SandboxBoundaryError) as caught:
                await environment.grade("", None)
    assert (caught.value.kind, caught.value.is_retry_owed) == ("container_killed", True)
    assert own_names() == []


def test_a_container_killed_in_mid_trial_costs_one_attempt(acme, engine, tmp_path, monkeypatch):
    """The agent's container is ended from outside: the attempt failed at the sandbox, and the next one is a success."""
    killed = kill_first_attempt(monkeypatch, b"put")
    options = acme.options()
    task_id = acme.rows[PERL]["instance_id"]
    (tmp_path / "x.toml").write_text(
        'name = "acme"\nconditions = ["full"]\ntrials = 1\n'
        'agents = [{name = "published", model = "scripted/replay"}]\nlimits = {memory_mb = 256}\n'
        f'sandbox = {{kind = "docker", image = "{BASE_IMAGE}"}}\n[benchmark]\nname = "swebench_pro"\n'
        f'tasks = ["{task_id}"]\ninstances = "{options["instances"]}"\nscripts = "{options["scripts"]}"\n'
        f'user = "{USER}"\ntest_network = "none"\n'
    )
    summary = anyio.run(run_experiment, prepare(tmp_path / "x.toml"), tmp_path / "s", Reporter())
    events = defaultdict(list)
    for envelope in read_envelopes(tmp_path / "s"):
        events[type(envelope.event).__name__].append(envelope.event)
    (failure,) = events["TrialFailed"]
    assert len(killed) == 1
    assert (failure.boundary, failure.error_kind, failure.is_retry_owed) == ("sandbox", "container_killed", True)
    assert (summary.finished, [end.is_success for end in events["TrialFinished"]]) == (1, [True])
    assert own_names() == []


async def test_a_full_disk(acme, settings, tmp_path, monkeypatch):
    """Tests that find no room on the disk, and a patch that cannot be taken for want of it, are no zero."""
    image = f"{USER}/sweap-images:acme.ledger-{acme.rows[PYTHON]['instance_id'].removeprefix('instance_')[:-5]}"
    archive = tmp_path / "image.tar"
    assert docker("save", "--output", str(archive), image).returncode == 0
    with private_engine(disk_mb=700) as full:
        monkeypatch.setenv("DOCKER_HOST", full.address)
        assert docker("load", "--input", str(archive)).returncode == 0
        archive.unlink()
        fill = "dd if=/dev/zero of=/fill bs=1M 2> /dev/null; truncate -s -400K /fill"
        script = f"{fill}; python -m unittest -v tests/test_money.py"
        changed = acme.with_script(tmp_path / "a", PYTHON, "run_script.sh", script)
        source = open_swebench_pro(changed.options(), tmp_path, GraderSpec())
        roomy = EnvironmentSettings(sandbox=settings.sandbox, limits=SandboxLimits(memory_mb=1024))
        async with source.open(task_of(source, PYTHON), roomy) as environment:
            with pytest.raises(GraderError) as caught:
                await environment.grade("", None)
        assert (caught.value.kind, caught.value.is_retry_owed) == ("engine_disk_full", True)
        async with source.open(task_of(source, PYTHON), roomy) as environment:
            await environment.call(
                "bash", {"command": "seq 9999 > /app/new; for i in 1 2 3 4; do cat /dev/zero > /fill$i; done"}
            )
            with pytest.raises(SandboxBoundaryError) as caught:
                await environment.grade("", None)
        assert (caught.value.kind, caught.value.is_retry_owed) == ("engine_disk_full", True)
        assert own_names() == []


@pytest.mark.parametrize(
    ("said", "is_limit"),
    [
        ("error: pack-objects died of signal 25", True),
        ("fatal: write error: File too large", True),
        ("fatal: Out of memory, malloc failed (tried to allocate 8 bytes)", True),
        ("fatal: unable to create thread: Resource temporarily unavailable", True),
        ("error: cannot fork() for gc: Cannot allocate memory", True),
        ("fatal: could not open pack: Too many open files", True),
        ("fatal: not a git repository (or any of the parent directories): .git", False),
        ("fatal: bad object HEAD", False),
    ],
)
def test_what_git_says_of_a_limit(said, is_limit):
    """A git that gives up with exit code 128 has met a limit of the machine if it says so, else what the agent left."""
    assert is_stopped_by_limit(CommandResult(exit_code=128, output=said)) == is_limit
