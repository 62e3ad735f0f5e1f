"""Whole runs of a task image on a real engine: init, agent, evaluator, and what their bad days are recorded as."""

import json
import os
import threading
import time
from collections import defaultdict

import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.events.values import Usage
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.models.protocol import ModelReply
from tests.runners.environments.benchmarks.tac.images import (
    COUNT,
    HEALTH,
    LOOK,
    PYTHON_GET,
    TASK,
    UPLOAD,
    URL,
    browser_image,
    call,
    make_folder,
)
from tests.runners.environments.sandboxes.docker_fixtures import engine, needs_engine, own_names  # noqa: F401
from tests.support.canned_model import CannedModel
from tests.support.chat_server import server_beside
from tests.support.docker import docker
from tests.support.faults import Fault
from tests.support.needs import needs

pytestmark = needs_engine
USAGE = Usage(input_tokens=10, output_tokens=1)
PRICE = "{input_usd_per_million_tokens = 1000.0, output_usd_per_million_tokens = 2000.0}"
OWN = f"label=lhaw-record.pid={os.getpid()}"


def service_line(image, health):
    """Return the line of an experiment file that names the service."""
    return f'services.owncloud = {{image = "{image}", health = "{health}", ports = ["8092"], memory_mb = 128}}'


@pytest.fixture
def run(tmp_path, images, capsys):
    """Run what an agent does, or what it does in several tasks by name; returns the exit code and events by class."""

    def run(calls, *, trials=1, services=None, more="", start_seconds=60.0):
        (tmp_path / "references").mkdir()
        for task_id, made in calls.items() if isinstance(calls, dict) else [(TASK, calls)]:
            folder = make_folder(tmp_path, task_id, "" if services == "" else "- owncloud")
            (tmp_path / "references" / f"{task_id}.json").write_text(json.dumps(made))
        own = service_line(images["owncloud"], HEALTH)
        (tmp_path / "x.toml").write_text(
            f"""
            name = "x"
            conditions = ["full"]
            trials = {trials}
            concurrency = 2
            agents = [{{name = "replay", model = "scripted/replay"}}]
            limits = {{memory_mb = 256, tool_start_seconds = {start_seconds}}}
            retry = {{max_attempts = 1}}
            sandbox = {{kind = "docker"}}
            [benchmark]
            name = "tac"
            folder = "{folder}"
            references = "references"
            image = "{images["task"] if isinstance(calls, dict) else images["task"].replace(TASK, "{task}")}"
            {own if services is None else services}
            {more}
            """
        )
        networks = docker("network", "ls", "--quiet", "--filter", OWN).stdout.split()
        # The judge is a name that evaluators are told, and no server.
        code = main(["run", str(tmp_path / "x.toml"), "--store", str(tmp_path / "store"), "--no-preflight"])
        events = defaultdict(list)
        for envelope in read_envelopes(tmp_path / "store") if (tmp_path / "store").is_dir() else []:
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
    made, networks = [], []

    def neighbourhood(image):
        assert docker("network", "create", "--internal", name).returncode == 0
        networks.append(name)
        run = docker("run", "--detach", "--network", name, "--network-alias", "the-office", image)
        assert run.returncode == 0, run.stderr
        made.append(run.stdout.strip())
        return name

    yield neighbourhood
    for container in made:
        docker("rm", "--force", container)
    for network in networks:
        docker("network", "rm", network)


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


def test_from_init_to_the_final_score(run, tmp_path):
    """Init, agent and evaluator run in this order, points are integers or booleans, and a strategy may be between."""
    late = [COUNT, UPLOAD, call("write_file", path="count.txt", content="4")]
    code, events = run({"bm-all": [LOOK, COUNT, UPLOAD], "bm-late": late})
    assert code == 0, events["stderr"]
    assert {key: sorted(value) for key, value in points(events).items()} == {
        "c1": [(0.0, 1.0), (1.0, 1.0)],
        "c2": [(0.0, 1.0), (1.0, 1.0)],
        "c3": [(2.0, 2.0), (2.0, 2.0)],
    }
    ends = [(end.is_success, end.final_score, end.final_total) for end in events["TrialFinished"]]
    assert ends == [(True, 4.0, 4.0)] * 2
    assert {event.details for event in events["CheckpointScored"]} >= {
        "0 of 1; final score 4 of 4 (bonus_for_completing_final)",
        "1 of 1; final score 4 of 4 (plain_sum)",
    }
    kept = json.loads(content(tmp_path, events, "eval_bm-all.json"))
    assert kept["checkpoints"] == [{"total": 1, "result": 1}, {"total": 1, "result": True}, {"total": 2, "result": 2}]
    assert content(tmp_path, events, "evaluator.txt") == b"graded with no model\nwithout a key"
    facts = json.loads(content(tmp_path, events, "images.json"))
    assert facts["image"]["id"].startswith("sha256:")
    assert set(facts["services"]) == {"owncloud"}


