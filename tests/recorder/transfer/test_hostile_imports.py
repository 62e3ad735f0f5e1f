"""Imports by nobody's friend: what a file says of itself names nothing on this host, and cannot fill its memory."""

import base64
import gzip
import hashlib
import json
import os
import subprocess
import sys

import anyio
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lhaw_record.command_line import main
from lhaw_record.recorder.errors import DamagedStore, RecorderError, RecordingFailed
from lhaw_record.recorder.storage.blobs import load_blob, store_blob
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.transfer.import_file import ImportLimits, export_lines, read_export
from lhaw_record.recorder.transfer.import_streams import import_streams
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.recorder.transfer.stores import export_lines_of, import_from, make_source
from tests.support.depth import at_depth

SHA256 = hashlib.sha256(b"a patch\n").hexdigest()
ESCAPES = [
    "../../../../../../etc/passwd",
    "/etc/passwd",
    "/dev/zero",
    "..",
    "",
    SHA256.upper(),
    SHA256 + "\n",
    SHA256[:-1],
    f"{SHA256[:62]}/.",
    "x" * 64,
]
IDS = ["../x", "a/b", "..", ".hidden", "-option", "a b", "a\0b", "a\nb", "é", "", "x" * 256, "*", "$(id)"]


def sealed(lines):
    """The lines of an export whose last line counts and sums as it should, whoever wrote the others."""
    body = b"".join(lines)
    found = [json.loads(line) for line in lines]
    streams = {str((each.get("experiment_id"), each["stream_id"])) for each in found if "stream_id" in each}
    end = {
        "events": sum("stream_id" in each for each in found),
        "streams": len(streams),
        "blobs": sum("blob" in each for each in found),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    return body + json.dumps({"end": end}, separators=(",", ":")).encode() + b"\n"


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """The lines of an export with one artifact, without the last."""
    found = export_lines_of(anyio.run(make_source, tmp_path_factory.mktemp("source") / "store", "one"))[:-1]
    return [line for line in found if b'"stream_id":"s' not in line]


def changed(lines, change):
    """The lines, with a function applied to the event of each that has one."""
    new = []
    for line in lines:
        content = json.loads(line)
        if "stream_id" in content:
            change(content)
        new.append(json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
    return new


def refused(tmp_path, content, capsys):
    """What is said of an import that is refused; the streams before are in the store, and nothing lies elsewhere."""
    path = tmp_path / "import.jsonl"
    path.write_bytes(content)
    before = {each.name for each in tmp_path.iterdir()}
    assert import_from(path, tmp_path / "target") in (1, 3)
    assert {each.name for each in tmp_path.iterdir()} - before <= {"target"}
    assert main(["log", "verify", str(tmp_path / "target")]) == 0
    said = capsys.readouterr().err
    assert path.name in said
    return said


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sha256", ESCAPES)
def test_a_digest_that_is_none_is_refused(tmp_path, lines, capsys, sha256):
    """A path, a device or another spelling in the place of an artifact's SHA-256 stops the import, with its line."""

    def change(content):
        if content["event"]["type"] == "artifact_stored":
            content["event"]["sha256"] = sha256

    assert "line" in refused(tmp_path, sealed(changed(lines, change)), capsys)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("key", ["stream_id", "trial_id", "writer_id", "experiment_id"])
@pytest.mark.parametrize("name", IDS)
def test_an_id_that_names_a_path_is_refused(tmp_path, lines, capsys, key, name):
    """Ids become names of files and folders somewhere: nothing but plain names comes in."""
    content = changed(lines, lambda each: each.update({key: name}) if key in each else None)
    assert "line" in refused(tmp_path, sealed(content), capsys)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("key", "number"),
    [("attempt", 2**40), ("version", 2**31), ("sequence", -1), ("recorded_at_us", 2**62), ("elapsed_ns", 10**400)],
)
def test_a_number_that_no_file_takes_is_refused(tmp_path, lines, capsys, key, number):
    """A number that Parquet or a calendar cannot hold is found at its line, and not when a journal is to be sealed."""
    content = changed(lines, lambda each: each.update({key: number}))
    refused(tmp_path, sealed(content), capsys)


def test_deep_nesting_and_repeated_keys_are_refused(tmp_path, lines, capsys):
    """Brackets without end and a key that stands twice are no events."""
    deep = lines[2].replace(b'"event":{', b'"x":' + b"[" * 100_000 + b"]" * 100_000 + b',"event":{', 1)
    body = b"".join([lines[0], deep])
    refused(tmp_path, body, capsys)
    twice = lines[2].replace(b'"sequence":0', b'"sequence":7,"sequence":0', 1)
    assert twice != lines[2]
    assert "was changed" in refused(tmp_path, b"".join([lines[0], twice]), capsys)


def test_ids_of_our_own_are_held_to_the_same(tmp_path):
    """What no reader would take is not written either."""
    recorder = StoreRecorder(create_store(tmp_path / "store"), "one")
    with pytest.raises(RecordingFailed, match="cannot name"):
        recorder.stream("../x")


@pytest.fixture
def store(tmp_path):
    """A store with one artifact."""
    made = create_store(tmp_path / "store")
    store_blob(made, b"a patch\n")
    return made


@pytest.mark.parametrize("sha256", ESCAPES)
def test_no_name_leads_out_of_the_folder_of_artifacts(store, sha256):
    """Whatever an event says, only a file of that folder is read."""
    with pytest.raises(DamagedStore, match="not the name of an artifact"):
        load_blob(store, sha256)


def test_neither_links_nor_devices_are_read(tmp_path, store):
    """A symbolic link in the place of an artifact, or of its folder, and a FIFO, are no artifacts; nobody waits."""
    path = store.blobs_dir / SHA256[:2] / SHA256
    secret = tmp_path / "secret"
    secret.write_bytes(b"of the host")
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(DamagedStore, match="not a regular file"):
        load_blob(store, SHA256)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DamagedStore, match="not a regular file"):
        load_blob(store, SHA256)
    path.unlink()
    path.parent.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / SHA256).write_bytes(b"of the host")
    path.parent.symlink_to(elsewhere)
    with pytest.raises(DamagedStore, match="not a regular file"):
        load_blob(store, SHA256)


