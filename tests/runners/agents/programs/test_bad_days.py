"""Programs that misbehave, and days on which what surrounds them does."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from textwrap import indent

import anyio
import pytest

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    ModelCalled,
    ModelFailed,
    ModelResponded,
    QuestionAnswered,
    QuestionAsked,
    TrialFailed,
    TrialFinished,
    TrialFlagged,
)
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.base.host.scratch import scratch_folder, sweep_scratch_folders
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.preparation import prepare
from lhaw_record.runners.runs.run import run_experiment
from tests.runners.agents.programs.rigs import described, ended, of, recorded, scripted, trial_of
from tests.support.chat_server import ChatServer, chat_server
from tests.support.faults import Fault
from tests.support.needs import needs

SANDBOXES = ("process", pytest.param("bubblewrap", marks=needs("bubblewrap")))

_ASKS_THE_USER = """
work(1)
params = {"name": "ask_user", "arguments": {"question": "When?"}}
message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
headers = {"content-type": "application/json", "authorization": "Bearer " + TOKEN}
headers["accept"] = "application/json, text/event-stream"
request = urllib.request.Request(BASE_URL + "/mcp", json.dumps(message).encode(), headers)
print(urllib.request.urlopen(request).read())
time.sleep(600)
"""


async def failed(folder, program, **more):
    """Boundary, kind and whether a retry is owed of a trial that failed, and the message."""
    last = (await trial_of(folder, program, **more))[-1]
    assert isinstance(last, TrialFailed), last
    return (last.boundary, last.error_kind, last.is_retry_owed), last.message


def is_running(mark):
    """Whether a process with a mark in its command line runs."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.thorough
async def test_a_program_that_never_stops_is_ended_with_all_it_started(tmp_path, sandbox):
    """The time limit ends it, and what it started in a session of its own; what it left is graded."""
    mark = f"7654{os.getpid()}"
    source = (
        "import subprocess\nmessage = ask()\n"
        f"subprocess.Popen(['sleep', '{mark}'], start_new_session=True)\n"
        "open('made.txt', 'w').write('x')\nwhile True: time.sleep(0.1)\n"
    )
    events = await trial_of(tmp_path, scripted(tmp_path, source), sandbox=sandbox, limits={"max_seconds": 10.0})
    assert ended(events) == "time_limit"
    assert events[-1].final_answer == ""
    assert not is_running(mark)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_what_forks_into_the_background_does_not_outlive_the_program(tmp_path, sandbox):
    """A child in a session of its own, whose parent has ended, neither holds the trial open nor lives on."""
    mark = f"8765{os.getpid()}"
    source = (
        "import subprocess\nask()\n"
        f"subprocess.Popen(['sh', '-c', 'setsid sleep {mark} & setsid sleep {mark} >/dev/null 2>&1 &'])\n"
        "time.sleep(0.3)\n"
    )
    events = await trial_of(tmp_path, scripted(tmp_path, source), sandbox=sandbox)
    assert ended(events) == "submitted"
    assert not is_running(mark)


@pytest.mark.thorough
async def test_a_program_that_only_forks_is_said_to_have_called_nobody(tmp_path):
    """A program must stay in the foreground: its child is ended with it before it has called its model."""
    source = "if os.fork(): sys.exit(0)\nos.setsid()\ntime.sleep(600)\nask()\n"
    found, message = await failed(tmp_path, scripted(tmp_path, source))
    assert found == ("sandbox", "program_no_call", True)
    assert "ended with exit code 0 and never got a reply" in message


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("source", "limits"),
    [("work(2)\n", {}), ("work(9)\n", {"max_turns": 2}), ("ask()\ntime.sleep(600)\n", {"max_seconds": 3.0})],
    ids=["submitted", "turn limit", "time limit"],
)
async def test_a_model_that_was_never_offered_a_way_to_ask_is_missing_data(tmp_path, source, limits):
    """It cannot ask, so its trial says nothing about asking, however it ended."""
    program = scripted(tmp_path, source, asks_by="mcp")
    found, message = await failed(tmp_path, program, conditions=("ask_user",), limits=limits)
    assert found == ("sandbox", "asking_not_offered", False)
    assert "lhaw-record agents test" in message


