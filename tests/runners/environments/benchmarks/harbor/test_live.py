"""Task folders on a real engine: solved, untouched, with tests that fail in every way, and in images of their own."""

import shlex
import sys

import anyio
import pytest

from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.contract import problems_of
from lhaw_record.runners.environments.benchmarks.harbor import open_harbor
from lhaw_record.runners.environments.benchmarks.harbor.container import _OWN_PROCESSES, TaskContainer
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.runners.environments.benchmarks.harbor.folders import (
    CALLS_CONFIG,
    CALLS_WORK,
    CONFIG,
    HOSTILE,
    SAYS_HELLO,
    TEST,
    write_task,
)
from tests.runners.environments.sandboxes.docker_fixtures import engine, make_provider, needs_engine  # noqa: F401  a fixture
from tests.support.docker import BASE_IMAGE

pytestmark = [needs_engine, pytest.mark.thorough]
SETTINGS = {"memory_mb": 256, "command_seconds": 30.0, "output_bytes": 2000}


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Return how to open the environment of a task folder; keys of ``[benchmark]`` after its parts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def open_task(options=None, limits=None, **parts):
        write_task(tmp_path / "tasks" / "hello", **parts)
        benchmark = open_harbor(
            {"folder": "tasks", "network": "none", "build_network": "none", **(options or {})}, tmp_path, GraderSpec()
        )
        settings = EnvironmentSettings(sandbox=make_provider(), limits=SandboxLimits(**{**SETTINGS, **(limits or {})}))
        return benchmark, benchmark.tasks()[0], settings

    return open_task


async def bash(environment, command):
    """Run a command as the agent and return its output."""
    return (await environment.call("bash", {"command": command})).text


async def graded(opened, *commands, options=None, limits=None, **parts):
    """Return the grade after an agent's commands, with their outputs."""
    benchmark, task, settings = opened(options, limits, **parts)
    async with benchmark.open(task, settings) as environment:
        outputs = [await bash(environment, command) for command in commands]
        return await environment.grade("", None), outputs


async def test_a_task_keeps_the_contract_of_benchmarks(opened):
    """Its solution succeeds, an untouched container does not, and wrong calls are results."""
    benchmark, _, settings = opened(
        {},
        config="[environment]\nbuild_timeout_sec = 60.0\n",
        environment__Dockerfile=f"FROM {BASE_IMAGE}\nWORKDIR /srv\n",
    )
    assert await problems_of(benchmark, settings) == []


# Process 1 of a namespace has no child for a while, as a container's first process on a busy machine.
LATE = """
import subprocess, sys, time
looked = subprocess.Popen(["bash", "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
time.sleep(0.7)
late = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
print(late.pid, *(line.partition(":")[0] for line in looked.communicate()[0].split()))
late.kill()
"""


