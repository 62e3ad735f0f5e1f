"""Tasks of several steps: how they are read, graded and walked, and one trial on a real engine."""

import json
from contextlib import AsyncExitStack

import pytest

from lhaw_record.recorder.events import (
    ArtifactStored,
    CheckpointScored,
    ClarificationInjected,
    ModelCalled,
    QuestionAsked,
    TrialFlagged,
)
from lhaw_record.recorder.storage.blobs import load_blob
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.base.errors import ExperimentError, GraderError
from lhaw_record.runners.environments.benchmarks.harbor import environment, open_harbor, read_task, task_of
from lhaw_record.runners.environments.benchmarks.harbor.container import HarborVerdict
from lhaw_record.runners.environments.benchmarks.harbor.environment import ContainerSetup, HarborEnvironment
from lhaw_record.runners.environments.benchmarks.harbor.images import TaskImages
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import refusal
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.published import PublishedError
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.runners.agents.programs.rigs import tiny
from tests.runners.environments.benchmarks.harbor.folders import CONFIG, write_task
from tests.runners.environments.benchmarks.harbor.runs import check_alike, recorded, values
from tests.runners.environments.sandboxes.docker_fixtures import engine, make_provider, needs_engine  # noqa: F401  a fixture
from tests.support.depth import IS_DEEP
from tests.support.docker import BASE_IMAGE

WIRES = ["chat", "responses", "messages"]
TABLES = """
[[steps]]
name = "one"
min_reward = 0.5
[steps.agent]
user = "root"
[steps.verifier.env]
WORD = "hello"
[[steps]]
name = "two"
[steps.healthcheck]
command = "test -s hello.txt"
retries = 1
"""
HAS = 'echo "$(( $(grep -cx "$1" hello.txt) > 0 ))" > /logs/verifier/reward.txt\n'


def write_steps(folder, tables=TABLES, top="", **files):
    """Write a task of two steps; the second one's tests print what its ``setup.sh`` found."""
    steps = {
        "instruction.md": None,
        "tests/test.sh": None,
        "tests/has.sh": HAS,
        "solution/solve.sh": None,
        "steps/one/instruction.md": "Write the word hello into hello.txt.\n",
        "steps/one/tests/test.sh": '#!/bin/bash\necho here > /logs/agent/left.txt; set -- "$WORD"; . /tests/has.sh\n',
        "steps/one/solution/solve.sh": "#!/bin/bash\necho hello >> hello.txt\n",
        "steps/two/instruction.md": "<!-- harbor-canary -->\nNow add the word bye.\n",
        "steps/two/workdir/setup.sh": 'ls /tests /logs/verifier /logs/agent > left.txt; rm "$0"\n',
        "steps/two/tests/test.sh": "#!/bin/bash\nset -- bye; . /tests/has.sh; cat left.txt\n",
        "steps/two/solution/solve.sh": "#!/bin/bash\necho bye >> hello.txt\n",
    }
    for name, text in files.items():
        steps[name.replace("__", "/")] = text
    return write_task(folder, config=top + CONFIG + tables, **steps)


