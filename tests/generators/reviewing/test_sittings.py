"""The review part of the daemon's API: the same decisions as at a terminal, in one sitting of each reviewer."""

import errno

import anyio
import msgspec
import pytest

from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.generators.reviewing import sittings, web
from lhaw_record.generators.reviewing.messages import Comparison, DecisionRequest, Own, ReviewList
from lhaw_record.generators.reviewing.session import review_session
from lhaw_record.generators.reviewing.web import review_extension
from lhaw_record.recorder.events import RunFinished
from lhaw_record.recorder.files.disk import Disk
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.runners.runs.daemon.endpoints import description
from tests.generators.reviewing.test_reviews import VARIANTS, review, waiting
from tests.generators.selection.stores import classified, to_disk
from tests.runners.runs.daemon.running import PATIENCE_S, daemon_at


@pytest.fixture
def store(tmp_path):
    """A store with six benign variants of three tasks."""
    return to_disk(tmp_path / "store", classified(**VARIANTS))


def decisions(store):
    """The decisions that count."""
    query = "select reviewer, decision, review_reason, note, decided_count from variant_reviews order by all"
    connection = open_store(store, only={"variant_reviews"})
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def outcomes(store):
    """How anna's ended sittings ended."""
    own = [each.event for each in read_envelopes(store) if each.experiment_id == "review-anna"]
    return [event.outcome for event in own if isinstance(event, RunFinished)]


def reviewing(store, **options):
    """A daemon on a store with the review workbench, and a client."""
    return daemon_at(store, extend=review_extension, **options)


async def ask(client, path, kind, **body):
    """Ask the review API and decode its reply strictly."""
    reply = await client.post(f"/api/reviews/{path}", json=body)
    assert reply.status_code == 200, reply.text
    return msgspec.json.decode(reply.content, type=kind)


async def refused(client, path, **body):
    """Ask for what is refused; return status and kind."""
    reply = await client.post(f"/api/reviews/{path}", json=body)
    return reply.status_code, reply.json()["error"]["kind"]


@pytest.mark.thorough
async def test_a_sitting_on_the_page_is_one_at_a_terminal(store):
    """Same list in the same order, same events in the same experiment, also read by the table of agreement."""
    expected = waiting(store, "anna")
    async with reviewing(store) as (_, client):
        listed = (await ask(client, "anna", ReviewList)).variants
        digests = [each.variant_digest for each in listed]
        shown = [await ask(client, "anna/comparison", Comparison, variant_digest=each) for each in digests]
        assert sorted(each.task_id for each in shown) == sorted(name[0] for name in expected)
        assert all(each.judged.startswith("the rules find nothing; unjudged: ") for each in shown if not each.findings)
        assert {outcome.successes for each in shown for outcome in each.outcomes} == {3}
        first = {"variant_digest": digests[0], "decision": "accepted", "note": "good", "shown_s": 2.5}
        assert await ask(client, "anna/decisions", Own, **first) == Own(decision="accepted", reason=None, note="good")
        second = {"variant_digest": digests[1], "decision": "edited", "reason": "unnatural", "prompt": "Do it well."}
        await ask(client, "anna/decisions", Own, **second)
        listed = (await ask(client, "anna", ReviewList)).variants
        assert [each.decision for each in listed] == ["accepted", "edited", None, None, None, None]
    assert decisions(store) == [
        ("anna", "accepted", None, "good", 1),
        ("anna", "edited", "unnatural", None, 1),
    ]
    assert waiting(store, "anna") == expected[2:]
    assert [each for each in waiting(store, "ben") if each not in expected], "ben is shown what anna wrote"
    assert outcomes(store) == ["completed"]
    assert verify(store).findings == ()


@pytest.mark.thorough
async def test_reviewers_are_blind_to_each_other(store):
    """What ben decides shows nowhere in what anna is sent."""
    async with reviewing(store) as (_, client):
        before = await ask(client, "anna", ReviewList)
        digest = before.variants[0].variant_digest
        seen = await ask(client, "anna/comparison", Comparison, variant_digest=digest)
        body = {"variant_digest": digest, "decision": "rejected", "reason": "segment", "note": "a secret"}
        await ask(client, "ben/decisions", Own, **body)
        assert await ask(client, "anna", ReviewList) == before
        assert await ask(client, "anna/comparison", Comparison, variant_digest=digest) == seen


