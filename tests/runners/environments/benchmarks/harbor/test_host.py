"""Task folders without Docker: which can run, and what their agent and their tests find."""

from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.harbor import read_task
from lhaw_record.runners.environments.benchmarks.harbor.benchmark import open_harbor
from lhaw_record.runners.environments.benchmarks.harbor.host import placed, refusal_of_host
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.sandboxes.kinds import provider
from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess, SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.runners.environments.benchmarks.harbor.folders import (
    CALLS_CONFIG,
    CALLS_WORK,
    HOSTILE,
    SAYS_HELLO,
    write_task,
)
from tests.support.needs import needs

DOCKERFILE = "FROM debian\n# the guests\nWORKDIR /srv\nCOPY guests.csv lists/ ./\n"
SOLUTION = "echo hello > hello.txt\n"
FILES = {"environment__guests.csv": "Ada\n", "environment__lists__old.csv": "Zoe\n"}


def folder_with(folder, dockerfile=DOCKERFILE, config="", **files):
    """Write a task that has this Dockerfile."""
    return write_task(folder, config=config, environment__Dockerfile=dockerfile, **FILES, **files)


@pytest.mark.parametrize(
    ("dockerfile", "work_dir", "paths"),
    [
        (DOCKERFILE, "/srv", ["guests.csv", "old.csv"]),
        ("FROM a\nWORKDIR /app\nCOPY guests.csv names.csv\n", "/app", ["names.csv"]),
        ("FROM a\nWORKDIR /app\nWORKDIR data\nCOPY . .\n", "/app/data", ["Dockerfile", "guests.csv", "lists/old.csv"]),
        ("FROM a\nWORKDIR /app\nCOPY \\\n  guests.csv \\\n  /app/in/\n", "/app", ["in/guests.csv"]),
        ("FROM a\nWORKDIR /workspace\n", "/workspace", []),
        ("FROM a\nWORKDIR /app\nCOPY guests.csv /app\nCOPY lists /app\n", "/app", ["guests.csv", "old.csv"]),
        ("FROM a\nWORKDIR /app\nCOPY lists in\nCOPY guests.csv in\n", "/app", ["in/guests.csv", "in/old.csv"]),
    ],
)
def test_a_dockerfile_that_only_places_files_needs_no_image(tmp_path, dockerfile, work_dir, paths):
    """The files are where Docker's rules of COPY put them."""
    found = placed(read_task(folder_with(tmp_path / "t", dockerfile)))
    assert (found.work_dir, sorted(found.copies)) == (work_dir, paths)


@pytest.mark.parametrize(
    ("dockerfile", "config", "why"),
    [
        ("FROM a\nWORKDIR /app\nRUN apt-get install -y jq\n", "", "line 3: 'RUN apt-get install -y jq' needs Docker"),
        ("FROM a\nWORKDIR /app\nCOPY --chown=1 guests.csv .\n", "", "line 3: 'COPY --chown=1"),
        ("FROM a\nWORKDIR /app\nCOPY guests.csv /etc/\n", "", "copies to /etc/guests.csv; copying outside"),
        ("FROM a\nWORKDIR /app\nCOPY ../tests .\n", "", "../tests is not in environment/"),
        ("FROM a\nWORKDIR /app\nCOPY away.csv .\n", "", "away.csv is not in environment/"),
        ("FROM a\n", "", "the work directory is /;"),
        ("FROM a\nWORKDIR /usr/src\n", "", "the work directory is /usr/src;"),
        ("FROM a\nWORKDIR /tests\n", "", "the work directory is /tests;"),
        ("FROM a AS b\nWORKDIR /app\nCOPY guests.csv .\nFROM a\n", "", "line 4: 'FROM a' needs Docker"),
        ("FROM a\nWORKDIR /app\nCOPY guests.csv . \\\n", "", "line 3: the last instruction has no end"),
        ("FROM a\nWORKDIR /opt\n", "", "the work directory is /opt;"),
        ("FROM a\nWORKDIR /workspace/app\n", "", "the work directory is /workspace/app;"),
        (DOCKERFILE, '[environment.env]\nA = "1"\n', "environment.env needs Docker"),
        (DOCKERFILE, '[agent]\nuser = "me"\n', "agent.user needs Docker"),
        (DOCKERFILE, '[environment]\nskills_dir = "/skills"\n', "environment.skills_dir needs Docker"),
    ],
)
def test_a_task_that_needs_its_image_is_left_out_by_name(tmp_path, dockerfile, config, why):
    """The reason names the line or the key."""
    assert why in refusal_of_host(read_task(folder_with(tmp_path / "t", dockerfile, config)))


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Return how to open the environment of a task that has these tests, in a sandbox of namespaces."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    @asynccontextmanager
    async def open_task(test, config="", solution=SOLUTION, sandbox="namespaces", **more):
        settings = EnvironmentSettings(sandbox=await provider(sandbox), limits=SandboxLimits())
        folder_with(tmp_path / "tasks" / "hello", config=config, test=test, solution=solution)
        options = {"folder": "tasks", "without_docker": True, **more}
        benchmark = open_harbor(options, tmp_path, GraderSpec())
        async with benchmark.open(benchmark.tasks()[0], settings) as environment:
            yield environment

    return open_task


