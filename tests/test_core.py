"""The core is read and runs alone: events, a journal and a store of one host need nothing else of ours."""

import subprocess
import sys
from pathlib import Path

RECORDER = """
import sys
from pathlib import Path

import anyio

from lhaw_record.recorder.events import ActionFinished, ActionStarted, TrialFailed
from lhaw_record.recorder.files.layout import FOLDERS, MARKER, marker
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.recorder import Recorder

root = Path(sys.argv[1])
for folder in FOLDERS:
    (root / folder).mkdir(parents=True)
(root / MARKER).write_bytes(marker())
started = ActionStarted(action_index=1, kind="tool", name="bash", arguments_json="{}", model_call_id=None)
finished = ActionFinished(action_index=1, is_error=False, result="done", duration_ms=1.0)


async def record():
    async with Recorder(Store(root), "demo") as recorder:
        stream = recorder.attempt("trial", 1)
        await stream.append(started)
        await stream.append(finished)
        assert [each.event for each in read_envelopes(root, "trial-1")] == [started, finished]


anyio.run(record)
events = [each.event for each in read_envelopes(root, "trial-1")]
assert events[:2] == [started, finished]
assert isinstance(events[2], TrialFailed)
print(*sorted(name for name in sys.modules if name.split(".")[0] == "lhaw_record"), sep="\\n")
"""
FILES = {
    *(
        "lhaw_record",
        "lhaw_record.recorder",
        "lhaw_record.recorder.errors",
        "lhaw_record.recorder.files",
        "lhaw_record.recorder.files.disk",
        "lhaw_record.recorder.files.layout",
    ),
    *(
        "lhaw_record.recorder.storage",
        "lhaw_record.recorder.storage.journal",
        "lhaw_record.recorder.storage.journal_format",
        "lhaw_record.recorder.storage.manifest",
    ),
    *(
        "lhaw_record.recorder.storage.segments",
        "lhaw_record.recorder.storage.store",
        "lhaw_record.recorder.storage.stream_index",
    ),
    *("lhaw_record.recorder.reading", "lhaw_record.recorder.reading.reader"),
    *("lhaw_record.recorder.writing", "lhaw_record.recorder.writing.recorder", "lhaw_record.recorder.writing.stream"),
}
"""What is loaded besides the events."""


def test_a_stream_is_written_and_read_with_the_core_only(tmp_path):
    """The product's recorder and reader work without redaction, sealing, shared stores, runners or analytics."""
    command = [sys.executable, "-c", RECORDER, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    assert {name for name in done.stdout.split() if not name.startswith("lhaw_record.recorder.events")} == FILES