def test_trials_at_once_have_a_company_each(run):
    """Two trials put a file into the same place at the same time, and each finds its own only."""
    code, events = run([LOOK, COUNT, call("bash", command="sleep 2"), UPLOAD], trials=2)
    assert code == 0, events["stderr"]
    assert points(events)["c3"] == [(2.0, 2.0)] * 2


def step(name, **arguments):
    """Return a call of the browser."""
    return call(f"browser_{name}", **arguments)


@pytest.mark.thorough
@needs("node")
def test_an_agent_with_a_browser(run, tmp_path):
    """A real Chromium logs in, opens a folder, downloads and uploads; evaluators find the folder's address as it is.

    It shares network, names and work directory with the agent's container.
    """
    home = "(cd /tmp && echo '<h1>at home</h1>' > index.html && python3 -m http.server 4321 &) 2> /dev/null"
    calls = [
        step("navigate", url=f"{URL}/apps/files/?dir=/Documents"),
        step("type", target="input[name=user]", text="theagentcompany"),
        step("type", target="input[name=password]", text="theagentcompany"),
        step("click", target="button"),
        step("click", target="text=front desk"),
        step("take_screenshot"),
        step("click", target="text=visitors.csv"),
        call("bash", command="until test -e .downloads/visitors.csv; do sleep 0.2; done; cat .downloads/visitors.csv"),
        COUNT,
        step("click", target="input[type=file]"),
        step("file_upload", paths=["/workspace/count.txt"]),
        call("bash", command=home),
        call("bash", command="until curl -sf localhost:4321; do sleep 0.2; done"),
        step("navigate", url="http://localhost:4321/"),
        step("navigate", url="http://nowhere.invalid/"),
        step("run_code_unsafe", code="async () => 1"),
        LOOK,
    ]
    more = f'[benchmark.browser]\nimage = "{browser_image()}"\nmemory_mb = 1024\nscreenshots = true'
    code, events = run(calls, more=more)
    assert code == 0, events["stderr"]
    seen = [event.result for event in events["ActionFinished"]]
    assert 'textbox "Password"' in seen[0]
    assert 'heading "/Documents"' in seen[3]
    assert seen[7] == "name\nAda\nGrace\nKurt\n"
    assert 'heading "at home"' in seen[13]
    assert "ERR_NAME_NOT_RESOLVED" in seen[14]
    assert seen[15].startswith("There is no tool 'browser_run_code_unsafe'. Tools: bash, browser_click, ")
    assert points(events) == {"c1": [(1.0, 1.0)], "c2": [(1.0, 1.0)], "c3": [(2.0, 2.0)]}
    trajectory = content(tmp_path, events, "trajectory.json").decode()
    assert f"Page URL: {URL}/apps/files/?dir=/Documents/front%20desk\\n" in trajectory
    pictures = [event for event in events["ArtifactStored"] if event.role == "screenshot"]
    assert len(pictures) >= 8
    assert all(content(tmp_path, events, picture.name).startswith(b"\x89PNG") for picture in pictures)
    facts = json.loads(content(tmp_path, events, "images.json"))
    assert facts["browser"]["server"].startswith("Playwright ")


@pytest.mark.thorough
@needs("node")
def test_a_page_that_needs_too_much_memory(run):
    """A page that the system kills for the memory of the browser's container is not the agent's failure: owed again."""
    fill = "() => { const kept = []; for (;;) kept.push(new Uint8Array(1 << 24).fill(1)); }"
    calls = [step("navigate", url="about:blank"), step("evaluate", function=fill)]
    code, events = run(calls, more=f'[benchmark.browser]\nimage = "{browser_image()}"\nmemory_mb = 512')
    (failed,) = events["TrialFailed"]
    assert (code, failed.boundary, failed.error_kind, failed.is_retry_owed) == (1, "tool", "out_of_memory", True)
    assert "raise benchmark.browser.memory_mb" in failed.message


