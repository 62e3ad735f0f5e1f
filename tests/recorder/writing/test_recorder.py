"""The recorder: acknowledged is durable, readable at once, sealed at the end, and whole."""

import anyio
import pytest

from lhaw_record.recorder.errors import DamagedStore, RecordingFailed, StoreError
from lhaw_record.recorder.events import TrialFailed
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes, read_snapshot
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.redaction import Redactor, secrets_of
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.recorder.stores import failed, finished, record_streams, started


async def test_everything_appended_is_read_back_in_order(tmp_path):
    """Each event exactly once, gapless in its stream, with a good digest, before and after sealing."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp") as recorder:
        await record_streams(recorder, 20, 5)
        while_open = read_envelopes(store.root)
        assert verify(store.root).findings == ()
    sealed = read_envelopes(store.root)
    assert len(while_open) == len(sealed) == 20 * 11
    assert {(e.stream_id, e.sequence): e for e in while_open} == {(e.stream_id, e.sequence): e for e in sealed}
    report = verify(store.root)
    assert (report.findings, report.events, report.streams, report.open_streams) == ((), 220, 20, 0)
    assert store.journals() == {}


async def test_a_deferred_event_is_durable_with_the_next_append(tmp_path):
    """In its place and with its own time; also if what follows is refused first, or the recorder's end is next."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp") as recorder:
        stream, unclosed = (recorder.stream(each, trial_id=each, attempt=1) for each in ("s", "u"))
        await stream.append(started(1))
        stream.defer(finished(1))
        assert len(read_envelopes(store.root)) == 1
        await anyio.sleep(0.01)
        with pytest.raises(RecordingFailed, match="more than 64 bits"):
            await stream.append(started(1 << 64))
        await stream.append(started(2))
        written = read_envelopes(store.root, "s")
        assert [each.event for each in written] == [started(1), finished(1), started(2)]
        assert written[2].elapsed_ns - written[1].elapsed_ns > 9_000_000
        stream.defer(finished(2))
        await stream.append()
        assert len(read_envelopes(store.root, "s")) == 4
        await unclosed.append(started(1))
        unclosed.defer(finished(1))
    assert verify(store.root).findings == ()
    assert [type(each.event).__name__ for each in read_envelopes(store.root, "u")][1:] == [
        "ActionFinished",
        "TrialFailed",
    ]


@pytest.mark.thorough
async def test_rotation_seals_while_the_run_goes_on(tmp_path):
    """A journal that grew too long becomes a segment; readers see one stream across both all the time."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp", rotate_bytes=4000) as recorder:
        stream = recorder.stream("s", trial_id="t", attempt=1)
        for index in range(50):
            await stream.append(started(index), finished(index))
            assert len(read_envelopes(store.root)) == 2 * (index + 1)
        assert read_snapshot(store.root).live_streams == {"s"}
        await stream.append(failed())
    assert len(store.segment_paths()) > 3
    assert verify(store.root).findings == ()


async def test_a_reader_never_sees_a_gap_or_a_duplicate_while_sealing(tmp_path):
    """Snapshots taken all through a run with many rotations hold a gapless prefix of every stream."""
    store = create_store(tmp_path / "store")
    looks = 0

    async def look():
        nonlocal looks
        while True:
            rows = await anyio.to_thread.run_sync(read_envelopes, store.root)
            for stream_id in {row.stream_id for row in rows}:
                sequences = sorted(row.sequence for row in rows if row.stream_id == stream_id)
                assert sequences == list(range(len(sequences)))
            looks += 1

    async with StoreRecorder(store, "exp", rotate_bytes=16_000) as recorder, anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        for prefix in "abc":
            await record_streams(recorder, 10, 10, prefix=prefix)
        tasks.cancel_scope.cancel()
    assert looks > 3


async def test_secrets_never_reach_the_disk(tmp_path):
    """Values of secret variables and key-shaped texts are replaced before encoding; the digest is of what is stored."""
    redactor = Redactor(secrets_of({"OPENAI_API_KEY": 'very"secret"value', "HOME": "harmless-value"}))
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp", redactor=redactor) as recorder:
        stream = recorder.stream("s", trial_id="t", attempt=1)
        await stream.append(finished(1, 'key very"secret"value, json "very\\"secret\\"value", harmless-value'))
        await stream.append(finished(2, "Authorization: Bearer abcdefghijklmnop0123 and sk-abcdefghijklmnopqrstuv"))
        await stream.append(failed())
        raw = b"".join(path.read_bytes() for path in store.journals().values())
    texts = [e.event.result for e in read_envelopes(store.root) if not isinstance(e.event, TrialFailed)]
    assert b"secret" not in raw
    assert texts == [
        'key [redacted], json "[redacted]", harmless-value',
        "Authorization: [redacted] and [redacted]",
    ]
    assert verify(store.root).findings == ()


async def test_text_that_is_no_unicode_is_recorded(tmp_path):
    """Half a surrogate pair in a model's reply becomes U+FFFD, as everywhere, and two halves their character."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp") as recorder:
        stream = recorder.stream("s", trial_id="t", attempt=1)
        await stream.append(finished(1, "half a pair: \ud83d, a pair: \ud83d\ude00"), failed())
    assert read_envelopes(store.root)[0].event.result == "half a pair: \ufffd, a pair: \U0001f600"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**30])