HELLO = '[ "$(cat /srv/hello.txt)" = hello ]; echo $(( $? == 0 )) > /logs/verifier/reward.txt\n'


async def bash(environment, command):
    """Return what a command of the agent prints."""
    return (await environment.call("bash", {"command": command})).text


@needs("namespaces")
async def test_the_agent_works_where_the_task_says_and_the_tests_see_what_it_left(opened):
    """Its files are there, tests and solution are not, and only the work directory counts."""
    async with opened(HELLO) as environment:
        assert (
            await bash(environment, "cd /srv && ls; ls -d /tests /solution /logs 2>/dev/null; true")
            == "guests.csv\nold.csv\n"
        )
        assert not (await environment.grade("", None)).is_success
        await bash(environment, "echo hello > /srv/hello.txt; echo 1 > /tmp/reward.txt")
        assert (await environment.grade("", None)).is_success


@needs("namespaces")
async def test_what_the_agent_does_around_its_work_directory_changes_no_grade(opened):
    """No program of its own stands in the way of the tests."""
    async with opened(HELLO) as environment:
        await bash(
            environment,
            'mkdir -p ~/bin /tmp/bin; printf "#!/bin/sh\\necho hello" > /tmp/bin/cat; chmod +x /tmp/bin/cat',
        )
        await bash(environment, "export PATH=/tmp/bin:$PATH; (while :; do sleep 1; done) &")
        assert not (await environment.grade("", None)).is_success


@pytest.mark.sampled(2)
@needs("namespaces")
@pytest.mark.parametrize(
    ("test", "config", "kind"),
    [
        ("while :; do sleep 1; done\n", "[verifier]\ntimeout_sec = 0.5\n", "verifier_timeout"),
        ("exit 0\n", "", "no_reward"),
        ("echo much > /logs/verifier/reward.txt\n", "", "garbage_reward"),
        ("echo '{\"speed\": 1}' > /logs/verifier/reward.json\n", "", "other_rewards"),
    ],
)
async def test_tests_without_a_verdict_are_missing_data(opened, test, config, kind):
    """They are no zero, whatever the agent did."""
    async with opened(test, config, gate=False) as environment:
        with pytest.raises(GraderError) as raised:
            await environment.grade("", None)
    assert (raised.value.kind, raised.value.is_retry_owed) == (kind, False)


@pytest.mark.thorough
@needs("namespaces")
async def test_the_limits_of_the_agent_are_not_those_of_the_tests(opened):
    """Tests that start more processes than an agent may are graded by what they find."""
    crowd = "for i in $(seq 300); do sleep 60 & done; [ $(jobs -p | wc -l) = 300 ]\n"
    async with opened(f"{crowd}echo $(( $? == 0 )) > /logs/verifier/reward.txt\n", gate=False) as environment:
        assert (await environment.grade("", None)).is_success


@needs("namespaces")
async def test_a_repository_stays_one(opened):
    """What the tests get has the empty folders of what the agent left."""
    test = "cd /srv; [ -d deep/er ] && [ -x run.sh ]; echo $(( $? == 0 )) > /logs/verifier/reward.txt\n"
    async with opened(test, gate=False) as environment:
        await bash(environment, "mkdir -p /srv/deep/er; echo true > /srv/run.sh; chmod +x /srv/run.sh")
        assert (await environment.grade("", None)).is_success


def test_tests_that_may_need_the_internet_need_a_solution_that_passes_without(tmp_path):
    """Offline they might score 0, and nothing would say why."""
    folder = folder_with(tmp_path / "t", solution=None)
    assert "network_mode = public" in refusal_of_host(read_task(folder))


@needs("namespaces")
async def test_a_task_whose_solution_fails_here_is_refused_before_any_model_is_asked(opened):
    """The gate is the same as in Docker: what this system lacks is nobody's failure."""
    with pytest.raises(SandboxBoundaryError, match="does not pass here") as raised:
        async with opened("no-such-program; echo $(( $? == 0 )) > /logs/verifier/reward.txt\n"):
            pass
    assert (raised.value.kind, raised.value.is_retry_owed) == ("oracle_fails", False)


