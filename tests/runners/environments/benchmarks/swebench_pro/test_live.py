"""Instances on a real engine: solved by their published patches in two languages; what of an agent's work counts."""

import json
from collections import Counter, defaultdict

import anyio
import msgspec
import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.blobs import load_blob
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.agents import runner
from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.contract import problems_of
from lhaw_record.runners.environments.benchmarks.swebench_pro import open_swebench_pro
from lhaw_record.runners.environments.benchmarks.swebench_pro.patch import prepared_image
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.docker.provider import DockerSandboxProvider
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.runners.environments.benchmarks.swebench_pro.acme import (
    MANY,
    MANY_FAIL_TO_PASS,
    MANY_PASS_TO_PASS,
    PERL,
    PYTHON,
    USER,
    task_of,
)
from tests.runners.environments.sandboxes.docker_fixtures import make_provider, needs_engine, nobody_else, own_names
from tests.support.docker import docker

pytestmark = needs_engine
OWN_DIR = "/app/."
"""The same folder under a name that no other test uses: what is prepared for it has an image of its own."""


async def bash(environment, command):
    """Run a command as the agent and return its output."""
    return (await environment.call("bash", {"command": command})).text


async def apply(environment, patch):
    """Apply a patch as the agent."""
    await environment.call("write_file", {"path": "/tmp/p", "content": patch})
    assert await bash(environment, "cd /app && git apply /tmp/p") == ""


def artifact(grade, name):
    """Return the content of one of a grade's artifacts."""
    (found,) = [each.content for each in grade.artifacts if each.name == name]
    return found


async def test_the_promises_of_every_benchmark(benchmark, settings):
    """Untouched no instance is solved, its published patch solves it, grading twice gives the same, nothing is left."""
    assert await problems_of(benchmark, settings) == []
    assert own_names() == []


def test_published_patches_pass_through_the_whole_program(acme, engine, tmp_path, capsys, monkeypatch):
    """`lhaw-record run` solves every instance with its published patch; thousands of tests are as many checkpoints.

    The common limit of grading does not bind: a suite has its own.
    """
    monkeypatch.setattr(runner, "GRADING_SECONDS", 0.001)
    benchmark = {"name": "swebench_pro", **acme.options()}
    table = "\n".join(f"{key} = {json.dumps(value)}" for key, value in benchmark.items())
    (tmp_path / "x.toml").write_text(
        'name = "acme"\nconditions = ["full"]\ntrials = 1\nconcurrency = 2\n'
        'agents = [{name = "published", model = "scripted/replay"}]\n'
        f'sandbox = {{kind = "docker"}}\nlimits = {{memory_mb = 256}}\n[benchmark]\n{table}\n'
    )
    code = main(["run", str(tmp_path / "x.toml"), "--store", str(tmp_path / "s")])
    assert code == 0, capsys.readouterr().err
    events = defaultdict(list)
    for envelope in read_envelopes(tmp_path / "s"):
        events[type(envelope.event).__name__].append((envelope.trial_id, envelope.event))
    assert [(end.is_success, end.ended_by) for _, end in events["TrialFinished"]] == [(True, "submitted")] * 3
    scored = Counter(trial_id for trial_id, _ in events["CheckpointScored"])
    assert sorted(scored.values()) == [3, 3, len(MANY_FAIL_TO_PASS)]
    assert {(event.score, event.grader) for _, event in events["CheckpointScored"]} == {(1.0, "swebench_pro/tests-1")}
    labels = {event.label for _, event in events["CheckpointScored"]}
    assert labels >= {*MANY_FAIL_TO_PASS, "t/csv.t | a comma | in quotes", "tests.test_money.CentsTest.test_thousands"}
    kept = {}
    for trial_id, event in events["ArtifactStored"]:
        kept.setdefault(trial_id, {})[event.name] = load_blob(Store(tmp_path / "s"), event.sha256)
    for by_name in kept.values():
        tests = json.loads(by_name["tests.json"])
        assert tests["fail_to_pass"].keys() == tests["pass_to_pass"].keys() == {"passed"}
        assert by_name["patch.diff"].startswith(b"diff --git a/")
        assert json.loads(by_name["image.json"])["id"].startswith("sha256:")
    assert max(len(json.loads(each["tests.json"])["pass_to_pass"]["passed"]) for each in kept.values()) == len(
        MANY_PASS_TO_PASS
    )
    assert own_names() == []


