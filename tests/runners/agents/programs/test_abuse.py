"""A program that uses up its sandbox has ended its trial, as a native agent has; one that the host loses has not."""

import pytest

from lhaw_record.recorder.events import CheckpointScored, ModelFailed, TrialFailed
from lhaw_record.runners.agents.scripted import ScriptedModel
from lhaw_record.runners.environments.sandboxes.local.cgroups import Cgroup
from tests.runners.agents.programs.rigs import ended, of, scripted, trial_of
from tests.runners.agents.programs.test_bad_days import SANDBOXES
from tests.support.chat_server import chat_server
from tests.support.faults import Fault

KILLS_THE_DRIVER = "work(1)\nos.kill(os.getppid(), 9)\ntime.sleep(600)\n"


async def test_a_work_directory_without_bounds_is_graded(tmp_path):
    """Sparse files beyond what may be copied: every checkpoint fails with that reason."""
    source = "work(1)\nfor name in 'abc':\n    os.truncate(os.open(name, os.O_CREAT | os.O_WRONLY), 200 << 20)\n"
    events = await trial_of(tmp_path, scripted(tmp_path, source))
    assert ended(events) == "resource_abuse"
    assert not events[-1].is_success
    assert {event.score for event in of(events, CheckpointScored)} == {0.0}
    assert all("files of more than" in event.details for event in of(events, CheckpointScored))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("memory_kill", ["memory_limit", "memory_outside", ""])
async def test_a_lost_driver_is_the_programs_only_if_its_memory_was_used_up(tmp_path, monkeypatch, memory_kill):
    """The kernel's count of ends for want of memory decides: graded, or missing data that is owed again."""
    monkeypatch.setattr(Cgroup, "memory_kill", lambda _: memory_kill)
    events = await trial_of(tmp_path, scripted(tmp_path, KILLS_THE_DRIVER))
    if memory_kill == "memory_limit":
        assert ended(events) == "resource_abuse"
        assert {event.details for event in of(events, CheckpointScored)} == {
            "the sandbox is gone: the driver itself was killed for lack of memory"
        }
    else:
        assert isinstance(events[-1], TrialFailed)
        assert (events[-1].boundary, events[-1].is_retry_owed) == ("sandbox", True)
        assert not of(events, CheckpointScored)


HOLDS_A_CALL = """
import socket, threading, urllib.parse
history = work(TURNS)
def hold():
    try: ask(*history)
    except OSError: pass
threading.Thread(target=hold, daemon=True).start()
while True: pass
"""


@pytest.mark.thorough
@pytest.mark.sampled(3)
@pytest.mark.parametrize("turns", [1, 0])
@pytest.mark.parametrize("sandbox", ["namespaces", *SANDBOXES])
async def test_a_call_that_is_held_open_gives_no_time_to_work(tmp_path, sandbox, turns):
    """The clock does not stand still for a program that works meanwhile, also under its only call."""
    faults = [*[Fault(kind="slow", times=1, seconds=0.0)] * turns, Fault(kind="hang", times=None)]
    async with chat_server(lambda seed: ScriptedModel("scripted/balanced", seed), faults) as url:
        agent = {"model": "some-model", "api_base": url}
        limits = {"max_seconds": 4.0}
        source = HOLDS_A_CALL.replace("TURNS", str(turns))
        events = await trial_of(tmp_path, scripted(tmp_path, source), agent=agent, sandbox=sandbox, limits=limits)
    assert ended(events) == "time_limit"
    assert events[-1].charged_ms >= 4_000.0


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("code", "turns"), [(0, 1), (3, 1), (0, 0)])
async def test_who_hangs_up_has_given_up(tmp_path, code, turns):
    """An agent that leaves its call as soon as it is unhappy is graded, and not asked again."""
    source = f"""
import socket, urllib.parse
url = urllib.parse.urlsplit(BASE_URL)
messages = [{{"role": "user", "content": PROMPT}}, *work({turns})]
body = json.dumps({{"model": "m", "tools": TOOLS, "messages": messages}})
head = f"POST {{url.path}}/v1/chat/completions HTTP/1.1\\r\\nhost: x\\r\\nauthorization: Bearer {{TOKEN}}\\r\\n"
s = socket.create_connection((url.hostname, url.port))
s.sendall((head + f"content-length: {{len(body)}}\\r\\n\\r\\n" + body).encode())
time.sleep(0.5)
s.close()
sys.exit({code})
"""
    faults = [*[Fault(kind="slow", times=1, seconds=0.0)] * turns, Fault(kind="hang", times=1)]
    async with chat_server(lambda seed: ScriptedModel("scripted/balanced", seed), faults) as url:
        agent = {"model": "some-model", "api_base": url}
        events = await trial_of(tmp_path, scripted(tmp_path, source), agent=agent)
    assert ended(events) == "gave_up"
    assert [event.error_kind for event in of(events, ModelFailed)] == ["hung_up"]
    assert of(events, CheckpointScored)