async def test_a_plain_process_cannot_have_the_tests_where_they_belong(tmp_path):
    """The error names the kinds that can."""
    folder_with(tmp_path / "hello")
    benchmark = open_harbor({"folder": ".", "without_docker": True}, tmp_path, GraderSpec())
    settings = EnvironmentSettings(sandbox=await provider("process"), limits=SandboxLimits())
    with pytest.raises(SandboxBoundaryError, match="need bubblewrap or namespaces, not process"):
        async with benchmark.open(benchmark.tasks()[0], settings):
            pass


def test_a_trial_without_docker_is_another_task_than_one_with_it(tmp_path):
    """The system is part of a task's identity."""
    folder_with(Path(tmp_path) / "hello")
    digests = {
        open_harbor({"folder": ".", "without_docker": each}, tmp_path, GraderSpec()).tasks()[0].environment_digest
        for each in (False, True)
    }
    assert len(digests) == 2


@needs("namespaces")
async def test_a_program_below_the_work_directory_is_refused_by_name(tmp_path):
    """Its folders are shown at their own paths, so a task cannot have the same path."""
    folder_with(tmp_path / "hello")
    benchmark = open_harbor({"folder": ".", "without_docker": True, "gate": False}, tmp_path, GraderSpec())
    access = ProgramAccess(socket="", mounts=("/srv/agents/mine",))
    settings = EnvironmentSettings(sandbox=await provider("namespaces"), limits=SandboxLimits(), access=access)
    with pytest.raises(
        SandboxBoundaryError, match="around the task's work directory /srv; give the task another WORKDIR"
    ):
        async with benchmark.open(benchmark.tasks()[0], settings):
            pass


FORGE = "while :; do echo 1 > /logs/verifier/reward.txt; done"


@pytest.mark.sampled(5)
@needs("namespaces", "bubblewrap")
@pytest.mark.parametrize("kind", ["namespaces", "bubblewrap"])
@pytest.mark.parametrize(
    "left", [f"({FORGE}) &", f"setsid bash -c '{FORGE}' &", f"nohup bash -c '{FORGE}' & disown", "sleep 60 &"]
)
async def test_what_outlives_the_tests_earns_no_reward(opened, kind, left):
    """A work that the tests start leaves a process behind, which writes the reward or could have."""
    solution = "echo 'echo hello' > /srv/say.sh\n"
    test = '[ "$(bash /srv/say.sh)" = hello ]; echo $(( $? == 0 )) > /logs/verifier/reward.txt\n'
    async with opened(test, solution=solution, sandbox=kind) as environment:
        await bash(environment, solution)
        assert (await environment.grade("", None)).is_success
        script = f"{left.replace('&', '> /dev/null 2>&1 &', 1)}\necho hello\n"
        await environment.call("write_file", {"path": "/srv/say.sh", "content": script})
        grade = await environment.grade("", None)
    assert not grade.is_success
    assert "outlived" in grade.results[0].details


@needs("namespaces")
@pytest.mark.thorough
@pytest.mark.parametrize("kind", sorted(HOSTILE))
async def test_a_work_that_leaves_the_tests_without_a_verdict_is_graded(opened, kind):
    """What hangs, forks or kills in the grader fails, however it goes about it: the solution's tests end well."""
    async with opened(CALLS_WORK, CALLS_CONFIG, solution=SAYS_HELLO, sandbox="namespaces") as environment:
        await environment.call("write_file", {"path": "/srv/say.sh", "content": HOSTILE[kind]})
        grade = await environment.grade("", None)
    assert not grade.is_success
    assert (grade.resource_abuse is not None) or kind not in ("sleeps", "spins", "hangs without an end")


@pytest.mark.thorough
@needs("namespaces")
async def test_what_also_outlives_the_tests_of_the_solution_is_the_tasks(opened):
    """Tests that leave a server running give the reward that they wrote."""
    async with opened(f"sleep 60 &\n{HELLO}") as environment:
        await bash(environment, "echo hello > /srv/hello.txt")
        assert (await environment.grade("", None)).is_success


@pytest.mark.thorough
@needs("namespaces")
async def test_a_link_that_leads_nowhere_is_copied_as_a_link(opened, tmp_path):
    """In tests and solution, as Docker copies them."""
    for part in ("tests", "solution"):
        folder = tmp_path / "tasks" / "hello" / part
        folder.mkdir(parents=True)
        (folder / "away").symlink_to("/nowhere")
    async with opened(f"[ -L /tests/away ] || exit 1\n{HELLO}") as environment:
        await bash(environment, "echo hello > /srv/hello.txt")
        assert (await environment.grade("", None)).is_success
