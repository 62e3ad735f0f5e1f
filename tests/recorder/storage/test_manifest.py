"""The manifest: a file that is deleted, emptied, cut or changed is known to every command that prints numbers."""

import json
import shutil
import sys
from pathlib import Path
from random import Random

import anyio
import duckdb
import pytest

from lhaw_record.analytics.views import store as stores
from lhaw_record.command_line import main
from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage import manifest
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.manifest_check import find_problems
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.transfer.whole_streams import whole_streams
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.crash.mutations import DAMAGE_MUTATIONS
from tests.crash.workload import InProcess
from tests.recorder.stores import record_streams, started
from tests.support.depth import at_depth

FROZEN = Path(__file__).resolve().parents[2] / "compat" / "store-2"
CHAIN = """
import hashlib, json, sys, zlib
root, before = sys.argv[1], ""
for line in open(root + "/manifest.jsonl"):
    entry = json.loads(line)
    chain = entry.pop("chain")
    plain = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256((before + plain).encode()).hexdigest()[:32] == chain, line
    before = chain
    print(entry["kind"])
"""


@pytest.fixture
async def damageable(tmp_path):
    """A store with a merged segment, small ones, and two journals of a dead writer."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp", rotate_bytes=6_000, start_sealing=InProcess) as recorder:
        await record_streams(recorder, 4, 8)
    compact(store, grace_s=0.0)
    async with StoreRecorder(store, "exp", rotate_bytes=8_000, start_sealing=InProcess) as recorder:
        await record_streams(recorder, 4, 8, prefix="again")
        await recorder.stream("open", trial_id="t-open", attempt=1).append(started(1), started(2))
        shutil.copytree(store.root, tmp_path / "dead")
    return tmp_path / "dead"


def _detected(root):
    """Whether a command that prints numbers, verification and the export all refuse."""
    try:
        with stores.open(root, only={"trials"}):
            return False
    except (DamagedStore, duckdb.Error):
        pass
    with pytest.raises(DamagedStore):
        list(whole_streams(Store(root)))
    try:
        return bool(verify(root).findings)
    except DamagedStore:  # a merged segment does not say what it covers
        return True


def _attacks(root, chance, flips):
    """Every file of events and journals deleted, emptied and cut, and bits flipped anywhere in segments."""
    store = Store(root)
    files = [*store.segment_paths(), *store.journals().values()]
    for path in files:
        data = path.read_bytes()
        yield f"{path.name} deleted", path.unlink
        for size in (0, 1, len(data) // 2, len(data) - 1):
            yield f"{path.name} cut to {size}", lambda path=path, data=data, size=size: path.write_bytes(data[:size])
    for _ in range(flips):
        path = chance.choice(store.segment_paths())
        data = bytearray(path.read_bytes())
        place = chance.choice([chance.randrange(len(data)), len(data) - 1 - chance.randrange(len(data) // 4)])
        data[place] ^= 1 << chance.randrange(8)
        yield f"{path.name} flipped at {place}", lambda path=path, data=data: path.write_bytes(data)


@pytest.mark.parametrize("flips", [20, pytest.param(at_depth(200, 500), marks=pytest.mark.thorough)])
async def test_no_damage_goes_unnoticed(damageable, flips):
    """Of deletions, truncations and flipped bits, none is read as if nothing were."""
    assert find_problems(Store(damageable)) == []
    assert len(Store(damageable).journals()) == 1
    store, missed, tried = Store(damageable), [], 0
    kept = {path: path.read_bytes() for path in [*store.segment_paths(), *store.journals().values()]}
    for name, attack in _attacks(damageable, Random(7), flips):
        attack()
        missed += [] if _detected(damageable) else [name]
        tried += 1
        for path, data in kept.items():
            path.write_bytes(data)
    assert missed == []
    assert tried > flips
    assert find_problems(store) == []


@pytest.mark.thorough
@pytest.mark.parametrize("mutation", DAMAGE_MUTATIONS, ids=lambda mutation: mutation.__name__)
async def test_a_check_that_looks_away_is_caught(damageable, mutation):
    """The same attacks find a program that leaves one of the three looks out."""
    store = Store(damageable)
    kept = {path: path.read_bytes() for path in [*store.segment_paths(), *store.journals().values()]}
    with mutation():
        for _, attack in _attacks(damageable, Random(7), 20):
            attack()
            is_detected = _detected(damageable)
            for path, data in kept.items():
                path.write_bytes(data)
            if not is_detected:
                return
    pytest.fail("every attack was seen all the same")


@pytest.mark.thorough
async def test_what_is_missing_is_named(damageable, capsys):
    """The file, its writer, how many events of how many trials; by tables and SQL, exit code 3."""
    path = Store(damageable).segment_paths()[0]
    path.unlink()
    for command in (["sql", str(damageable), "-c", "select 1 from trials"], ["log", "verify", str(damageable)]):
        assert main(command) == 3
        out = "".join(capsys.readouterr())
        assert path.name in out
        assert "events of writer" in out
        assert "trials, recorded from" in out


@pytest.mark.thorough
async def test_a_loss_can_be_accepted(damageable, capsys):
    """Log repair --accept-loss goes on without what is gone, and says so in the manifest."""
    store = Store(damageable)
    store.segment_paths()[0].unlink()
    (journal,) = store.journals().values()
    data = journal.read_bytes()
    journal.write_bytes(data[: len(data) // 2])
    with pytest.raises(DamagedStore, match="was cut"):
        recover(create_store(damageable))
    assert main(["log", "repair", str(damageable), "--accept-loss", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    recover(store)
    assert find_problems(store) == []
    with stores.open(damageable, only={"trials"}):
        assert '"kind":"lost"' in store.manifest_path.read_text()


async def test_the_chain_is_as_the_page_says(damageable):
    """An independent program recomputes every digest; a line that is taken out is known."""
    done = await anyio.run_process([sys.executable, "-I", "-c", CHAIN, str(damageable)], check=False)
    assert done.returncode == 0, done.stderr
    assert {"journal", "segment"} <= set(done.stdout.decode().split())
    path = damageable / "manifest.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:1] + lines[2:]))
    assert "damaged at line 2" in find_problems(Store(damageable))[0].text


async def test_others_read_the_store_beside_it(damageable):
    """The manifest adds nothing to what a pattern over Parquet files finds."""
    recover(Store(damageable))
    events = len(read_envelopes(damageable))
    query = f"select count(*) from read_parquet('{damageable}/**/*.parquet', union_by_name = true)"
    assert duckdb.sql(query).fetchall() == [(events,)]


async def test_a_manifest_that_is_gone_is_missed(damageable, capsys):
    """Neither reading nor the next run takes what is left for all there ever was; a person may."""
    (damageable / "manifest.jsonl").unlink()
    next(iter(Store(damageable).segment_paths())).unlink()
    assert _detected(damageable)
    create_store(damageable)
    assert _detected(damageable)
    assert main(["log", "repair", str(damageable), "--accept-loss"]) == 0
    assert "and with it the list of what the store must hold" in capsys.readouterr().out
    with stores.open(damageable, only={"trials"}):
        assert (damageable / "manifest.jsonl").exists()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", ["manifest.jsonl", "events/experiment=exp/w*.parquet"])
async def test_a_device_in_the_place_of_a_file_is_not_read(damageable, place):
    """A store from elsewhere may have a link to a device: its bytes would have no end, and fill the memory."""
    path = next(damageable.glob(place))
    path.unlink()
    path.symlink_to("/dev/null")  # not a regular file either, and one that a test survives
    found = [each for each in find_problems(Store(damageable)) if each.file == str(path)]
    assert [each.text.split(":")[0] for each in found] in (
        ["is damaged at line 1"],
        ["is not a regular file"],
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "torn",
    [
        b'{"kind":"journal","jour',
        b"\0" * 200 + b'"}\n',
        b"left behind by an older file\n" * 18 + b'"chain":"00"}\n',
        b'{"kind":"segment","journals":[' + b"left behind by an older file\r\n" * 17 + b']}\n{"kind"',
        b"PAR1\n\xff\x00" * 100,
    ],
    ids=["cut short", "zeros", "first sector old", "second sector old", "all of it old"],
)
async def test_an_append_that_a_power_cut_tore_announced_nothing(tmp_path, torn):
    """The next append cuts away sectors that never reached the disk and read as zeros or as what an older file had."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "e") as recorder:
        await recorder.stream("s").append(started(1))
    good = store.manifest_path.read_bytes()
    entries = manifest.read_entries(store)
    store.manifest_path.write_bytes(good + torn)
    assert manifest.read_entries(store) == entries
    async with StoreRecorder(store, "e") as recorder:
        await recorder.stream("t").append(started(1))
    assert store.manifest_path.read_bytes().startswith(good)
    assert verify(store.root).findings == ()


async def test_damage_that_entries_follow_is_no_torn_append(tmp_path):
    """However near the end it is, it is reported and kept, as is more damage than one append can leave."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "e") as recorder:
        await recorder.stream("s").append(started(1))
    good = store.manifest_path.read_bytes()
    for damage in (b"\0", b"x", b"\n"):
        damaged = damage * 50 + good[50:]
        store.manifest_path.write_bytes(damaged)
        assert manifest.read_entries(store)[1] == 1
        async with StoreRecorder(store, "e") as recorder:
            await recorder.stream(f"t{damage.hex()}").append(started(1))
        assert store.manifest_path.read_bytes().startswith(damaged)
    store.manifest_path.write_bytes(good + b"x" * 40 + b"\n" * (1 << 16))
    assert manifest.read_entries(store)[1] == len(good.splitlines()) + 1