@pytest.mark.thorough
async def test_a_program_that_asks_by_itself_was_offered_a_way(tmp_path):
    """A question that arrived counts, though no request of its model had the tool."""
    program = scripted(tmp_path, _ASKS_THE_USER.replace("time.sleep(600)", "work(1)"), asks_by="mcp")
    events = await trial_of(tmp_path, program, conditions=("ask_user",))
    assert ended(events) == "submitted"
    assert len(of(events, QuestionAsked)) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_what_is_written_to_home_is_gone_afterwards(tmp_path, sandbox):
    """HOME is the trial's own and no part of the work directory: nothing of it is graded, and nothing stays."""
    source = (
        "ask()\nhome = os.environ['HOME']\n"
        "os.makedirs(home + '/deep/locked')\nopen(home + '/deep/locked/x', 'w').write('x' * 100000)\n"
        "os.chmod(home + '/deep/locked', 0)\nprint(home, os.getcwd())\n"
    )
    events = await trial_of(tmp_path, scripted(tmp_path, source, answer="stdout"), sandbox=sandbox)
    home, work_dir = events[-1].final_answer.split()
    assert not home.startswith(work_dir)
    assert home != os.environ.get("HOME")
    assert not os.path.exists(home)  # noqa: ASYNC240, PTH110  a look


async def test_the_environment_of_the_host_stays_out(tmp_path, monkeypatch):
    """A program gets what its entry says beside a fixed environment, and nothing of ours."""
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-host")
    source = "ask()\nprint(sorted(os.environ), os.environ['MINE'])\n"
    program = scripted(tmp_path, source, answer="stdout", environment={"MINE": "at {base_url_v1}"})
    answer = (await trial_of(tmp_path, program))[-1].final_answer
    assert "OPENAI_API_KEY" not in answer
    assert "'HOME', 'LANG'" in answer
    assert "at http://127.0.0.1:" in answer


@pytest.mark.thorough
async def test_a_token_cannot_be_taken_for_an_option(tmp_path):
    """A program gets its token behind an option of its own: a hyphen at its front would end one trial in 64."""
    program = scripted(tmp_path, "work(1)\nprint(''.join(sorted(set(TOKEN))))\n", answer="stdout")
    (end,) = of(await trial_of(tmp_path, program), TrialFinished)
    assert set(end.final_answer.strip()) <= set("0123456789abcdef")


async def test_a_crash_after_work_is_the_agents_own(tmp_path):
    """It is graded as given up, with its actions; what it printed is kept."""
    events = await trial_of(tmp_path, scripted(tmp_path, "work(2)\nraise KeyError('x')\n"))
    assert ended(events) == "gave_up"
    assert events[-1].action_count == len(of(events, ActionStarted)) > 2
    (output,) = [event for event in events if getattr(event, "role", None) == "program_output"]
    assert output.name == "stderr.txt"
    assert b"KeyError: 'x'" in (tmp_path / "store" / "blobs" / output.sha256[:2] / output.sha256).read_bytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_declared", [False, True])
async def test_a_program_that_shows_nothing_of_what_it_did_is_flagged_or_declared(tmp_path, is_declared):
    """A run says how many trials are flagged; with the right key in the entry none is, and every reply counts."""
    program = scripted(tmp_path, "for n in range(5):\n    PROMPT += ' ' + str(n)\n    ask()\n")
    text = described({**program, **({"threads": {"step": "request"}} if is_declared else {})})
    summary, (events,) = await recorded(tmp_path, text)
    flags = [event.flag for event in of(events, TrialFlagged)]
    assert (summary.finished, summary.flagged) == (1, not is_declared)
    assert flags == ([] if is_declared else ["actions_uncounted"])
    replies = [len(event.tool_calls) or 1 for event in of(events, ModelResponded) if event.role == "agent"]
    assert events[-1].action_count == (sum(replies) if is_declared else replies[-1])


async def test_a_program_that_cannot_be_started_failed_at_the_sandbox(tmp_path):
    """No retry is owed, and the message says what to look at."""
    path = tmp_path / "program"
    path.write_text("no program")
    found, message = await failed(tmp_path, {"command": [str(path)]})
    assert found == ("sandbox", "program_start", False)
    assert "Permission denied; is it below /usr" in message