async def test_what_another_page_decided_is_not_overwritten(store):
    """A page that does not know the decision that counts is refused; a reply that was lost is no second decision."""
    async with reviewing(store) as (_, client):
        digest = (await ask(client, "anna", ReviewList)).variants[0].variant_digest
        accepted = {"variant_digest": digest, "decision": "accepted"}
        rejected = {"variant_digest": digest, "decision": "rejected", "reason": "segment"}
        await ask(client, "anna/decisions", Own, **accepted)
        await ask(client, "anna/decisions", Own, **accepted)
        assert await refused(client, "anna/decisions", **rejected) == (409, "decided_elsewhere")
        assert (await ask(client, "anna/comparison", Comparison, variant_digest=digest)).own.decision == "accepted"
        await ask(client, "anna/decisions", Own, **rejected, replaces="accepted")
    assert decisions(store) == [("anna", "rejected", "segment", None, 2)]


NONSENSE = (
    ({"decision": "rejected"}, "needs a reason"),
    ({"decision": "accepted", "reason": "segment"}, "needs a reason"),
    ({"decision": "rejected", "reason": "dislike"}, "the reasons are unnatural"),
    ({"decision": "edited", "reason": "segment"}, "needs its new prompt"),
    ({"decision": "accepted", "prompt": "Do it."}, "needs its new prompt"),
    ({"decision": "edited", "reason": "segment", "prompt": " \n"}, "is empty"),
    ({"decision": "edited", "reason": "segment", "prompt": "full"}, "is the full one"),
    ({"decision": "edited", "reason": "segment", "prompt": "own"}, "is the variant's own"),
    ({"decision": "accepted", "shown_s": -1}, "shown_s"),
    ({"decision": "maybe"}, "decision"),
)


@pytest.mark.thorough
async def test_a_decision_without_sense_is_refused(store):
    """The message says what is missing, and nothing is recorded."""
    async with reviewing(store) as (_, client):
        digest = (await ask(client, "anna", ReviewList)).variants[0].variant_digest
        shown = await ask(client, "anna/comparison", Comparison, variant_digest=digest)
        prompts = {"own": shown.prompt, "full": "".join(each.text for each in shown.pieces if each.kind != "added")}
        for body, words in NONSENSE:
            changes = {"prompt": prompts.get(body["prompt"], body["prompt"])} if "prompt" in body else {}
            reply = await client.post("/api/reviews/anna/decisions", json={"variant_digest": digest, **body, **changes})
            assert reply.status_code == 422
            assert words in reply.json()["error"]["message"]
    assert decisions(store) == []


@pytest.mark.thorough
async def test_names_and_variants_that_there_are_not(store):
    """They are refused, and no experiment is begun for a name that none can have."""
    async with reviewing(store) as (_, client):
        assert await refused(client, "Anna%20B") == (422, "bad_name")
        for path in ("comparison", "decisions"):
            body = {"variant_digest": "0" * 64, **({"decision": "accepted"} if path == "decisions" else {})}
            assert await refused(client, f"anna/{path}", **body) == (404, "unknown")
    assert {each.experiment_id for each in read_envelopes(store)} == {"daemon", "e", "review-anna"}


@pytest.mark.thorough
async def test_who_sits_at_a_terminal_is_asked_to_end_that_first(store):
    """The page is refused while the sitting is open elsewhere, and goes on when it has ended."""
    async with reviewing(store) as (_, client):
        async with review_session(store, "anna"):
            assert await refused(client, "anna") == (409, "in_use")
        assert len((await ask(client, "anna", ReviewList)).variants) == len(VARIANTS)
        assert (await client.post("/api/reviews/anna/close", json={})).status_code == 200
        async with review_session(store, "anna"):
            assert await refused(client, "anna") == (409, "in_use")


