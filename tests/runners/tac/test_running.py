"""Whole runs of a task image on a real engine: init, agent, evaluator, and what their bad days are recorded as."""

import json
import os
import threading
import time
from collections import defaultdict

import pytest

from lhaw_record import main
from recorder.reader import read_envelopes
from tests.runners.sandboxes.docker_fixtures import engine, needs_engine, own_names  # noqa: F401
from tests.runners.tac.images import COUNT, HEALTH, LOOK, TASK, UPLOAD, URL, call, make_folder, make_images
from tests.support.docker import BASE_IMAGE, docker

pytestmark = [pytest.mark.docker, needs_engine]
NAMES = ("task", "owncloud", "company")
OWN = f"label=lhaw-record.pid={os.getpid()}"


@pytest.fixture(scope="module")
def images():
    """The images by what they are."""
    return dict(zip(NAMES, make_images(), strict=True))


@pytest.fixture
def run(tmp_path, images, capsys):
    """Run trials of the task with calls that an agent makes; returns the exit code and the events by class."""

    def run(calls, *, trials=1, attempts=1, services=None, more="", grader=""):
        folder = make_folder(tmp_path)
        (tmp_path / "references").mkdir()
        (tmp_path / "references" / f"{TASK}.json").write_text(json.dumps(calls))
        own = f'services.owncloud = {{image = "{images["owncloud"]}", health = "{HEALTH}", memory_mb = 128}}'
        (tmp_path / "x.toml").write_text(
            f"""
            name = "x"
            conditions = ["full"]
            trials = {trials}
            concurrency = 2
            agents = [{{name = "replay", model = "scripted/replay"}}]
            limits = {{memory_mb = 256}}
            retry = {{max_attempts = {attempts}}}
            sandbox = {{kind = "docker", image = "{BASE_IMAGE}"}}
            [benchmark]
            name = "tac"
            folder = "{folder}"
            references = "references"
            image = "{images["task"].replace(TASK, "{task}")}"
            {own if services is None else services}
            {more}
            {grader}
            """
        )
        networks = docker("network", "ls", "--quiet", "--filter", OWN).stdout.split()
        code = main(["run", str(tmp_path / "x.toml"), "--store", str(tmp_path / "store")])
        events = defaultdict(list)
        for envelope in read_envelopes(tmp_path / "store"):
            events[type(envelope.event).__name__].append(envelope.event)
        assert own_names() == []
        assert docker("network", "ls", "--quiet", "--filter", OWN).stdout.split() == networks
        events["stderr"] = capsys.readouterr().err
        return code, events

    return run


@pytest.fixture
def neighbourhood():
    """Make a network with a company on it that is nobody's trial's; returns the network's name."""
    name = f"tac-test-{os.getpid()}"
    made = []

    def neighbourhood(image):
        assert docker("network", "create", "--internal", name).returncode == 0
        run = docker("run", "--detach", "--network", name, "--network-alias", "the-office", image)
        assert run.returncode == 0, run.stderr
        made.append(run.stdout.strip())
        return name

    yield neighbourhood
    docker("rm", "--force", *made)
    docker("network", "rm", name)


def points(events):
    """Return the score of every checkpoint by its id, trial by trial."""
    found = defaultdict(list)
    for event in events["CheckpointScored"]:
        found[event.checkpoint_id].append((event.score, event.total))
    return dict(found)


def content(tmp_path, events, name):
    """Return the first stored artifact of a name."""
    sha256 = next(event.sha256 for event in events["ArtifactStored"] if event.name == name)
    return next((tmp_path / "store" / "blobs").rglob(f"{sha256}*")).read_bytes()