@pytest.mark.thorough
async def test_a_program_of_another_wire_than_its_entry_says_is_refused(tmp_path):
    """An entry that is wrong is not measured."""
    found, message = await failed(tmp_path, scripted(tmp_path, "ask()\n", wire="messages"))
    assert found == ("sandbox", "program_wire", False)
    assert "used chat" in message


async def test_the_turn_limit_refuses_for_good_and_what_was_done_counts(tmp_path):
    """After so many replies the next request gets a final error; the results in it are recorded all the same."""
    source = (
        "try:\n    work(9)\nexcept urllib.error.HTTPError as error:\n"
        "    print(error.code, json.loads(error.read())['error']['message'])\n"
    )
    events = await trial_of(tmp_path, scripted(tmp_path, source), limits={"max_turns": 3})
    assert ended(events) == "turn_limit"
    assert len(of(events, ModelCalled)) == 3
    assert [event.result for event in of(events, ActionFinished)] == ["done"] * events[-1].action_count
    (output,) = [event for event in events if getattr(event, "role", None) == "program_output"]
    said = (tmp_path / "store" / "blobs" / output.sha256[:2] / output.sha256).read_text()
    assert said.startswith("403 the trial has used its 3 replies")


async def test_the_cost_limit_counts_every_call(tmp_path):
    """What the trial's calls cost together is bounded; the scripted model has a price."""
    more = "[budget]\nmax_cost_usd_per_trial = 0.002\n"
    events = await trial_of(tmp_path, scripted(tmp_path, "work(9)\n"), more=more)
    assert ended(events) == "cost_limit"
    assert 0.002 <= events[-1].cost_usd < 0.01


async def test_a_program_that_goes_on_after_its_limit_is_ended(tmp_path, monkeypatch):
    """It has a moment to end in order, and is ended then."""
    monkeypatch.setattr("lhaw_record.runners.agents.programs.agent._GRACE_S", 0.5)
    source = "while True:\n    try: work(5)\n    except urllib.error.HTTPError: time.sleep(0.05)\n"
    began = time.monotonic()
    events = await trial_of(tmp_path, scripted(tmp_path, source), limits={"max_turns": 2, "max_seconds": 600.0})
    assert ended(events) == "turn_limit"
    assert time.monotonic() - began < 300


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "found"), [("server_error", ("server_error", True)), ("unauthorised", ("endpoint_down", True))]
)
async def test_a_provider_that_fails_is_the_models_fault(tmp_path, kind, found):
    """However the program takes it, the trial failed at the model, with a retry owed where that can help."""
    from lhaw_record.runners.agents.scripted import ScriptedModel

    source = "work(1)\ntry: work(2)\nexcept urllib.error.HTTPError: sys.exit(0)\n"
    faults = [Fault(kind=kind, times=None)]
    async with chat_server(lambda seed: ScriptedModel("scripted/balanced", seed), faults) as url:
        agent = {"model": "some-model", "api_base": url}
        (boundary, *rest), _ = await failed(tmp_path, scripted(tmp_path, source), agent=agent)
    assert (boundary, *rest) == ("model", *found)


async def test_forged_keys_and_tokens_find_nothing(tmp_path):
    """Another trial's address, a wrong token, the listener's root: all 404, and the trial goes on."""
    source = """
found = []
def status(path, token=TOKEN):
    try: post(path, {}, token)
    except urllib.error.HTTPError as error: found.append(error.code)
ask()
base, own = BASE_URL.rsplit("/", 1)
status("/v1/chat/completions", "forged")
status("/mcp", "forged")
BASE_URL = base + "/" + own[:-1] + ("A" if own[-1] != "A" else "B")
status("/v1/chat/completions")
BASE_URL = base.removesuffix("/t")
for path in ("/", "/api/experiments", "/openapi.json", "/t/"): status(path)
print(found)
"""
    events = await trial_of(tmp_path, scripted(tmp_path, source, answer="stdout"))
    assert (ended(events), events[-1].final_answer) == ("submitted", str([404] * 7))


async def test_a_broken_simulated_user_ends_the_trial_at_once(tmp_path, monkeypatch):
    """No answer is invented: the program is ended, and the trial failed at the user simulator."""
    from lhaw_record.runners.users.simulated_user.answers import ExactSimulator

    async def answer(*_):
        raise RuntimeError("simulator down")

    monkeypatch.setattr(ExactSimulator, "answer", answer)
    program = scripted(tmp_path, _ASKS_THE_USER, asks_by="mcp")
    found, _ = await failed(tmp_path, program, conditions=("ask_user",), limits={"max_seconds": 900.0})
    assert found == ("user_simulator", "crash", True)