@pytest.mark.thorough
async def test_an_idle_sitting_lets_the_terminal_have_its_turn(store, monkeypatch):
    """Without requests it ends; the next decision on the page opens another one."""
    monkeypatch.setattr(sittings, "IDLE_S", 0.05)
    async with reviewing(store) as (_, client):
        digest = (await ask(client, "anna", ReviewList)).variants[0].variant_digest
        with anyio.fail_after(PATIENCE_S):
            while True:
                if outcomes(store) == ["completed"]:
                    break
                await anyio.sleep(0.05)
        await ask(client, "anna/decisions", Own, variant_digest=digest, decision="accepted")
    assert decisions(store) == [("anna", "accepted", None, None, 1)]


class FullDisk(Disk):
    """A disk that takes nothing once it is full."""

    is_full = False

    def sync(self, descriptor):
        """Make durable, unless the disk is full."""
        if type(self).is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().sync(descriptor)


@pytest.mark.thorough
async def test_a_decision_that_cannot_be_recorded_is_refused(store, monkeypatch):
    """A full disk refuses the decision and not the daemon; with room again the same decision is taken."""
    async with reviewing(store) as (daemon, client):
        monkeypatch.setattr(
            "lhaw_record.generators.reviewing.session.create_store", lambda root: create_store(root, FullDisk())
        )
        digest = (await ask(client, "anna", ReviewList)).variants[0].variant_digest
        monkeypatch.setattr(FullDisk, "is_full", True)
        body = {"variant_digest": digest, "decision": "accepted"}
        assert await refused(client, "anna/decisions", **body) == (507, "not_recorded")
        monkeypatch.setattr(FullDisk, "is_full", False)
        await ask(client, "anna/decisions", Own, **body)
        assert not daemon.is_stopping
    assert decisions(store) == [("anna", "accepted", None, None, 1)]


@pytest.mark.thorough
async def test_variants_made_meanwhile_are_listed(store):
    """Loading the page reads the store again: what ben wrote since is there, and what he withdrew is not."""
    async with reviewing(store) as (_, client):
        await ask(client, "anna", ReviewList)
        await anyio.to_thread.run_sync(review, store, "ben", {"a1": "edited collateral"})
        assert len((await ask(client, "anna", ReviewList)).variants) == len(VARIANTS) + 1
        await anyio.to_thread.run_sync(review, store, "ben", {"a1": "accepted"})
        assert len((await ask(client, "anna", ReviewList)).variants) == len(VARIANTS)
        chosen = await ask(client, "anna", ReviewList, benchmark="none")
        assert chosen.variants == ()


@pytest.mark.thorough
async def test_the_pieces_are_both_prompts(store):
    """Without what was added they are the full prompt, without what was removed the variant; an edit as well."""
    async with reviewing(store) as (_, client):
        digest = (await ask(client, "anna", ReviewList)).variants[0].variant_digest
        shown = await ask(client, "anna/comparison", Comparison, variant_digest=digest)
        edit = f"{shown.prompt} Hurry up, please!"
        again = await ask(client, "anna/comparison", Comparison, variant_digest=digest, prompt=edit)
        full = {"".join(each.text for each in found.pieces if each.kind != "added") for found in (shown, again)}
        assert len(full) == 1
        assert "".join(each.text for each in shown.pieces if each.kind != "removed") == shown.prompt
        assert "".join(each.text for each in again.pieces if each.kind != "removed") == edit


def test_the_api_is_described_with_the_workbench():
    """Every reference leads to a schema, and operations have names of their own."""
    from lhaw_record.runners.runs.daemon.endpoints import ENDPOINTS

    told = description("1", (*ENDPOINTS, *web.ENDPOINTS))
    text = msgspec.json.encode(told).decode()
    names = set(told["components"]["schemas"])
    assert {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]} <= names
    assert DecisionRequest.__name__ in names
    operations = [each["operationId"] for item in told["paths"].values() for each in item.values()]
    assert len(set(operations)) == len(operations)