async def test_a_number_that_no_segment_could_hold_is_refused(tmp_path, number):
    """An event that could be journaled and never be sealed is not recorded; its stream and the store stay whole."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp") as recorder:
        stream = recorder.stream("s", trial_id="t", attempt=1)
        with pytest.raises(RecordingFailed, match=r"action_started .* more than 64 bits"):
            await stream.append(finished(0), started(number))
        await stream.append(finished(1), failed())
    assert [e.event.action_index for e in read_envelopes(store.root)[:-1]] == [1]
    assert verify(store.root).findings == ()


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
async def test_the_largest_numbers_are_recorded(tmp_path, number):
    """A number at the end of the range is sealed and read back, whatever the text beside it looks like."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp") as recorder:
        stream = recorder.stream("s", trial_id="t", attempt=1)
        await stream.append(finished(number, "\u03c0, whose bytes look like the mark of a large number"), failed())
    assert read_envelopes(store.root)[0].event.action_index == number


async def test_nothing_follows_the_closing_event(tmp_path):
    """A late event is refused, in a later append and in the same one, and the stream stays whole and closed once."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp") as recorder:
        closed, open_still = (recorder.stream(name, trial_id=name, attempt=1) for name in ("closed", "open"))
        await closed.append(started(1), finished(1), failed())
        await open_still.append(started(1))
        for stream, late in ((closed, [finished(2)]), (closed, [failed()]), (open_still, [failed(), finished(1)])):
            with pytest.raises(RecordingFailed, match=f"stream {stream.stream_id} is closed"):
                await stream.append(*late)
        await open_still.append(finished(1))
    ends = {envelope.stream_id: type(envelope.event) for envelope in read_envelopes(store.root)}
    assert ends == {"closed": TrialFailed, "open": TrialFailed}
    report = verify(store.root)
    assert (report.findings, report.events, report.open_streams) == ((), 6, 0)


async def test_a_cancelled_append_leaves_the_stream_whole(tmp_path):
    """Cancelling a task that waits for durability loses no event of others and breaks no chain."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp") as recorder:
        stream = recorder.stream("s", trial_id="t", attempt=1)
        for index in range(50):
            with anyio.move_on_after(0):
                await stream.append(started(index))
        await stream.append(failed())
    assert verify(store.root).findings == ()


def test_a_second_run_says_who_holds_the_experiment(tmp_path):
    """One driver per experiment; another experiment of the same store is free."""
    store = create_store(tmp_path / "store")
    with store.hold_experiment("exp"):
        with pytest.raises(StoreError, match=r"being run by process \d+ on .+ since"), store.hold_experiment("exp"):
            pass
        with store.hold_experiment("other"):
            pass
    with store.hold_experiment("exp"):
        pass


def test_strange_directories_are_refused(tmp_path):
    """No store, a newer store and a damaged marker are told apart, each with the next step."""
    with pytest.raises(StoreError, match="is not a store"):
        Store(tmp_path)
    (tmp_path / "letter.txt").write_text("hello")
    with pytest.raises(StoreError, match=r"neither empty nor a store \(it holds 'letter.txt'\)"):
        create_store(tmp_path)
    create_store(tmp_path / "store")
    (tmp_path / "store" / "store.json").write_text('{"format": 99}')
    with pytest.raises(StoreError, match="format 99, this version reads 2"):
        Store(tmp_path / "store")
    (tmp_path / "store" / "store.json").write_text("{")
    with pytest.raises(DamagedStore, match="is damaged"):
        Store(tmp_path / "store")


async def test_a_read_only_copy_can_be_read(tmp_path):
    """Reading writes nothing: every file and folder may be read-only."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp") as recorder:
        await record_streams(recorder, 2, 2)
    before = sorted(store.root.rglob("*"))
    for path in before:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert len(read_envelopes(store.root)) == 10
        assert verify(store.root).findings == ()
    finally:
        for path in before:
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert sorted(store.root.rglob("*")) == before