async def test_a_container_that_begins_late_is_waited_for():
    """Its first process's own child is in the list of what is not the agent's, although commands may run before it."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", LATE, _OWN_PROCESSES]
    late, *listed = (await anyio.run_process(command)).stdout.decode().split()
    assert late in listed


async def test_an_agent_works_with_files_and_long_outputs(opened):
    """Commands begin in the work directory with a new shell; background processes and files stay."""
    benchmark, task, settings = opened()
    async with benchmark.open(task, settings) as environment:
        assert await bash(environment, "pwd; cd /; X=1; sleep 601 &") == "/srv\n"
        assert (
            await bash(environment, 'echo "$PWD $X"; grep -qsxz 601 /proc/[0-9]*/cmdline && echo alive')
            == "/srv \nalive\n"
        )
        assert await bash(environment, "echo no >&2; exit 3") == "no\n[exit code 3]"
        assert "bytes left out" in await bash(environment, "seq 10000")
        written = await environment.call("write_file", {"path": "a b/ü.txt", "content": "hello"})
        assert written.text == "Wrote 5 bytes to a b/ü.txt."
        assert (await environment.call("read_file", {"path": "/srv/a b/ü.txt"})).text == "hello"
        missing = await environment.call("read_file", {"path": "none"})
        assert (missing.is_error, missing.text) == (True, "Cannot read none: No such file or directory.")
        refused = await environment.call("write_file", {"path": "/proc/none", "content": ""})
        assert refused.is_error


async def test_a_command_beyond_its_limit_ends_alone(opened):
    """What the entry point and earlier commands started goes on."""
    benchmark, task, settings = opened(limits={"command_seconds": 3.0})
    async with benchmark.open(task, settings) as environment:
        await bash(environment, "sleep 600 &")
        said = await bash(environment, "echo begun; setsid sleep 700 & sleep 700")
        assert said == "begun\n[stopped after 3 s]"
        alive = "for each in 600 700; do grep -qsxz $each /proc/[0-9]*/cmdline && echo $each; done; true"
        assert await bash(environment, alive) == "600\n"


async def test_rewards_become_checkpoints(opened):
    """Every declared reward is one; a negative one counts as 0, and the raw ones are kept."""
    grade, _ = await graded(
        opened,
        options={"gate": False},
        test='echo \'{"a": true, "b": -2}\' > /logs/verifier/reward.json; exit 7\n',
        **{
            "checkpoints.toml": "".join(
                f'[[checkpoints]]\ncheckpoint_id = "{name}"\nlabel = "{name}"\n' for name in ("a", "b")
            )
        },
    )
    assert [(each.checkpoint_id, each.score) for each in grade.results] == [("a", 1.0), ("b", 0.0)]
    assert not grade.is_success
    assert grade.artifacts[0].content == b'{"a":1.0,"b":-2.0}'


FAILING = [
    ("true\n", "no_reward"),
    ("echo 1.0.0 > /logs/verifier/reward.txt\n", "garbage_reward"),
    ("touch /logs/verifier/reward.txt\n", "empty_reward"),
    ("echo 2 > /logs/verifier/reward.txt\n", "reward_above_total"),
    ("echo '{\"other\": 1}' > /logs/verifier/reward.json\n", "other_rewards"),
    ("echo 1 > /logs/verifier/reward.txt; sleep 600\n", "verifier_timeout"),
    ("tail /dev/zero; echo 0 > /logs/verifier/reward.txt\n", "out_of_memory"),
]


@pytest.mark.parametrize(("test", "kind"), FAILING, ids=[kind for _, kind in FAILING])
async def test_tests_that_fail_are_never_a_score(opened, test, kind):
    """Neither zero nor a reward that was written before the time limit."""
    config = f"{CONFIG}[verifier]\ntimeout_sec = 4.0\n" if kind == "verifier_timeout" else CONFIG
    with pytest.raises(GraderError) as raised:
        await graded(opened, options={"gate": False}, test=test, config=config)
    assert raised.value.kind == kind


@pytest.mark.parametrize("is_separate", [False, True], ids=["shared", "separate"])
@pytest.mark.parametrize("kind", sorted(HOSTILE))
async def test_a_work_that_leaves_the_tests_without_a_verdict_is_graded(opened, kind, is_separate):
    """What hangs, forks or kills in the grader fails, however it goes about it: the solution's tests end well."""
    config = f'artifacts = ["/srv/say.sh"]\n{CONFIG}{CALLS_CONFIG}' + 'environment_mode = "separate"\n' * is_separate
    write = f"cat > /srv/say.sh << 'END'\n{HOSTILE[kind]}END"
    grade, _ = await graded(opened, write, config=config, test=CALLS_WORK, solution=SAYS_HELLO)
    assert not grade.is_success
    assert (grade.resource_abuse is not None) or kind not in ("sleeps", "spins", "hangs without an end")


@pytest.mark.parametrize(("failures", "kind"), [(1, "exec_failed"), (1, "exec_undead"), (2, "exec_failed")])
async def test_where_nothing_starts_or_ends_the_solution_tells_why(opened, monkeypatch, failures, kind):
    """The work took all processes where the solution's tests end well afterwards; else nobody is to blame."""
    benchmark, task, settings = opened()
    async with benchmark.open(task, settings) as environment:
        verify, left = TaskContainer.verify, [SandboxBoundaryError("no shell", kind=kind)] * failures

        async def refused(self, *arguments, **options):
            if left:
                raise left.pop()
            return await verify(self, *arguments, **options)

        monkeypatch.setattr(TaskContainer, "verify", refused)
        if failures == 1:
            assert (await environment.grade("", None)).resource_abuse is not None
        else:
            with pytest.raises(SandboxBoundaryError, match="no shell"):
                await environment.grade("", None)


async def test_a_planted_reward_does_not_count(opened):
    """Reward files from before the tests are removed."""
    plant = "echo 1 > /logs/verifier/reward.txt; echo '{\"reward\": 1}' > /logs/verifier/reward.json"
    with pytest.raises(GraderError, match="neither reward"):
        await graded(opened, plant, options={"gate": False}, test="true\n")


FORGE = "while :; do echo 1 > /logs/verifier/reward.txt; done"


@pytest.mark.parametrize(
    "left",
    [
        f"setsid bash -c '{FORGE}' > /dev/null 2>&1 &",
        f"env -i setsid /bin/bash -c '{FORGE}' > /dev/null 2>&1 & disown",
        f"(setsid bash -c 'while :; do ({FORGE}) & sleep 0.05; kill $!; done' > /dev/null 2>&1 &)",
    ],
)
@pytest.mark.parametrize("place", ["the agent", "its work"])
async def test_a_process_left_behind_writes_no_reward(opened, left, place):
    """What the agent left running is ended before the tests, and what its work left in them earns nothing."""
    grade, _ = await graded(
        opened,
        left if place == "the agent" else f"echo {shlex.quote(left)} > say.sh",
        "rm -rf /tests /logs/verifier; mkdir /tmp/own /tests; ln -s /tmp/own /logs/verifier; echo 'exit 1' > /tests/x",
        solution="echo echo hello > say.sh\n",
        test='[ "$(bash say.sh)" = hello ]; r=$?; [ -e /tests/x ] || echo $(( r == 0 )) > /logs/verifier/reward.txt\n',
    )
    assert not grade.is_success