@pytest.mark.thorough
@needs("node")
@pytest.mark.parametrize(
    ("image", "kinds", "says"),
    [
        (
            "lhaw-record/nobody:1",
            ("image_missing", "registry_away", "registry_denied"),
            "lhaw-record/nobody:1 cannot be",
        ),
        ("{owncloud}", ("server_timeout", "server_gone"), "the browser"),
    ],
)
def test_a_browser_that_is_none(run, images, image, kinds, says):
    """An image that cannot be had, or that holds no browser, fails the trial; nothing is scored."""
    more = f'[benchmark.browser]\nimage = "{image.format(**images)}"\nmemory_mb = 256'
    code, events = run([LOOK], more=more, start_seconds=3.0)
    (failed,) = events["TrialFailed"]
    assert code == 1
    assert failed.error_kind in kinds
    assert says in failed.message
    assert not events["CheckpointScored"]


def test_a_company_of_several_containers(run, images, tmp_path):
    """A service has its port behind the company's, starts again until its database is there, and is prepared.

    The forms are those of the published services: ownCloud's port 80 at 8092, Rocket.Chat with a database, a container
    that fills it and ends, and a dump that is read into it.
    """
    (tmp_path / "dump").write_text("3")
    image, small, filled = images["owncloud"], "memory_mb = 96", "http://database:5000/files/filled"
    service = f"""
    [benchmark.services.owncloud]
    image = "{image}"
    health = "{HEALTH}"
    ports = ["8092:80"]
    environment = {{ PORT = "80", NEEDS = "{filled}" }}
    files = {{ "/srv/dump" = "dump" }}
    {small}
    [benchmark.services.owncloud.companions]
    filler = {{ image = "{image}", environment = {{ FILLS = "{filled}" }}, is_job = true, {small} }}
    database = {{ image = "{image}", environment = {{ PORT = "5000" }}, {small} }}
    [benchmark.services.owncloud.prepare]
    owncloud = ["python3", "/srv/service.py", "load", "http://localhost:80/files/dump", "/srv/dump"]
    """
    seen = call("python", code=PYTHON_GET.format(url=f"{URL}/files/"))
    code, events = run([LOOK, seen, COUNT, UPLOAD], trials=2, services=service)
    assert code == 0, events["stderr"]
    assert points(events)["c1"] == [(1.0, 1.0)] * 2
    assert sum("/files/dump" in event.result for event in events["ActionFinished"]) == 2
    facts = json.loads(content(tmp_path, events, "images.json"))
    assert set(facts["services"]) == {"owncloud", "filler", "database"}


def test_what_the_machine_cannot_hold(run, images):
    """A company that is larger than the machine is said before anything starts, also where other tasks can run."""
    huge = service_line(images["owncloud"], HEALTH).replace("memory_mb = 128", "memory_mb = 90000000")
    code, events = run([LOOK], services=huge)
    assert code == 2
    assert "1 of 1 tasks need 90000384 MB each, and this machine has " in events["stderr"]
    assert "MB for sandboxes: admin-count-visitors cannot run here" in events["stderr"]
    assert not events["TrialStarted"]


@pytest.mark.parametrize(
    ("does", "kind", "says"),
    [
        ("eat", "service_out_of_memory", "owncloud, a container of the company, ran out of memory"),
        ("restart", "service_died", "owncloud, a container of the company, ended"),
    ],
)
def test_a_limit_that_a_service_meets_is_no_zero(run, images, does, kind, says):
    """A service that starts again as if nothing had been, or lost a process to a memory limit: the trial is owed."""
    asked = call("python", code=f"import urllib.request as u\ntry: u.urlopen('{URL}/{does}').read()\nexcept OSError: 1")
    healthy = call("bash", command=f"until curl -sf {HEALTH}; do sleep 0.2; done")
    code, events = run([COUNT, asked, healthy], services=service_line(images["owncloud"], HEALTH))
    (failed,) = events["TrialFailed"]
    assert (code, failed.boundary, failed.error_kind, failed.is_retry_owed) == (1, "sandbox", kind, True)
    assert says in failed.message
    assert not events["CheckpointScored"]


