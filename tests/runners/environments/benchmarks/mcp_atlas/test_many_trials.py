"""Many trials at once on real servers: eight write to one file name at the same time, and each has its own."""

import asyncio
import json
import tempfile
from collections import defaultdict

from lhaw_record.recorder.events import ActionFinished, ActionStarted, ArtifactStored, TrialFinished, TrialStarted
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.blobs import load_blob
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import catalog
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.preparation import prepare
from lhaw_record.runners.runs.run import run_experiment
from tests.runners.environments.benchmarks.mcp_atlas.test_servers_with_faults import is_running
from tests.support.canned_model import text_reply, tool_reply
from tests.support.chat_server import ChatServer

TRIALS = 8
FILE = "/data/notes/same.txt"
SHARED = "what all of them began with"


class Together:
    """Holds everybody back until all have come."""

    def __init__(self, count):
        self._missing = count
        self._all = asyncio.Event()

    async def wait(self):
        """Come, and wait for the others."""
        self._missing -= 1
        if self._missing == 0:
            self._all.set()
        await self._all.wait()


class Writer:
    """An agent that reads the file, writes its number once all have read, and reads again once all have written."""

    def __init__(self, seed, have_read, have_written):
        self.name = "writer"
        self._seed = seed
        self._steps = (None, have_read, None, have_written)

    async def respond(self, request):
        """Do the next step."""
        step = sum(message.role == "assistant" for message in request.messages)
        if step == 1:
            await self._steps[1].wait()
        if step == 2:
            await self._steps[3].wait()
        path = json.dumps({"path": FILE})
        if step in (0, 2):
            return tool_reply((f"c{step}", "filesystem_read_text_file", path))
        if step == 1:
            content = json.dumps({"path": FILE, "content": f"trial {self._seed}"})
            return tool_reply((f"c{step}", "filesystem_write_file", content))
        return text_reply(f"It says: {request.messages[-1].content}")


def experiment_file(folder, url):
    """Write a row, its data, and an experiment of eight trials at once."""
    (folder / "data" / "notes").mkdir(parents=True)
    (folder / "data" / "notes" / "same.txt").write_text(SHARED)
    row = {
        "task": "same-file",
        "prompt": "Write your number into the file and read it.",
        "claims": ["The file says trial."],
        "enabled_tools": ["filesystem_read_text_file", "filesystem_write_file"],
        "required_servers": ["filesystem"],
    }
    (folder / "rows.jsonl").write_text(json.dumps(row))
    file = folder / "many.toml"
    file.write_text(
        f"""
        name = "many"
        conditions = ["full"]
        trials = {TRIALS}
        concurrency = {TRIALS}
        agents = [{{name = "writer", model = "writer", api_base = "{url}"}}]
        [benchmark]
        name = "mcp_atlas"
        rows = "rows.jsonl"
        data = "data"
        [limits]
        max_turns = 20
        max_actions = 100
        """
    )
    return file


async def recorded(tmp_path):
    """Run it; returns the events of each trial by their types."""
    have_read, have_written = Together(TRIALS), Together(TRIALS)
    async with ChatServer(lambda seed: Writer(seed, have_read, have_written)) as server:
        prepared = await asyncio.to_thread(prepare, experiment_file(tmp_path, server.url))
        summary = await run_experiment(prepared, tmp_path / "store", Reporter())
    assert (summary.finished, summary.failed) == (TRIALS, 0)
    trials = defaultdict(lambda: defaultdict(list))
    for envelope in read_envelopes(tmp_path / "store"):
        if envelope.trial_id is not None:
            trials[envelope.trial_id][type(envelope.event)].append(envelope.event)
    return list(trials.values())


async def test_trials_that_write_to_one_file_name_do_not_meet(core_servers, tmp_path, monkeypatch):
    """All eight have read before one writes, and written before one reads again: each reads what it wrote itself."""
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    trials = await recorded(tmp_path)
    for events in trials:
        (started,), (finished,) = events[TrialStarted], events[TrialFinished]
        assert finished.final_answer == f"It says: trial {started.seed}"
        results = [event.result for event in events[ActionFinished]]
        assert (results[0], results[2]) == (SHARED, f"trial {started.seed}")
        assert [event.name for event in events[ActionStarted]][1] == "filesystem_write_file"
    pids = {event.server_pid for events in trials for event in events[ActionFinished] if event.server}
    assert len(pids) == TRIALS
    assert not any(is_running(pid) for pid in pids)
    assert (tmp_path / "data" / "notes" / "same.txt").read_text() == SHARED
    assert list(copies.glob("lhaw-scratch-*")) == []
    _every_trial_says_which_servers_it_had(tmp_path, trials)


def _every_trial_says_which_servers_it_had(tmp_path, trials):
    """The package as installed and what the server says of itself, before the first action, in one blob for all."""
    stored = [events[ArtifactStored] for events in trials]
    assert {(only.name, only.role) for (only,) in stored} == {("servers.json", "environment")}
    (sha256,) = {only.sha256 for (only,) in stored}
    (server,) = json.loads(load_blob(Store(tmp_path / "store"), sha256))
    spec = catalog().servers["filesystem"]
    assert (server["server"], server["package"], server["version"]) == ("filesystem", spec.package, spec.version)
    assert server["says"]["name"] == "secure-filesystem-server"
    assert (server["tools"] > 10, server["is_confined"], server["has_network"]) == (True, True, False)
