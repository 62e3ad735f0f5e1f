"""A trial behind the gateway is a trial like any other: every claim about stores holds, and the marts tell it."""

import msgspec
import pytest

from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.events import ClarificationInjected, TrialFinished, TrialStarted
from tests.analytics.make_store import Store
from tests.analytics.views.test_checks import broken_by
from tests.runners.models.gateway.rigs import canned, injection_after
from tests.runners.models.gateway.shapes import TASK, calls, chat, result, user
from tests.support.canned_model import text_reply, tool_reply


async def recorded():
    """The events of a trial with a title, a sub-agent, a batch of two and an injection after it."""
    rig, _ = canned(
        text_reply("A title", cost_usd=0.0),
        tool_reply(("a", "read", '{"path":"x"}'), ("b", "work", "{}")),
        tool_reply(("s", "work", "{}")),
        tool_reply(("c", "submit", "{}")),
        injection=injection_after(1),
    )
    history = [user(TASK), calls(("a", "read"), ("b", "work")), result("a", "A"), result("b", "B")]
    bodies = [chat(user(f"Title: {TASK}"), tools=()), chat(user(TASK)), chat(user("Count.")), chat(*history)]
    async with rig.client() as client:
        for body in bodies:
            assert (await client.post("v1/chat/completions", json=body)).status_code == 200
    await rig.session.close("submitted")
    return rig


@pytest.fixture
async def store():
    """A store whose injected trial is the one behind the gateway."""
    rig = await recorded()
    store = Store(trials=1)
    store.task("t", (1.0,))
    store.variant("t", "v")
    oracle = store.trial("t", "full", 0, actions=["read a", "submit"])
    store.budget("t", (2,), 2)
    budget = msgspec.structs.replace(store.envelopes[-1].event, trial_ids=(oracle,))
    store.envelopes[-1] = msgspec.structs.replace(store.envelopes[-1], event=budget)
    began = len(store.envelopes)
    store.trial("v", "inject_90", 0, actions=["read a", "submit"], budget=2, injected_after=1)
    told = store.envelopes[began:]
    planned = next(each.event for each in told if isinstance(each.event, ClarificationInjected))
    start = next(each.event for each in told if isinstance(each.event, TrialStarted))
    ending = told[next(at for at, each in enumerate(told) if type(each.event).__name__ == "CheckpointScored") :]
    same = {name: getattr(planned, name) for name in ("inject_percent", "target_action", "segment_ids")}
    events = [
        start,
        *(
            msgspec.structs.replace(event, **same) if isinstance(event, ClarificationInjected) else event
            for event in rig.events
        ),
        *(
            msgspec.structs.replace(each.event, action_count=rig.session.action_count, cost_usd=None)
            if isinstance(each.event, TrialFinished)
            else each.event
            for each in ending
        ),
    ]
    store.envelopes[began:] = [
        msgspec.structs.replace(told[0], sequence=number, event=event) for number, event in enumerate(events)
    ]
    return store


async def test_no_claim_is_broken(store):
    """Actions are numbered and finish, replies have requests, the injection follows its budget, nothing is unknown."""
    assert broken_by(store) == set()


@pytest.mark.thorough
async def test_the_marts_tell_what_happened(store):
    """The main thread's actions, the place of the injection, and what was done before it in vain."""
    connection = connect(store.snapshot())
    try:
        trial = "select action_count, is_injected, injected_after_action from trials where condition = 'inject_90'"
        assert connection.execute(trial).fetchall() == [(3, True, 2)]
        actions = "select action_name, result from actions join trials using (stream_id) where condition = 'inject_90'"
        found = connection.execute(f"{actions} order by action_index").fetchall()
        assert found == [("read", "A"), ("work", "B"), ("submit", None)]
    finally:
        connection.close()