def test_a_limit_that_a_service_meets_under_the_evaluator(run):
    """What is false because a service lost a process while the evaluator asked it is not counted: owed again."""
    code, events = run([COUNT, call("write_file", path="mood.txt", content="eat")])
    (failed,) = events["TrialFailed"]
    assert (code, failed.error_kind, failed.is_retry_owed) == (1, "service_out_of_memory", True)
    assert not events["CheckpointScored"]


def test_an_agent_that_leaves_no_room_is_graded(run, monkeypatch):
    """What has to go on running took most of the memory: an evaluator that ends well is believed, else all is false.

    An agent's words about a full disk, which an evaluator repeats, are no full disk.
    """
    hog = "import pathlib, time; x = bytearray(160 << 20); pathlib.Path('/tmp/ready').touch(); time.sleep(3600)"
    left = f'setsid python3 -c "{hog}" > /dev/null 2>&1 & until [ -e /tmp/ready ]; do sleep 0.1; done'
    environment = "lhaw_record.runners.environments.benchmarks.tac.environment"
    monkeypatch.setattr(f"{environment}._RUNNING", ("bm-memory", "bm-starve"))
    does = {"memory": left, "starve": left, "quote": "echo No space left on device"}
    calls = {
        f"bm-{mood}": [COUNT, call("write_file", path="mood.txt", content=mood), call("bash", command=command)]
        for mood, command in does.items()
    }
    code, events = run(calls, services="", more='init = ["true"]')
    assert code == 0, events["stderr"]
    assert not events["TrialFailed"]
    assert sorted(end.ended_by for end in events["TrialFinished"]) == ["gave_up", "gave_up", "resource_abuse"]
    assert sorted(points(events)["c2"]) == [(0.0, 1.0), (1.0, 1.0), (1.0, 1.0)]
    starved = [event.details for event in events["CheckpointScored"] if "ran out of memory" in event.details]
    assert len(starved) == 3
    assert starved[0].startswith("processes that the agent left running used 6")


def test_trials_take_turns_in_a_company_that_they_share(run, images, neighbourhood):
    """On one running company trials wait for each other, and the init script resets it before each.

    The evaluator looks for the name by which agents know the company, not for the host's.
    """
    calls = [LOOK, COUNT, call("bash", command="sleep 1"), UPLOAD]
    shared = f'services_host = "the-office"\nnetwork = "{neighbourhood(images["company"])}"'
    code, events = run(calls, trials=2, services=shared)
    assert code == 0, events["stderr"]
    assert points(events)["c1"] == [(1.0, 1.0)] * 2
    assert points(events)["c3"] == [(2.0, 2.0)] * 2


def test_a_reset_that_is_refused(run, images):
    """A control server that does not know the method of the poll: the init script's own wait ends it, and no zero."""
    no_head = ["sh", "-c", "sed -i 's/ -I / -X BREW /' /utils/init.sh; exec sh /utils/init.sh"]
    code, events = run([LOOK], more=f"init = {json.dumps(no_head)}")
    (failed,) = events["TrialFailed"]
    assert (code, failed.boundary, failed.error_kind) == (1, "sandbox", "init_failed")
    assert "timeout waiting for owncloud" in failed.message


def test_the_agent_never_sees_the_grader(run, tmp_path, monkeypatch):
    """While the agent is there, neither evaluator nor its key nor a model's key is; the grader has all of them."""
    monkeypatch.setenv("LHAW_TEST_KEY", "k-98765")
    look = (
        "ls -d /utils; find / -xdev -name '*.enc' -o -xdev -name 'eval*.py' -path '/utils*'; "
        "cat /proc/[0-9]*/environ 2> /dev/null | tr '\\0' '\\n' | grep -i -e '^decr' -e '^litellm'; "
        "cat given-at-init.txt"
    )
    judge = 'model = "openai/judge", api_base = "http://judge", api_key_env = "LHAW_TEST_KEY"'
    code, events = run([call("bash", command=look)], more=f'[grader]\nkind = "judge"\njudge = {{{judge}}}')
    assert code == 0, events["stderr"]
    (seen,) = [event.result for event in events["ActionFinished"] if event.result.startswith("ls: ")]
    assert seen == "ls: cannot access '/utils': No such file or directory\nno key\n"
    assert content(tmp_path, events, "evaluator.txt") == b"graded with openai/judge\n[redacted]"
    assert {event.grader for event in events["CheckpointScored"]} == {"tac/evaluator:openai/judge"}


