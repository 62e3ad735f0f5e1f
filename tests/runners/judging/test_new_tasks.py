"""Judging new tasks: which variants are asked about, what the judge is shown, and what its verdict changes."""

import pytest

from lhaw_record.analytics.views import store as stores
from lhaw_record.recorder.events import NewTaskJudged
from lhaw_record.recorder.storage.blobs import load_blob, store_blob
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.runners.judging.new_tasks import NewTasks
from tests.analytics.imported import as_imported
from tests.analytics.make_store import Store as Written
from tests.runners.judging.stores import CONFIRMED, JUDGE, Judge, artifact, events_of, judged, leave_behind, on_disk
from tests.support.chat_server import ChatServer


@pytest.fixture(autouse=True)
async def _closed(anyio_backend):
    """Close litellm's connections before the loop ends."""
    yield
    from lhaw_record.runners.models.litellm_library import close_clients

    await close_clients()


def written(**fields):
    """Variants that always fail one way, several ways, sometimes, or have a trial less than planned."""
    store = Written(trials=2, **fields)
    store.task("t", (1.0, 1.0))
    for variant in ("one_way", "several", "sometimes", "incomplete"):
        store.variant("t", variant)
    scores = {
        "one_way": [(1, 0), (1, 0)],
        "several": [(1, 0), (0, 0)],
        "sometimes": [(1, 1), (1, 0)],
        "incomplete": [(1, 0)],
    }
    for variant, ends in scores.items():
        for index, each in enumerate(ends):
            store.trial(variant, "underspecified", index, agent="c", role="classifier", scores=each)
    store.trial("one_way", "ask_user", 0, agent="c", scores=(1, 0))
    return store


def new_tasks(store, parameters=None):
    """The judge of new tasks over a store."""
    return NewTasks(JUDGE, parameters or {}, lambda sha256: load_blob(store, sha256))


async def test_the_verdict_gives_the_class(tmp_path):
    """Only c = 0 with |S| = 1 over all planned trials is asked about; confirmed it is a new task, once."""
    store = await on_disk(tmp_path / "store", written())
    async with ChatServer(Judge(CONFIRMED)) as server:
        driver = await judged(store, server.url, new_tasks(store))
        again = await judged(store, server.url, new_tasks(store))
    assert len(server.requests) == 1
    assert (driver.tally.rows()[0]["judged"], again.tally.rows()[0]["judged_before"]) == (1, 1)
    (event,) = events_of(store, NewTaskJudged)
    assert (event.verdict, event.reason, len(event.judged_stream_ids)) == ("confirmed", "all say 7", 2)
    connection = stores.open(store.root, only={"ambiguity_classes"})
    try:
        query = "select variant_id, ambiguity_class, new_task_verdict from ambiguity_classes order by all"
        assert connection.execute(query).fetchall() == [
            ("incomplete", None, None),
            ("one_way", "new_task", "confirmed"),
            ("several", "outcome-critical", "not_applicable"),
            ("sometimes", "divergent", "not_applicable"),
        ]
    finally:
        connection.close()


@pytest.mark.thorough
async def test_claims_count_as_the_views_count_them(tmp_path):
    """mcp_atlas: half a claim is no claim, so two raw states may be one terminal state."""
    fake = Written(trials=2, benchmark="mcp_atlas")
    fake.task("t", (1.0, 1.0))
    fake.variant("t", "v")
    for index, scores in enumerate([(1, 0.5), (1, 0)]):
        fake.trial("v", "underspecified", index, scores=scores, is_success=False)
    store = await on_disk(tmp_path / "store", fake)
    async with ChatServer(Judge(CONFIRMED)) as server:
        await judged(store, server.url, new_tasks(store))
    assert len(events_of(store, NewTaskJudged)) == 1


@pytest.mark.thorough
async def test_the_judge_sees_what_was_handed_in(tmp_path):
    """The prompt as given and, per attempt, the files: text in full, others by digest, lost ones said to be lost."""
    fake = Written(trials=1)
    fake.task("t")
    fake.variant("t", "v", prompt="make a report")
    fake.trial("v", "underspecified", 0, scores=(0,))
    stream = fake.streams["v", "underspecified", 0, "a"]
    store = create_store(tmp_path / "store")
    texts = {"report.md": b"the answer is 7", "data.xlsx": b"\0\1"}
    files = [artifact(name, text, store_blob(store, text), "application/x") for name, text in texts.items()]
    leave_behind(fake, stream, *files, artifact("lost.txt", b"?", "f" * 64))
    await on_disk(store.root, fake)
    judge = Judge(CONFIRMED)
    async with ChatServer(judge) as server:
        await judged(store, server.url, new_tasks(store))
    text = judge.messages(0)[1].content
    assert "make a report" in text
    assert "do t" not in text
    assert "Attempt 1:\n(no final answer)" in text
    assert "file report.md (15 bytes):\nthe answer is 7" in text
    assert f"file data.xlsx (2 bytes): not text, SHA-256 {files[1].sha256}" in text
    assert "file lost.txt (1 bytes): its bytes are not in the store" in text


async def test_an_unknown_answer_is_no_empty_one(tmp_path):
    """Of an imported trial whose source does not tell the answer the judge is told that it is unknown."""
    fake = Written(trials=1)
    fake.task("t")
    fake.variant("t", "v")
    fake.trial("v", "underspecified", 0, scores=(0,))
    as_imported(fake, fake.streams["v", "underspecified", 0, "a"], "result")
    store = await on_disk(tmp_path / "store", fake)
    judge = Judge(CONFIRMED)
    async with ChatServer(judge) as server:
        await judged(store, server.url, new_tasks(store))
    assert "Attempt 1:\n(the final answer is unknown)" in judge.messages(0)[1].content