def test_steps_have_their_prompts_and_checkpoints(tmp_path):
    """The prompt is the first step's; what any step shows or tests is part of the task's identity."""
    folder = write_steps(tmp_path / "task")
    task = read_task(folder)
    assert refusal(task) is None
    assert [step.prompt for step in task.steps] == [
        "Write the word hello into hello.txt.\n",
        "Now add the word bye.\n",
    ]
    known = task_of(task)
    assert (known.prompt, [each.checkpoint_id for each in known.checkpoints]) == (task.prompt, ["one", "two"])
    for name in ("two/instruction.md", "two/workdir/setup.sh", "one/tests/test.sh"):
        place = folder / "steps" / name
        before = place.read_text()
        place.write_text(f"{before}# other\n")
        assert task_of(read_task(folder)).task_digest != known.task_digest
        place.write_text(before)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"tables": TABLES.replace('"two"', '"one"')}, "2 are named 'one'"),
        ({"tables": TABLES.replace('"two"', '"../two"')}, "'../two' is not the name of a folder in steps/"),
        ({"steps__two__instruction.md": " \n"}, "steps/two/instruction.md is empty"),
        ({"steps__two__instruction.md": None}, "steps/two/instruction.md"),
        ({"checkpoints.toml": '[[checkpoints]]\ncheckpoint_id = "x"\nlabel = "x"\n'}, "'x' belongs to no step"),
    ],
)
def test_a_broken_step_is_named(tmp_path, parts, words):
    """Before anything runs."""
    folder = write_steps(tmp_path / "task", **parts)
    with pytest.raises(PublishedError) as raised:
        read_task(folder)
    assert words in str(raised.value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"tables": f"{TABLES}[steps.verifier.environment]\ngpus = 1\n"}, "verifier.environment.gpus"),
        ({"steps__two__tests__docker-compose.yaml": "x"}, "steps/two/tests/docker-compose.yaml: several containers"),
        ({"tables": f'{TABLES}[steps.agent]\nnetwork_mode = "public"\n'}, "agent.network_mode is 'public'"),
        ({"tables": f'{TABLES}[steps.verifier.env]\nKEY = "${{LHAW_RECORD_NOT_SET}}"\n'}, "LHAW_RECORD_NOT_SET"),
        ({"steps__two__tests__test.sh": None}, "it has no steps/two/tests/test.sh"),
    ],
)
def test_a_step_that_cannot_run_refuses_the_task(tmp_path, parts, words):
    """By the key or the file."""
    assert words in refusal(read_task(write_steps(tmp_path / "task", **parts)))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("top", "step", "dockerfiles", "found"),
    [
        ("", "", (), (False, None, None)),
        ('environment_mode = "separate"', "", ("tests",), (True, None, "tests")),
        ('environment_mode = "separate"', 'environment_mode = "shared"', ("tests",), (False, None, None)),
        ("", 'environment_mode = "separate"', ("tests", "steps/two/tests"), (True, None, "steps/two/tests")),
        ('environment = { docker_image = "a" }', "", (), (True, "a", None)),
        ('environment = { docker_image = "a" }', "", ("steps/two/tests",), (True, None, "steps/two/tests")),
        ('environment = { docker_image = "a" }', "environment = { cpus = 1 }", ("tests",), (True, "a", None)),
        ("", 'environment = { docker_image = "b" }', ("steps/two/tests",), (True, "b", None)),
    ],
)
def test_separate_tests_of_a_step_have_its_image_or_the_tasks(tmp_path, top, step, dockerfiles, found):
    """As Harbor resolves it: the step's image, its Dockerfile, the task's image, the task's Dockerfile."""
    files = {f"{each.replace('/', '__')}__Dockerfile": "FROM x\n" for each in dockerfiles}
    tables = f"[verifier]\n{top}\n{TABLES}[steps.verifier]\n{step}\n"
    two = read_task(write_steps(tmp_path / "task", tables=tables, **files)).steps[1]
    table, folder = two.config.verifier.environment, two.tests_folder
    name = folder.relative_to(tmp_path / "task").as_posix() if folder else None
    assert (two.config.verifier.is_separate, table.docker_image if table else None, name) == found


@pytest.mark.thorough
def test_a_shared_test_script_serves_a_step_without_one(tmp_path):
    """As in Harbor; so does the task's solution."""
    parts = {"steps__two__tests__test.sh": None, "tests__test.sh": "x", "steps__two__solution__solve.sh": None}
    task = read_task(write_steps(tmp_path / "task", **parts))
    assert refusal(task) is None
    assert not task.has_solution
    (tmp_path / "task" / "solution").mkdir()
    (tmp_path / "task" / "solution" / "solve.sh").touch()
    assert task.has_solution


class StepContainer:
    """A container that remembers which steps were prepared."""

    def __init__(self):
        """Prepare nothing."""
        self.begun = []

    async def begin(self, step, *, is_first):
        """Remember the step."""
        assert not is_first
        self.begun.append(step.step.name)


@pytest.fixture
def walked(tmp_path, monkeypatch):
    """Return how to walk a task whose steps get these rewards: its environment and what it prepared."""

    def open_steps(rewards, **parts):
        task = read_task(write_steps(tmp_path / "task", **parts))

        async def verdict(setup, number, container, closing):
            found = rewards[setup.task.steps[number].step.name]
            if found is None:
                raise GraderError("no file", kind="no_reward", is_retry_owed=False)
            return HarborVerdict(rewards=found, stdout=b"")

        monkeypatch.setattr(environment, "verdict", verdict)
        images = TaskImages(agent="a", verifiers=("v",), ids={})
        how = {"provider": None, "images": images, "limits": SandboxLimits()}
        setup, container = (
            ContainerSetup(task=task, network="none", verifier_networks=("none",), **how),
            StepContainer(),
        )
        return HarborEnvironment(setup, container, AsyncExitStack()), container

    return open_steps


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("one", "two", "strategy", "begun", "final", "is_success"),
    [
        (1.0, 1.0, "mean", ["two"], (1.0, 1.0), True),
        (0.5, 1.0, "mean", ["two"], (0.75, 1.0), False),
        (0.4, 1.0, "mean", [], (0.4, 1.0), False),
        (0.5, 1.0, "final", ["two"], (1.0, 1.0), True),
        (0.4, 1.0, "final", [], (0.4, 1.0), False),
    ],
)
async def test_rewards_of_steps_become_a_grade(walked, one, two, strategy, begun, final, is_success):
    """Steps after one below its ``min_reward`` do not begin: 0 points, and no part of Harbor's reward."""
    top = f'multi_step_reward_strategy = "{strategy}"\n'
    opened, container = walked({"one": {"reward": one}, "two": {"reward": two}}, top=top)
    assert await opened.next_step() == ("Now add the word bye.\n" if begun else None)
    assert await opened.next_step() is None
    grade = await opened.grade("", None)
    assert container.begun == begun
    assert [each.score for each in grade.results] == [one, two if begun else 0.0]
    assert (grade.final_score, grade.final_total, grade.is_success) == (*final, is_success)