def test_bad_graders_are_missing_data(run):
    """A grader that crashes, prints garbage or gives up fails its trial at the boundary, never with a zero.

    So does one that meets a limit of the machine, takes it for the agent's failure, and ends well.
    """
    moods = {
        "crash": ("crash", "ended with 1; its last output: the grader has a bad day"),
        "garbage": ("garbage", "is not a result"),
        "error": ("evaluator_error", "gave up: 'no model'"),
        "nothing": ("no_result", "left no result"),
        "model": ("swallowed_error", "could not ask its model (litellm.AuthenticationError) and continued"),
        "memory": ("out_of_memory", "ran out of memory"),
        "processes": ("out_of_processes", "needed more processes than limits.processes"),
        "disk": ("disk_full", "the disk was full"),
        "other": ("other_checkpoints", "set benchmark.checkpoints to the evaluator's points"),
    }
    # A result that is there before the evaluator runs is none of its.
    forged = call("bash", command="mkdir /outputs; echo '{}' > /outputs/eval_bm-bad-nothing.json")
    calls = {f"bm-bad-{mood}": [forged] for mood in moods}
    code, events = run(calls, services="", more='init = ["true"]')
    assert code == 1
    assert len(events["TrialFailed"]) == len(moods)
    for kind, says in moods.values():
        (failed,) = [event for event in events["TrialFailed"] if event.error_kind == kind]
        assert (failed.boundary, failed.is_retry_owed) == ("grader", kind != "other_checkpoints")
        assert says in failed.message
    assert not events["CheckpointScored"]


def test_a_grader_that_hangs_is_missing_data(run):
    """It is ended at its limit, and a result that was there before it ran is none of its."""
    forged = call("bash", command="mkdir /outputs; echo '{}' > /outputs/eval_bm-bad-hang.json")
    code, events = run({"bm-bad-hang": [forged]}, services="", more='init = ["true"]\ngrading_seconds = 1.0')
    (failed,) = events["TrialFailed"]
    assert (code, failed.boundary, failed.error_kind, failed.is_retry_owed) == (1, "grader", "timeout", True)
    assert "took more than 1 s" in failed.message
    assert not events["CheckpointScored"]


def test_work_on_which_the_evaluator_gives_no_verdict_is_graded(run):
    """Where nobody has worked it gives one, so the work is to blame: no points, and the trial counts."""
    moods = {"hang": "resource_abuse", "processes": "resource_abuse", "crash": "gave_up"}
    calls = {f"bm-{mood}": [call("write_file", path="mood.txt", content=mood)] for mood in moods}
    code, events = run(calls, services="", more='init = ["true"]\ngrading_seconds = 30.0')
    assert code == 0, events["stderr"]
    assert sorted(end.ended_by for end in events["TrialFinished"]) == sorted(moods.values())
    assert {score for each in points(events).values() for score, _ in each} == {0.0}
    assert all("on untouched work it gives a verdict" in each.details for each in events["CheckpointScored"])


@pytest.mark.parametrize(
    ("mood", "faults", "kind"),
    [
        ("ask", (), None),
        ("show", (), "model_unfit"),
        ("ask", (Fault(kind="unauthorised", times=None),), "endpoint_down"),
    ],
)
def test_the_model_of_an_evaluator(run, tmp_path, monkeypatch, mood, faults, kind):
    """Its question is the trial's, with its cost, and needs no network; without an answer the trial is missing data.

    The container knows neither the model's address nor its key.
    """
    monkeypatch.setenv("LHAW_TEST_KEY", "k-98765")
    reply = ModelReply(message=Message(role="assistant", content="Yes."), finish_reason="stop", usage=USAGE)
    with server_beside(CannedModel([reply]), faults) as server:
        judge = f'model = "openai/judge", api_base = "{server.url}", api_key_env = "LHAW_TEST_KEY", price = {PRICE}'
        more = f'init = ["true"]\n[grader]\nkind = "judge"\njudge = {{{judge}}}'
        made = [COUNT, call("write_file", path="mood.txt", content=mood)]
        code, events = run({f"bm-{mood}": made}, services="", more=more)
    if kind is None:
        assert code == 0, events["stderr"]
        assert [each["content"] for each in server.requests[0]["messages"]] == ["Does it?"]
        assert server.headers[0]["authorization"] == "Bearer k-98765"
        assert content(tmp_path, events, "evaluator.txt") == b"it says Yes.\ngraded with openai/judge\n[redacted]"
        (asked,) = [event for event in events["ModelCalled"] if event.role == "judge"]
        (answered,) = [event for event in events["ModelResponded"] if event.call_id == asked.call_id]
        assert answered.usage.cost_usd == pytest.approx(0.012)
    else:
        (failed,) = events["TrialFailed"]
        assert (code, failed.boundary) == (1, "grader")
        assert bool(server.requests) == bool(faults)
        assert failed.error_kind == kind
        assert not events["CheckpointScored"]


