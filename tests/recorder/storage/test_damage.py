"""Whatever happens to one file of a store, every command that reads it ends with a status and a message."""

import re
import shutil
from random import Random

import anyio
import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.events import ActionFinished, ArtifactStored
from lhaw_record.recorder.inspection.stat import stat
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.blobs import store_blob
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.journal import read_journal
from lhaw_record.recorder.storage.manifest import append, read_entries
from lhaw_record.recorder.storage.manifest_check import find_problems
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.crash.workload import InProcess
from tests.recorder.stores import record_streams, started
from tests.support.depth import at_depth

READERS = (
    ["log", "stat"],
    ["log", "tail"],
    ["trials"],
    ["sql", "-c", "select count(*) from events"],
    ["show", "open"],
    ["note"],
    ["log", "export", "-o", "{store}.jsonl"],
    ["log", "recover"],
    ["log", "compact"],
)
SLOW_READERS = (["tables", "overall"], ["findings"], ["report", "-o", "{store}.html"], ["compare", "a", "b"])
DERIVED = ("index", "locks")
"""Folders whose files may be deleted: nothing is lost with them."""


@pytest.fixture
def original(tmp_path):
    """A store with a merged segment, an artifact, and the journal of a dead writer, which the last line announces."""
    anyio.run(_record, tmp_path)
    return tmp_path / "original"


async def _record(folder):
    store = create_store(folder / "store")
    async with StoreRecorder(store, "exp", rotate_bytes=6_000, start_sealing=InProcess) as recorder:
        await record_streams(recorder, 4, 8)
    compact(store, grace_s=0.0)
    async with StoreRecorder(store, "exp", start_sealing=InProcess) as recorder:
        sha256 = store_blob(store, b"a report\n")
        stored = ArtifactStored(name="report.md", role="patch", sha256=sha256, size_bytes=9, media_type="text/plain")
        stream = recorder.stream("open", trial_id="t-open", attempt=1)
        await stream.append(started(1), stored)
        await stream.append(ActionFinished(action_index=1, is_error=False, result="done", duration_ms=1.0))
        shutil.copytree(store.root, folder / "original")