async def test_everything_that_the_agent_changed_is_its_patch(acme, opened):
    """Committed or not, new, binary, deleted, renamed: all of it is in the patch, and the patch solves the instance.

    What the image had beside the commit, and the tests' own files, are not. The agent's shell decides nothing.
    """
    async with opened(PYTHON) as environment:
        await apply(environment, acme.rows[PYTHON]["patch"])
        await bash(environment, "cd /app && git config user.email a@a && git config user.name a && git commit -qam x")
        await bash(environment, "printf 'a\\000\\377b' > /app/logo.png; rm /app/README.md; mv /app/lib /app/perl")
        await bash(environment, "echo 'import nothing' > /app/tests/test_money.py; echo more >> /app/build.log")
        await bash(environment, "git config diff.noprefix true; git config diff.external /bin/false")
        await bash(environment, "cd /; export GIT_DIR=/nowhere GIT_INDEX_FILE=/x; git() { echo no; }; set -e; set -f")
        grade = await environment.grade("", None)
    patch = artifact(grade, "patch.diff").decode()
    changed = {line.split(" b/")[-1] for line in patch.splitlines() if line.startswith("diff --git ")}
    assert changed == {"ledger/money.py", "logo.png", "README.md", "lib/Ledger/Csv.pm", "perl/Ledger/Csv.pm"}
    assert "GIT binary patch" in patch
    assert grade.is_success
    assert own_names() == []


async def test_a_regression_is_no_success_and_no_checkpoint(acme, opened):
    """With every fail-to-pass test passed and an old one broken, the state is full and the trial no success."""
    async with opened(PYTHON) as environment:
        await apply(environment, acme.rows[PYTHON]["patch"])
        await bash(environment, "cd /app && sed -i 's/return sign/return text == \"1.5\" or sign/' ledger/money.py")
        grade = await environment.grade("", None)
    assert [result.score for result in grade.results] == [1, 1, 1]
    assert not grade.is_success
    assert json.loads(artifact(grade, "tests.json"))["pass_to_pass"] == {
        "failed": ["tests.test_money.CentsTest.test_part"],
        "passed": ["tests.test_money.CentsTest.test_whole"],
    }


async def test_failed_error_and_absent_are_told_apart(opened, acme, tmp_path):
    """A test that fails, one that ends in an error, and one that was never run are three different results."""
    parser = """
import json, sys
found = [("tests.test_money.CentsTest.test_below_zero", "FAILED"),
    ("tests.test_money.CentsTest.test_thousands", "ERROR")]
json.dump({"tests": [{"name": name, "status": status} for name, status in found]}, open(sys.argv[3], "w"))
"""
    async with opened(PYTHON, acme.with_script(tmp_path / "a", PYTHON, "parser.py", parser)) as environment:
        grade = await environment.grade("", None)
    assert [(result.score, result.details) for result in grade.results] == [
        (0, "failed"),
        (0, "absent: the run has no result for it"),
        (0, "error"),
    ]


async def test_a_source_that_does_not_compile_is_the_agents_failure(opened):
    """No test can be run because of the patch: the tests' file is an error, its tests absent, the trial valid."""
    async with opened(PYTHON) as environment:
        await bash(environment, "echo 'def' > /app/ledger/money.py")
        grade = await environment.grade("", None)
    assert {result.details for result in grade.results} == {"absent: the run has no result for it"}
    assert not grade.is_success
    assert b"SyntaxError" in artifact(grade, "stderr.log")


async def test_a_patch_that_does_not_apply_is_the_agents_failure(opened):
    """A file that is ignored in the image and is not in the patch's eyes stands in its way: all tests are absent."""
    async with opened(PYTHON) as environment:
        await bash(environment, "cd /app && : > .gitignore && rm -rf ledger/__pycache__")
        grade = await environment.grade("", None)
    assert {result.score for result in grade.results} == {0}
    assert all(result.details.startswith("absent: the patch does not apply: ") for result in grade.results)
    assert not grade.is_success
    assert json.loads(artifact(grade, "tests.json"))["is_patch_applied"] is False
    assert b"local.cfg" in artifact(grade, "patch.diff")


async def test_what_git_quotes_of_a_patch_is_no_limit(opened):
    """Words of the agent's about a full disk or open files are in git's warnings; its failure stays its failure."""
    async with opened(PYTHON) as environment:
        await bash(environment, "cd /app && : > .gitignore && rm -rf ledger/__pycache__")
        await bash(environment, "cd /app && printf 'too many open files \\nno space left on device \\n' > notes.txt")
        grade = await environment.grade("", None)
    assert b"too many open files \n" in artifact(grade, "patch.diff")
    assert all(result.details.startswith("absent: the patch does not apply: error: ") for result in grade.results)


async def test_a_repository_that_the_agent_has_destroyed_gives_no_patch(opened):
    """Without its repository an agent has nothing to hand in: a valid trial with all tests absent."""
    async with opened(PERL) as environment:
        await bash(environment, "rm -rf /app/.git")
        grade = await environment.grade("", None)
    assert all("the agent left no repository" in result.details for result in grade.results)
    assert not grade.is_success
    assert own_names() == []