def test_a_route_that_dies_is_no_zero(run, monkeypatch):
    """An evaluator whose question went nowhere makes a false of it and ends well; the trial is owed again."""
    monkeypatch.setenv("LHAW_TEST_KEY", "k-98765")

    class Killing(CannedModel):
        async def respond(self, request):
            assert docker("kill", *own_names("--filter", "label=lhaw-record.memory_mb=128")).returncode == 0
            return await super().respond(request)

    reply = ModelReply(message=Message(role="assistant", content="Yes."), finish_reason="stop", usage=USAGE)
    with server_beside(Killing([reply])) as server:
        judge = f'model = "openai/judge", api_base = "{server.url}", api_key_env = "LHAW_TEST_KEY", price = {PRICE}'
        more = f'init = ["true"]\n[grader]\nkind = "judge"\njudge = {{{judge}}}'
        made = [COUNT, call("write_file", path="mood.txt", content="ask")]
        code, events = run({"bm-ask": made}, services="", more=more)
    (failed,) = events["TrialFailed"]
    assert (code, failed.boundary, failed.error_kind, failed.is_retry_owed) == (1, "grader", "route_gone", True)
    assert not events["CheckpointScored"]


def test_a_service_that_never_turns_green(run, images):
    """The trial fails at the sandbox before its agent says a word, names the service, and is owed again."""
    service = service_line(images["owncloud"], f"{URL}/broken")
    code, events = run([LOOK], services=service, more="health_seconds = 1.0")
    (failed,) = events["TrialFailed"]
    assert (code, failed.boundary, failed.error_kind) == (1, "sandbox", "service_unhealthy")
    assert failed.is_retry_owed
    assert f"{URL}/broken: HTTP 503; owncloud runs (its last output: " in failed.message
    assert not events["ModelCalled"]


def test_a_container_killed_in_mid_trial(run):
    """A container that something outside ends fails the trial at the sandbox, and it is owed again."""
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
    code, events = run([COUNT, call("bash", command="sleep 30")])
    killer.join()
    (failed,) = events["TrialFailed"]
    assert (code, failed.boundary, failed.error_kind) == (1, "sandbox", "container_killed")
    assert failed.is_retry_owed
    assert not events["CheckpointScored"]


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_service_that_dies_is_no_zero(run, images, neighbourhood, is_shared):
    """Where a service is gone when the grader comes, nothing is graded: the trial is owed again."""
    services = f'services_host = "the-office"\nnetwork = "{neighbourhood(images["company"])}"' if is_shared else None
    image, *whose = (images["company"],) if is_shared else (images["owncloud"], "--filter", OWN)

    def kill():
        for _ in range(600):
            alive = docker("ps", "--quiet", "--filter", f"ancestor={image}", *whose).stdout.split()
            ready = [name for name in own_names() if not docker("exec", name, "cat", "/workspace/count.txt").returncode]
            if alive and ready:
                docker("kill", *alive)
                return
            time.sleep(0.1)

    killer = threading.Thread(target=kill)
    killer.start()
    code, events = run([COUNT, call("bash", command="sleep 2")], services=services, more="health_seconds = 2.0")
    killer.join()
    (failed,) = events["TrialFailed"]
    assert (code, failed.boundary, failed.error_kind) == (1, "sandbox", "service_unhealthy")