def _attacks(root, chance, count):
    """Yield the name of an attack, the file, and its bytes after it; None is a file that is gone."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    for line in range(len((root / "manifest.jsonl").read_bytes().splitlines())):
        lines = (root / "manifest.jsonl").read_bytes().splitlines(keepends=True)
        yield f"line {line} gone", root / "manifest.jsonl", b"".join(lines[:line] + lines[line + 1 :])
    for path in files:
        yield "gone", path, None
    for _ in range(count):
        path = chance.choice([each for each in files if each.stat().st_size])
        data = bytearray(path.read_bytes())
        place = chance.randrange(len(data))
        yield f"cut at {place}", path, bytes(data[:place])
        bit = chance.choice([7, chance.randrange(8)])
        data[place] ^= 1 << bit
        yield f"bit {bit} of byte {place} flipped", path, bytes(data)


def _run(command, store, capsys):
    """Run a command on a store, and return its exit code and what it wrote."""
    words = [word.format(store=store) for word in command]
    place = 2 if words[0] == "log" else 1
    code = main([*words[:place], str(store), *words[place:]])
    return code, "".join(capsys.readouterr())


def _damaged(original, store, path, data):
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(original, store)
    file = store / path.relative_to(original)
    file.unlink()
    if data is not None:
        file.write_bytes(data)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(at_depth(16, 64)))
def test_every_damage_is_named_and_every_command_ends(original, tmp_path, capsys, seed):
    """One flipped bit, a cut, a line or a file that is gone: verify names the file, nothing dies, repair goes on."""
    store = tmp_path / "damaged"
    for name, path, data in list(_attacks(original, Random(seed), 6))[seed % 8 :: 8]:
        _damaged(original, store, path, data)
        file = path.relative_to(original)
        is_harmless = (
            (file.suffix in (".json", ".jsonl") and data and data.strip() == path.read_bytes().strip())
            or (file.parts[0] in DERIVED and (data is None or not path.stat().st_size))
            or (
                file.suffix == ".mark" and not data  # a mark is not synced: a power cut may leave none, or an empty one
            )
        )
        code, said = _run(["log", "verify"], store, capsys)
        assert code == (0 if is_harmless else 3), (name, file, said)
        assert is_harmless or path.name in said or "is damaged" in said, (name, file, said)
        statuses = {}
        for command in READERS:
            code, said = _run(command, store, capsys)
            statuses[command[-1]] = code
            assert code in (0, 1, 3), (name, file, command)
            assert code < 3 or re.search("restore|repair|verify|leave", said), (name, file, command, said)
        assert (statuses["stat"] == 3) >= (statuses["trials"] == 3), (name, file)
        promised = _run(["log", "repair", "--accept-loss", "--dry-run"], store, capsys)
        code, said = _run(["log", "repair", "--accept-loss"], store, capsys)
        assert code == 0, (name, file, said)
        assert said == promised[1] if promised[0] == 0 else file.name in said, (name, file)
        assert len(re.findall(rf"(?m)^\S*{re.escape(file.name)} ", said)) <= 1, (name, file, said)
        assert find_problems(Store(store)) == [], (name, file)
        assert _run(["trials"], store, capsys)[0] in (0, 1), (name, file)


@pytest.mark.thorough
@pytest.mark.parametrize("place", range(0, 3_000, 97))
def test_no_byte_of_the_manifest_ends_a_report(original, tmp_path, capsys, place):
    """A byte that is no UTF-8 ends tables, findings, report and compare with one message that says what to do."""
    path = original / "manifest.jsonl"
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 0x80
    _damaged(original, tmp_path / "damaged", path, bytes(data))
    for command in SLOW_READERS:
        code, said = _run(command, tmp_path / "damaged", capsys)
        assert code == 3
        assert "log repair --accept-loss" in said


def test_the_last_line_of_a_journal_is_missed(original, capsys):
    """A journal with events that no line announces is not taken for all there is; one without events may be new."""
    path = original / "manifest.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    assert b'"kind":"journal"' in lines[-1]
    path.write_bytes(b"".join(lines[:-1]))
    code, said = _run(["trials"], original, capsys)
    assert code == 3
    assert "manifest.jsonl has lost the line that announced" in said
    assert _run(["log", "repair", "--accept-loss"], original, capsys)[0] == 0
    assert verify(original).findings == ()
    assert verify(original).events == len(read_envelopes(original)) > 70


def test_what_is_before_the_damage_in_a_journal_stays(original, capsys):
    """Repair keeps its first commits and the damaged file, and closes the streams that went on."""
    (path,) = Store(original).journals().values()
    data = bytearray(path.read_bytes())
    data[-60] ^= 1
    path.write_bytes(data + data[-20:])
    first = read_journal(path, bytes(data[: data.rfind(b"\xc1LHW")]))
    promised = _run(["log", "repair", "--accept-loss", "--dry-run"], original, capsys)
    assert "was cut: " in promised[1]
    assert _run(["log", "repair", "--accept-loss"], original, capsys) == promised
    assert [each.sequence for each in read_envelopes(original, "open")] == list(range(len(first.payloads) + 1))
    assert verify(original).findings == ()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_known", [False, True], ids=["foreign", "adopted"])
def test_a_stream_that_a_restored_backup_has_too_counts_once(tmp_path, capsys, is_known):
    """The backup went on and recorded the same trials: what is twice is refused, and repaired by moving away."""
    store, backup = tmp_path / "store", tmp_path / "backup"
    create_store(store)
    shutil.copytree(store, backup)
    for root, count in ((store, 2), (backup, 3)):
        anyio.run(recorded_in, root, count)
    shutil.copytree(backup / "events", store / "events", dirs_exist_ok=True)
    for entry in read_entries(Store(backup))[0] if is_known else ():  # an earlier repair adopted the file
        append(Store(store), entry)
    assert main(["sql", str(store), "-c", "select count(*) from events"]) != 0
    assert ("stream s0 exists twice" if is_known else "not in") in capsys.readouterr().err
    streams = stat(store).streams
    assert (streams.closed, streams.interrupted, streams.repeated) == (3, 0, 2)
    assert main(["log", "stat", str(store)]) == 3
    assert "2 streams are stored more than once; 'log verify' names their files" in capsys.readouterr().err
    assert main(["log", "repair", str(store), "--accept-loss"]) == 0
    assert "shares 2 of 3 streams with other segments, such as s0" in capsys.readouterr().out
    assert verify(store).findings == ()
    assert len(list((store / "damaged").iterdir())) == 1
    assert len({each.stream_id for each in read_envelopes(store)}) == 2


async def recorded_in(root, count):
    """Record some streams in a store that is there."""
    async with StoreRecorder(Store(root), "exp") as recorder:
        await record_streams(recorder, count, 2)