def test_a_trial_from_init_to_the_final_score(run, tmp_path):
    """Init, agent and evaluator run in this order; booleans and integers are points; the files are kept."""
    code, events = run([LOOK, COUNT, UPLOAD])
    assert code == 0, events["stderr"]
    assert points(events) == {"c1": [(1.0, 1.0)], "c2": [(1.0, 1.0)], "c3": [(2.0, 2.0)]}
    (end,) = events["TrialFinished"]
    assert (end.is_success, end.final_score, end.final_total) == (True, 4.0, 4.0)
    assert json.loads(content(tmp_path, events, f"eval_{TASK}.json"))["checkpoints"][1] == {"total": 1, "result": True}
    steps = json.loads(content(tmp_path, events, "trajectory.json"))
    assert [step["action"] for step in steps] == ["message", "python", "write_file", "bash", "finish"]
    assert "/files/front-desk/visitors.csv" in steps[1]["observation"]
    assert content(tmp_path, events, "evaluator.txt") == b"graded with no model\n"
    facts = json.loads(content(tmp_path, events, "images.json"))
    assert facts["image"]["id"].startswith("sha256:")
    assert set(facts["services"]) == {"owncloud"}


def test_the_final_score_stands_beside_the_checkpoints(run):
    """A strategy of the evaluator gives all points for the last checkpoint; the checkpoints stay as they are."""
    code, events = run([COUNT, UPLOAD, call("write_file", path="count.txt", content="4")])
    assert code == 0, events["stderr"]
    assert points(events) == {"c1": [(0.0, 1.0)], "c2": [(0.0, 1.0)], "c3": [(2.0, 2.0)]}
    (end,) = events["TrialFinished"]
    assert (end.is_success, end.final_score, end.final_total) == (True, 4.0, 4.0)
    assert {event.details for event in events["CheckpointScored"]} >= {
        "0 of 1; final score 4 of 4 (bonus_for_completing_final)"
    }


def test_trials_at_once_have_a_company_each(run):
    """Two trials put a file into the same place at the same time, and each finds its own only."""
    code, events = run([LOOK, COUNT, call("bash", command="sleep 2"), UPLOAD], trials=2)
    assert code == 0, events["stderr"]
    assert points(events)["c3"] == [(2.0, 2.0)] * 2


def test_trials_take_turns_in_a_company_that_they_share(run, images, neighbourhood):
    """On one running company trials wait for each other, and the init script resets it before each."""
    calls = [LOOK, COUNT, call("bash", command="sleep 1"), UPLOAD]
    shared = f'services_host = "the-office"\nnetwork = "{neighbourhood(images["company"])}"'
    code, events = run(calls, trials=2, services=shared)
    assert code == 0, events["stderr"]
    assert points(events)["c3"] == [(2.0, 2.0)] * 2


def test_the_agent_never_sees_the_grader(run):
    """While the agent is there, neither evaluator, nor key, nor a model's key is: not in files, not in processes."""
    look = (
        "ls -d /utils /outputs; grep -rl the-answer-is-three / --include=* -s --exclude-dir=proc --exclude-dir=sys; "
        "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -i -e '^decr' -e litellm; find / -xdev -name '*.enc'; "
        "cat given-at-init.txt"
    )
    grader = """
            [grader]
            kind = "judge"
            judge = {model = "openai/judge", api_base = "http://judge", api_key_env = "LHAW_TEST_KEY"}
            """
    code, events = run([call("bash", command=look)], grader=grader)
    assert code == 0, events["stderr"]
    (seen,) = [event.result for event in events["ActionFinished"] if "no key" in event.result]
    assert (
        seen.replace("ls: cannot access '/utils': No such file or directory\n", "").replace(
            "ls: cannot access '/outputs': No such file or directory\n", ""
        )
        == "no key\n"
    )


@pytest.mark.parametrize(
    ("mood", "kind", "says"),
    [
        ("crash", "crash", "ended with 1; its last words: the grader has a bad day"),
        ("hang", "timeout", "took over 3 s"),
        ("garbage", "garbage", "is no result"),
        ("error", "evaluator_error", "gave up: 'no model'"),
        ("nothing", "no_result", "left no result"),
        ("other", "other_checkpoints", "benchmark.checkpoints"),
    ],
)
def test_a_bad_grader_is_missing_data(run, mood, kind, says):
    """A grader that crashes, hangs, prints garbage or gives up fails the trial at its boundary, never with zero."""
    calls = [call("write_file", path="mood.txt", content=mood)]
    # A result that is there before the evaluator runs is none of its.
    calls.append(call("bash", command=f"mkdir /outputs; echo '{{}}' > /outputs/eval_{TASK}.json"))
    code, events = run(calls, more="grading_seconds = 3.0")
    (failed,) = events["TrialFailed"]
    assert (code, failed.boundary, failed.error_kind, failed.is_retry_owed) == (1, "grader", kind, kind[:2] != "ot")
    assert says in failed.message
    assert not events["CheckpointScored"]