@pytest.mark.thorough
async def test_an_agent_that_ends_early_did_nothing_in_the_steps_that_are_left(walked):
    """They are prepared and graded as they stand, as when an agent of Harbor's runs out of time in each."""
    opened, container = walked({"one": {"reward": 1.0}, "two": {"reward": 0.0}})
    grade = await opened.grade("", None)
    assert (container.begun, [each.score for each in grade.results]) == (["two"], [1.0, 0.0])


@pytest.mark.thorough
async def test_a_step_without_a_reward_is_missing_data(walked):
    """The trial ends there."""
    opened, container = walked({"one": None})
    with pytest.raises(GraderError, match="no file"):
        await opened.next_step()
    assert container.begun == []


@pytest.mark.thorough
async def test_several_rewards_of_a_step_are_declared_with_its_name(walked):
    """``STEP/REWARD``; ``min_reward`` may be for each, and one that is not there is below it."""
    parts = {
        "checkpoints.toml": "".join(
            f'[[checkpoints]]\ncheckpoint_id = "{name}"\nlabel = "{name}"\n' for name in ("one/a", "one/b")
        ),
        "tables": TABLES.replace("min_reward = 0.5", "min_reward = { a = 1.0, c = 0.1 }"),
    }
    opened, container = walked({"one": {"a": 1.0, "b": 0.0}}, **parts)
    grade = await opened.grade("", None)
    assert [(each.checkpoint_id, each.score) for each in grade.results] == [("one/a", 1.0), ("one/b", 0.0), ("two", 0)]
    assert container.begun == []


@pytest.mark.thorough
def test_leases_get_no_steps(tmp_path):
    """The plan says so, and what to do."""
    agent = {"name": "mine", "model": "scripted/replay_masked", "program": {"leased": True, "wire": "chat"}}
    with pytest.raises(ExperimentError, match="not the later steps of hello"):
        recorded(tmp_path, [agent], write=write_solved)


def write_solved(folder, **files):
    """Write the task with the variants of other tasks; its own steps have the solutions."""
    return write_steps(folder, **{name: text for name, text in files.items() if name != "solution"})


def write_told(folder, **files):
    """The same, but the variant names the file, and so the word: no trial fails at its first step."""
    told = files["variants.toml"].replace("into a file", "into hello.txt")
    return write_solved(folder, **{**files, "variants.toml": told})