SERVE = "cd /tmp; (setsid python3 -m http.server 8123 > /dev/null 2>&1 &)"


async def test_what_the_tests_need_stays_as_the_solution_shows(opened):
    """A task whose solution starts a server has it in its tests, after an agent too."""
    ask = "import time, urllib.request as r; time.sleep(1); r.urlopen('http://127.0.0.1:8123')"
    test = f'python3 -c "{ask}"; echo $(( $? == 0 )) > /logs/verifier/reward.txt\n'
    assert (await graded(opened, SERVE, test=test, solution=f"{SERVE}\n"))[0].is_success
    grade, _ = await graded(opened, SERVE, options={"gate": False, "keep_processes": True}, test=test)
    assert grade.is_success
    grade, _ = await graded(opened, SERVE, options={"gate": False}, test=test)
    assert not grade.is_success


async def test_a_task_whose_solution_does_not_pass_here_is_unfit(opened):
    """No agent runs in it; without the gate it would score 0."""
    benchmark, task, settings = opened(
        test="curl -sf https://example.org > /dev/null && " + TEST + "\necho 0 > /logs/verifier/reward.txt\n"
    )
    for _ in range(2):
        with pytest.raises(SandboxBoundaryError, match="does not pass here") as raised:
            async with benchmark.open(task, settings):
                raise AssertionError("it opened")
        assert (raised.value.kind, raised.value.is_retry_owed) == ("oracle_fails", False)


async def test_a_dockerfile_that_fails_says_what_failed(opened):
    """The trial is missing data, and no other attempt is owed."""
    benchmark, task, settings = opened(
        config="", environment__Dockerfile=f"FROM {BASE_IMAGE}\nRUN echo built && false\n"
    )
    with pytest.raises(SandboxBoundaryError, match="echo built && false") as raised:
        async with benchmark.open(task, settings):
            raise AssertionError("it opened")
    assert (raised.value.kind, raised.value.is_retry_owed) == ("build_failed", False)


async def test_users_variables_and_health(opened):
    """Agent and tests have users and variables of their own; the entry point's service is awaited and survives."""
    config = (
        '[environment]\nworkdir = "/srv"\n[environment.env]\nCOLOUR = "red"\n'
        '[environment.healthcheck]\ncommand = "test -e /tmp/up"\ninterval_sec = 0.2\nretries = 100\n'
        '[agent]\nuser = "agent"\n[verifier]\nuser = 0\n[verifier.env]\nSIZE = "${HARBOR_NONE:-big}"\n'
    )
    entry = '#!/bin/sh\n(sleep 1; touch /tmp/up; exec sleep 900) &\nexec "$@"\n'
    dockerfile = f"FROM {BASE_IMAGE}\nCOPY entry.sh /entry.sh\nRUN chmod 755 /entry.sh && chmod 777 /srv\n"
    test = (
        'test "$(id -u) $COLOUR $SIZE" = "0 red big" && test "$(stat -c %U /srv/who)" = agent &&\n'
        "grep -qsxz 900 /proc/[0-9]*/cmdline\n"
        "echo $(( $? == 0 )) > /logs/verifier/reward.txt\n"
    )
    grade, outputs = await graded(
        opened,
        'echo "$COLOUR$SIZE"; id -un | tee who; ls /tests /solution 2>/dev/null',
        options={"gate": False},
        config=config,
        test=test,
        environment__Dockerfile=dockerfile + 'ENTRYPOINT ["/entry.sh"]\n',
        **{"environment__entry.sh": entry},
    )
    assert outputs == ["red\nagent\n[exit code 2]"]
    assert grade.is_success


async def test_a_separate_verifier_sees_only_artifacts(opened):
    """The tests are in an image of their own; what the agent left elsewhere is not there."""
    config = (
        f'artifacts = ["/srv/kept.txt", "/srv/none.txt"]\n{CONFIG}[verifier]\nenvironment_mode = "separate"\n'
        '[verifier.environment]\nnetwork_mode = "no-network"\n'
    )
    test = (
        'test "$(cat /srv/kept.txt /logs/artifacts/out)" = "ab" && test ! -e /srv/lost.txt\n'
        "echo $(( $? == 0 )) > /logs/verifier/reward.txt\n"
    )
    grade, _ = await graded(
        opened,
        "printf a > kept.txt; printf b > /logs/artifacts/out; touch lost.txt",
        options={"gate": False},
        config=config,
        test=test,
        tests__Dockerfile=f"FROM {BASE_IMAGE}\nCOPY test.sh /tests/test.sh\n",
    )
    assert grade.is_success