@pytest.mark.thorough
def test_a_bomb_takes_no_memory(tmp_path):
    """100 KB that unpack to one line of 1 GB are refused with the option that takes more, and never held in memory.

    The kernel is the judge: it says how much memory the command had at most, without what its parent had (ru_maxrss
    begins with that).
    """
    path = tmp_path / "bomb.jsonl.zst"
    with pa.output_stream(str(path), compression="zstd") as out:
        out.write(b'{"export":{"format":2}}\n')
        for _ in range(64):
            out.write(bytes(1 << 24))
    assert path.stat().st_size < 200_000
    program = (
        "import re, sys; from pathlib import Path; from lhaw_record.command_line import main; "
        "status = main(['log', 'import', sys.argv[1], '--store', sys.argv[2], '--max-stream-mb', '8']); "
        "print(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]); sys.exit(status)"
    )
    command = [sys.executable, "-c", program, path, tmp_path / "target"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    for part in (path.name, "line 2", "8 MB", "--max-stream-mb"):
        assert part in done.stderr
    assert int(done.stdout) < 500_000


@pytest.mark.parametrize(
    ("limits", "option"),
    [
        (ImportLimits(stream_events=2), "--max-stream-events"),
        (ImportLimits(stream_mb=0), "--max-stream-mb"),
        (ImportLimits(total_mb=0), "--max-total-mb"),
    ],
)
def test_each_limit_names_its_option(tmp_path, lines, limits, option):
    """What is too large is refused with file, line, limit and the option that takes more."""
    path = tmp_path / "export.jsonl.gz"
    path.write_bytes(gzip.compress(sealed(lines)))
    with pytest.raises(RecorderError, match=rf"{path.name}.*line \d.*{option}"), export_lines(path, limits) as found:
        import_streams(None, read_export(found, str(path), limits), is_dry_run=True)


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(ESCAPES + IDS),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


@settings(max_examples=at_depth(60, 240), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_put_into_an_export_is_refused_or_stored_whole(tmp_path, lines, data):
    """Junk in any place of any line ends in an error of ours or in whole streams; nothing lies outside of the store."""
    new = list(lines)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(new) - 1))
        content = json.loads(new[place])
        outer = data.draw(st.sampled_from(sorted(content)))
        inner = content[outer] if isinstance(content[outer], dict) and content[outer] else content
        inner[data.draw(st.sampled_from(sorted(inner)))] = data.draw(JUNK)
        new[place] = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    folder = tmp_path / hashlib.sha256(b"".join(new)).hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    path = folder / "import.jsonl"
    path.write_bytes(sealed(new))
    status = import_from(path, folder / "target")
    assert status in (0, 1, 3)
    assert sorted(each.name for each in folder.iterdir()) == ["import.jsonl", "target"]
    if status == 0:
        assert main(["log", "verify", str(folder / "target")]) in (0, 3)


def test_an_artifact_is_what_its_name_says(tmp_path, capsys):
    """Bytes under another digest than theirs are refused at their line."""
    blob = {"blob": {"sha256": SHA256, "base64": base64.b64encode(b"other").decode()}}
    lines = [b'{"export":{"format":2}}\n', json.dumps(blob, separators=(",", ":")).encode() + b"\n"]
    assert "line 2" in refused(tmp_path, sealed(lines), capsys)