async def test_a_run_that_is_stopped_in_the_middle_closes_its_trials(tmp_path):
    """A call that waits for its model is recorded as left, then the trial as interrupted; nothing comes after that."""
    from lhaw_record.runners.agents.scripted import ScriptedModel

    path = tmp_path / "experiment.toml"
    async with ChatServer(lambda seed: ScriptedModel("scripted/balanced", seed), [Fault(kind="hang")]) as server:
        agent = {"model": "some-model", "api_base": server.url}
        path.write_text(described(scripted(tmp_path, "ask()\n"), agent=agent, limits={"max_seconds": 900.0}))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_experiment, prepare(path), tmp_path / "store", Reporter())
            await server.has_received.wait()
            tasks.cancel_scope.cancel()
    assert verify(tmp_path / "store").findings == ()
    events = [envelope.event for envelope in read_envelopes(tmp_path / "store")]
    assert [event.error_kind for event in of(events, ModelFailed)] == ["client_gone"]
    (end,) = of(events, TrialFailed)
    assert (end.boundary, end.error_kind, end.is_retry_owed) == ("recorder", "interrupted", True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_patient", [False, True], ids=["waits", "goes on"])
async def test_an_answer_that_does_not_come_is_missing_data(tmp_path, monkeypatch, is_patient):
    """A program that waits for the simulated user is ended with our patience; one that goes on does not count."""
    from lhaw_record.runners.users.simulated_user.answers import ExactSimulator

    async def answer(*_):
        await anyio.sleep(3600)

    monkeypatch.setattr(ExactSimulator, "answer", answer)
    monkeypatch.setattr("lhaw_record.runners.agents.programs.agent._GRACE_S", 0.2)
    source = _ASKS_THE_USER.replace("time.sleep(600)", "")
    if is_patient:
        source = source.replace("urlopen(request)", "urlopen(request, timeout=1)").replace("\nprint", "\ntry: print")
        source += "except TimeoutError: sys.exit(0)\n"
    program = scripted(tmp_path, source, asks_by="mcp")
    more = "patience_s = 2.0\n" if not is_patient else ""
    events = await trial_of(tmp_path, program, conditions=("ask_user",), limits={"max_seconds": 60.0}, retry=more)
    (end,) = of(events, TrialFailed)
    assert (end.boundary, end.error_kind, end.is_retry_owed) == ("user_simulator", "timeout", True)
    assert len(of(events, QuestionAsked)) == 1
    assert not of(events, QuestionAnswered)


@pytest.mark.thorough
async def test_the_time_that_a_provider_fails_is_not_the_programs(tmp_path):
    """A program repeats failed calls and pauses between them: only what it computes meanwhile is charged to it."""
    from lhaw_record.runners.agents.scripted import ScriptedModel

    source = """
work(1)
for attempt in range(4):
    try:
        ask()
        break
    except urllib.error.HTTPError: time.sleep(1)
"""
    faults = [Fault(kind="slow", seconds=0.0), *[Fault(kind="rate_limit", retry_after="1")] * 3]
    async with chat_server(lambda seed: ScriptedModel("scripted/balanced", seed), faults) as url:
        agent = {"model": "some-model", "api_base": url}
        program = scripted(tmp_path, source)
        events = await trial_of(tmp_path, program, agent=agent)
    assert ended(events) == "submitted"
    assert events[-1].waited_ms >= 2000, "three seconds, less the processor time of the program in them"
    assert events[-1].charged_ms <= events[-1].duration_ms - events[-1].waited_ms


@pytest.mark.thorough
@pytest.mark.parametrize("is_slow", [True, False], ids=["slow", "silent"])
async def test_a_slow_provider_is_the_models_and_a_silent_one_missing_data(tmp_path, is_slow):
    """A reply that takes longer than the program's own time ends it as time_limit; none at all, at the model."""
    from lhaw_record.runners.agents.scripted import ScriptedModel

    late = Fault(kind="slow", seconds=7.5) if is_slow else Fault(kind="hang")
    async with chat_server(lambda seed: ScriptedModel("scripted/balanced", seed), [late]) as url:
        agent = {"model": "some-model", "api_base": url}
        program = scripted(tmp_path, "ask()\ntime.sleep(600)\n")
        retry = "request_timeout_s = 300.0\n" if is_slow else "request_timeout_s = 7.5\npatience_s = 8.0\n"
        events = await trial_of(tmp_path, program, agent=agent, limits={"max_seconds": 6.0}, retry=retry)
    if is_slow:
        assert ended(events) == "time_limit"
        assert events[-1].charged_ms + events[-1].late_ms >= 7500, "what the recorder was late is not charged"
    else:
        (end,) = of(events, TrialFailed)
        assert (end.boundary, end.error_kind) == ("model", "timeout")


@pytest.mark.thorough
async def test_a_trial_that_failed_waits_for_no_answer(tmp_path, monkeypatch):
    """A trial whose model failed ends while a question of it is open, though an answer would have an hour's grace."""
    from lhaw_record.runners.agents.scripted import ScriptedModel
    from lhaw_record.runners.users.simulated_user.answers import ExactSimulator

    async def answer(*_):
        await anyio.sleep_forever()

    monkeypatch.setattr(ExactSimulator, "answer", answer)
    monkeypatch.setattr("lhaw_record.runners.agents.programs.agent._GRACE_S", 3600.0)
    asks = _ASKS_THE_USER.removeprefix("\nwork(1)\n").removesuffix("time.sleep(600)\n")
    source = f"import threading\nwork(1)\ndef asks():\n{indent(asks, '    ')}\n"
    source += "threading.Thread(target=asks, daemon=True).start()\ntime.sleep(1)\nwork(1)\n"
    program = scripted(tmp_path, source, asks_by="mcp")
    faults = [Fault(kind="slow", times=1, seconds=0.0), Fault(kind="server_error", times=None)]
    async with chat_server(lambda seed: ScriptedModel("scripted/balanced", seed), faults) as url:
        agent = {"model": "some-model", "api_base": url}
        with anyio.fail_after(600):
            events = await trial_of(tmp_path, program, agent=agent, conditions=("ask_user",))
    assert [event.boundary for event in of(events, TrialFailed)] == ["model"]
    assert (len(of(events, QuestionAsked)), of(events, QuestionAnswered)) == (1, [])


_KILLED = """
import os, signal, sys
import anyio
from pathlib import Path
from lhaw_record.runners.runs.preparation import prepare
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.run import run_experiment

anyio.run(run_experiment, prepare(Path(sys.argv[1])), Path(sys.argv[2]), Reporter())
"""


@pytest.fixture
def short_folder():
    """A folder for temporary files: the path of a socket in it may have 107 letters."""
    with tempfile.TemporaryDirectory(prefix="lhaw-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.thorough
def test_what_a_killed_run_left_is_cleaned_by_the_next_start(tmp_path, short_folder, monkeypatch, sandbox):
    """After SIGKILL no process of the program lives on, and the next start removes every folder that was left."""
    mark = f"9876{os.getpid()}"
    source = (
        f"import subprocess\nask()\nsubprocess.Popen(['sleep', '{mark}'], start_new_session=True)\ntime.sleep(600)\n"
    )
    path = tmp_path / "experiment.toml"
    path.write_text(described(scripted(tmp_path, source), sandbox=sandbox, limits={"max_seconds": 900.0}))
    environment = {**os.environ, "TMPDIR": str(short_folder)}
    command = [sys.executable, "-c", _KILLED, str(path), str(tmp_path / "store")]
    with subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[4]) as run:
        try:
            _until(lambda: is_running(mark) or run.poll() is not None)
            assert run.poll() is None
        finally:
            run.kill()
    _until(lambda: not is_running(mark))
    monkeypatch.setattr("tempfile.tempdir", str(short_folder))
    assert list(short_folder.iterdir())
    with scratch_folder() as mine:
        sweep_scratch_folders(now_s=time.time() + 3600)
        assert list(short_folder.iterdir()) == [mine]
    (report,) = recover(Store(tmp_path / "store"))
    assert report.closed_streams


def _until(is_true):
    deadline = time.monotonic() + 600
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