async def test_the_solution_is_not_in_the_agents_repository(acme, opened):
    """Commits after the base are gone, with their objects; those before it stay. As published, all are there."""
    solution = acme.rows[PYTHON]["before_repo_set_cmd"].split()[-3]
    look = (
        f"cd /app; git log --all --format=%s; git cat-file -t {solution} 2>&1; git status --short; git tag; git remote"
    )
    async with opened(PYTHON) as environment:
        hidden = await bash(environment, look)
        objects = await bash(environment, "cd /app; git cat-file --batch-all-objects --batch | grep -ac thousands")
    async with opened(PYTHON, acme, history="published") as environment:
        shown = await bash(environment, look)
    assert hidden.splitlines()[:2] == ["Change 2", "Change 1"]
    assert hidden.splitlines()[2].startswith("fatal:")
    assert hidden.splitlines()[3:] == ["?? build.log"]
    assert objects.splitlines()[0] == "0"
    assert shown.splitlines() == [
        "Change 4",
        "Change 3",
        "Change 2",
        "Change 1",
        "commit",
        "?? build.log",
        "v1",
        "origin",
    ]


async def test_the_tests_are_not_in_the_agents_container(opened):
    """Neither scripts nor new tests can be found where the agent works; there is no network."""
    async with opened(MANY) as environment:
        assert await bash(environment, "ls /workspace 2>&1; grep -rl 'parts_of_a_cent' /app /tmp /root") == (
            "ls: cannot access '/workspace': No such file or directory\n[exit code 1]"
        )
        assert "lo" in await bash(environment, "ls /sys/class/net")
        assert "eth" not in await bash(environment, "ls /sys/class/net")


async def test_trials_never_wait_for_each_others_second_container(benchmark, settings):
    """With memory for one container several trials are graded: each closes the agent's before it opens the tests'."""
    room = MemoryBudget(settings.limits.memory_mb, nobody_else)
    wide = settings.sandbox
    narrow = msgspec.structs.replace(settings, sandbox=DockerSandboxProvider(wide.image, room, wide.images))
    graded = []

    async def trial():
        async with benchmark.open(task_of(benchmark, PYTHON), narrow) as environment:
            graded.append(await environment.grade("", None))

    with anyio.fail_after(600):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(trial)
    assert [grade.is_success for grade in graded] == [False] * 3
    assert room.used_mb == 0


@pytest.fixture
def own_prepared(acme, engine):
    """Return the name of a prepared image that no other test makes; only that one is removed."""
    image = f"{USER}/sweap-images:acme.ledger-{acme.rows[PYTHON]['instance_id'].removeprefix('instance_')[:-5]}"
    image_id = docker("image", "inspect", "--format", "{{.Id}}", image).stdout.strip()
    name = prepared_image(image_id, acme.rows[PYTHON]["base_commit"], OWN_DIR)
    yield name
    docker("rmi", "--force", name)


async def test_a_repository_that_cannot_be_saved(acme, settings, own_prepared, monkeypatch):
    """The first refusal is reported once; later trials of the run prepare their own, and wait for nobody."""
    lines, asked = [], []

    async def save_as(machine, image):
        asked.append(image)
        raise SandboxBoundaryError("no space left on device", kind="engine_disk_full")

    monkeypatch.setattr(DockerMachine, "save_as", save_as)
    settings = msgspec.structs.replace(settings, sandbox=make_provider(lines.append))
    source = open_swebench_pro(acme.options(work_dir=OWN_DIR), acme.folder, GraderSpec())
    look = "cd /app; git log --all --format=%s"
    seen = []
    async with source.open(task_of(source, PYTHON), settings) as environment:
        seen.append(await bash(environment, look))
    with anyio.fail_after(600):
        async with (
            settings.sandbox.images.turn(own_prepared),
            source.open(task_of(source, PYTHON), settings) as environment,
        ):
            seen.append(await bash(environment, look))
    assert asked == [own_prepared]
    assert [line.split(" prepares its repository itself: ")[1] for line in lines] == ["no space left on device"]
    assert seen == ["Change 2\nChange 1\n"] * 2


async def test_a_repository_is_prepared_once(acme, opened, own_prepared):
    """The second trial begins where the first one's preparation ended: no commit but the past, and the same patch.

    What the first agent did afterwards is not in the saved image.
    """
    look = "cd /app; git count-objects -v | grep -v size; git log --all --format=%s; ls -A; git status --short"
    seen, images, patches = [], [], []
    docker("rmi", "--force", own_prepared)  # what an earlier run of this test has left
    for _ in range(2):
        async with opened(PYTHON, acme, work_dir=OWN_DIR) as environment:
            images.append(docker("inspect", "--format", "{{.Config.Image}}", *own_names()).stdout.strip())
            seen.append(await bash(environment, look))
            await bash(environment, "cd /app; echo left > left.txt; git add left.txt")
            patches.append(artifact(await environment.grade("", None), "patch.diff"))
    assert [image == own_prepared for image in images] == [False, True]
    assert seen[0] == seen[1]
    assert "Change 2" in seen[1]
    assert "Change 3" not in seen[1]
    assert "left.txt" not in seen[1]
    assert patches[0] == patches[1]
    assert b"left.txt" in patches[1]