@needs_engine
@pytest.mark.thorough
def test_a_trial_goes_through_its_steps(tmp_path, monkeypatch):
    """One conversation, in which every step finds what it should and no tests of the one before; actions count on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    conditions = ("full", "ask_user", "inject_10")
    agents = [{"name": "native", "model": "scripted/replay_masked"}]
    trials = recorded(tmp_path, agents, conditions, write=write_solved)
    for condition in conditions:
        events = trials["native", condition]
        assert (events[-1].ended_by, events[-1].is_success) == ("submitted", True)
        assert (events[-1].final_score, events[-1].final_total) == (1.0, 1.0)
        assert values(events, CheckpointScored, "checkpoint_id") == ["one", "two"]
    full = trials["native", "full"]
    assert full[-1].action_count == 6
    assert values(trials["native", "ask_user"], QuestionAsked, "action_index") == [1]
    later = [json.loads(each.new_messages_json) for each in full if isinstance(each, ModelCalled)]
    asked = [message["content"] for messages in later for message in messages if message["role"] == "user"]
    assert asked == ["Write the word hello into hello.txt.\n", "Now add the word bye.\n"]
    left = next(each for each in full if isinstance(each, ArtifactStored) and each.name == "test-stdout.txt")
    shown = load_blob(Store(tmp_path / "store"), left.sha256).decode().split()
    assert shown == ["/logs/agent:", "/logs/verifier:", "/tests:"]


@needs_engine
@pytest.mark.thorough
@pytest.mark.parametrize("wire", WIRES if IS_DEEP else ["messages"])
def test_a_program_is_started_again_for_each_step(tmp_path, monkeypatch, wire):
    """As Harbor does by default. What is counted is the native agent's, and a message comes again in each start.

    A start forgets what the one before learned, so it asks again.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    conditions = ("full", "inject_10", "ask_user")
    mind = {"model": "scripted/replay_masked"}
    agents = [{"name": "native", **mind}, {"name": "tiny", **mind, "program": tiny(wire)}]
    trials = recorded(tmp_path, agents, conditions, write=write_solved)
    check_alike(trials, "tiny", ("full", "inject_10"))
    assert values(trials["tiny", "ask_user"], QuestionAsked, "action_index") == [1, 5]
    for condition in conditions:
        events = trials["tiny", condition]
        assert events[-1].is_success
        assert values(events, CheckpointScored, "checkpoint_id") == ["one", "two"]
        assert values(events, TrialFlagged, "flag") == []
        calls = [each for each in events if isinstance(each, ModelCalled)]
        assert {(each.call_kind, each.thread_id) for each in calls} == {("main", "t1")}
        assert [bool(each.thread_change) for each in calls].count(True) == 1
    outputs = [each.name for each in trials["tiny", "full"] if isinstance(each, ArtifactStored)]
    assert [name for name in outputs if name.startswith("stdout")] == ["stdout.txt", "stdout-2.txt"]


@needs_engine
@pytest.mark.thorough
@pytest.mark.parametrize("wire", WIRES if IS_DEEP else ["responses"])
def test_a_message_due_between_two_starts_follows_the_next_request(tmp_path, monkeypatch, wire):
    """As for the native agent: the first thing that the model hears in the second step, not after one more action."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    mind = {"model": "scripted/replay_masked"}
    agents = [{"name": "native", **mind}, {"name": "tiny", **mind, "program": tiny(wire)}]
    trials = recorded(tmp_path, agents, ("full", "inject_50"), write=write_told)
    check_alike(trials, "tiny", ("full", "inject_50"))
    events = trials["tiny", "inject_50"]
    assert values(events, ClarificationInjected, "after_action") == [3]
    later = next(each for each in events if isinstance(each, ModelCalled) and each.thread_change)
    *_, request, message = json.loads(later.new_messages_json)
    assert request["content"].endswith("Now add the word bye.")
    assert "the word hello" in message["content"]


@needs_engine
@pytest.mark.thorough
async def test_separate_tests_of_a_step_see_its_artifacts_alone(tmp_path):
    """In a container of their own, and the next step goes on in the agent's, where all that it left still is."""
    apart = (
        'a=$(grep -cx hello /srv/hello.txt); test -e /srv/left.txt; echo "{\\"kept\\": $a, \\"left\\": $((1 - $?))}"'
    )
    folder = write_steps(
        tmp_path / "tasks" / "task",
        tables=TABLES.replace("min_reward = 0.5", 'artifacts = ["/srv/hello.txt"]').replace(
            "[steps.verifier.env]", '[steps.verifier]\nenvironment_mode = "separate"\n[steps.verifier.env]'
        ),
        steps__one__tests__Dockerfile=f"FROM {BASE_IMAGE}\nCOPY . /tests\n",
    )
    (folder / "steps/one/tests/test.sh").write_text(f"{apart} > /logs/verifier/reward.json\n")
    (folder / "steps/one/solution/solve.sh").write_text("#!/bin/bash\necho hello > hello.txt; touch left.txt\n")
    (folder / "steps/two/tests/test.sh").write_text("test -e left.txt; echo $((1 - $?)) > /logs/verifier/reward.txt\n")
    (folder / "checkpoints.toml").write_text(
        "".join(f'[[checkpoints]]\ncheckpoint_id = "one/{name}"\nlabel = "x"\n' for name in ("kept", "left"))
    )
    options = {"folder": "tasks", "network": "none", "build_network": "none"}
    settings = EnvironmentSettings(sandbox=make_provider(), limits=SandboxLimits(memory_mb=128))
    oracle = await open_harbor(options, tmp_path, GraderSpec()).oracle("task", settings)
    assert (await oracle.verdict({}, False)).rewards == {"one/kept": 1.0, "one/left": 0.0, "two": 1.0}
