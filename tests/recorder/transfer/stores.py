"""Stores to carry from one place to another, and the commands that do it."""

from lhaw_record.command_line import main
from lhaw_record.recorder.events import ArtifactStored
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.blobs import store_blob
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.transfer.export import contents, write_export
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.crash.workload import InProcess
from tests.recorder.stores import failed, record_streams


def all_events(root):
    """Every event, in order."""
    found = read_envelopes(root)
    return sorted(found, key=lambda each: (each.experiment_id, each.stream_id, each.sequence))


async def make_source(root, *experiments, rotate_bytes=6000):
    """Streams that lie in several segments, and an artifact."""
    store = create_store(root)
    for experiment in experiments:
        async with StoreRecorder(store, experiment, rotate_bytes=rotate_bytes, start_sealing=InProcess) as recorder:
            await record_streams(recorder, 4, 10)
            stream = recorder.stream(f"with-artifact-{experiment}", trial_id="ta", attempt=1)
            sha256 = store_blob(store, b"a patch\n")
            artifact = ArtifactStored(sha256=sha256, media_type="text/plain", size_bytes=8, role="patch", name="a")
            await stream.append(artifact, artifact, failed())
    return store


def export_to(store, path, *more):
    """Export to a file; return its path."""
    assert main(["log", "export", str(store.root), "-o", str(path), *more]) == 0
    return path


def import_from(source, root, *more):
    """Import into a store; return the exit code."""
    return main(["log", "import", str(source), "--store", str(root), *more])


def export_lines_of(store):
    """The lines of an export."""
    written = _Written()
    write_export(contents(store), written)
    return written.lines


class _Written:
    """Keeps the lines that were written."""

    def __init__(self):
        self.lines = []

    def write(self, line):
        self.lines.append(line)