def test_a_service_that_never_turns_green(run, images):
    """The trial fails at the sandbox before its agent says a word, names the service, and is owed again."""
    service = f'services.owncloud = {{image = "{images["owncloud"]}", health = "{URL}/broken", memory_mb = 128}}'
    code, events = run([LOOK], services=service, more="health_seconds = 1.0", attempts=2)
    failed = events["TrialFailed"]
    assert code == 1
    assert [(each.boundary, each.error_kind, each.is_retry_owed) for each in failed] == [
        ("sandbox", "service_unhealthy", True)
    ] * 2
    assert f"{URL}/broken: HTTP 503" in failed[0].message
    assert not events["ModelCalled"]


@pytest.mark.parametrize(
    ("more", "kind", "says"),
    [
        ('init = ["sh", "-c", "echo no company; exit 4"]', "init_failed", "ended with 4; its last words: no company"),
        ('init = ["sleep", "3600"]\ninit_seconds = 1.0', "init_failed", "took over 1 s"),
        ('instruction = "/workspace/notes.txt"', "other_task", "is not the task.md of the folder"),
    ],
)
def test_an_image_that_does_not_begin(run, more, kind, says):
    """An init script that fails or hangs, and an image of another task, fail the trial before its agent comes."""
    code, events = run([LOOK], more=more)
    (failed,) = events["TrialFailed"]
    assert (code, failed.boundary, failed.error_kind) == (1, "sandbox", kind)
    assert says in failed.message
    assert failed.is_retry_owed == (kind == "init_failed")


def test_a_missing_image(run):
    """An image that nobody has is named in the failure of the trial, with the next step."""
    service = f'services.owncloud = {{image = "localhost:1/none:1", health = "{URL}/status", memory_mb = 128}}'
    code, events = run([LOOK], services=service)
    (failed,) = events["TrialFailed"]
    assert (code, failed.boundary, failed.error_kind) == (1, "sandbox", "registry_away")
    assert "localhost:1/none:1 cannot be pulled" in failed.message
    assert "docker load" in failed.message


def test_a_container_killed_in_mid_trial(run):
    """A container that something outside ends fails the trial at the sandbox; the next attempt is whole."""
    has_killed = []

    def kill():
        while not has_killed:
            for name in own_names():
                shown = docker("exec", name, "cat", "/workspace/count.txt")
                if shown.returncode == 0:
                    has_killed.append(docker("kill", name).returncode)
            time.sleep(0.1)

    killer = threading.Thread(target=kill)
    killer.start()
    code, events = run([LOOK, COUNT, call("bash", command="sleep 3"), UPLOAD], attempts=2)
    killer.join()
    (failed,) = events["TrialFailed"]
    assert (code, failed.boundary, failed.error_kind) == (0, "sandbox", "container_killed"), events["stderr"]
    assert points(events) == {"c1": [(1.0, 1.0)], "c2": [(1.0, 1.0)], "c3": [(2.0, 2.0)]}


def test_a_service_that_dies_is_no_zero(run, images):
    """Where a service is gone when the grader comes, nothing is graded: the trial is owed again."""

    def kill():
        for _ in range(600):
            alive = docker(
                "ps", "--quiet", "--filter", f"ancestor={images['owncloud']}", "--filter", OWN
            ).stdout.split()
            ready = [name for name in own_names() if not docker("exec", name, "cat", "/workspace/count.txt").returncode]
            if alive and ready:
                docker("kill", *alive)
                return
            time.sleep(0.1)

    killer = threading.Thread(target=kill)
    killer.start()
    code, events = run([COUNT, call("bash", command="sleep 3")], more="health_seconds = 20.0")
    killer.join()
    (failed,) = events["TrialFailed"]
    assert (code, failed.boundary, failed.error_kind) == (1, "sandbox", "service_unhealthy")
