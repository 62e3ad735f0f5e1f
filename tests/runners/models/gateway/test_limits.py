"""The limits of a trial at the gateway: which request is refused, how, and what it still tells."""

import pytest

from lhaw_record.recorder.events import ActionFinished, ModelCalled
from lhaw_record.runners.base.budget import RunBudget
from lhaw_record.runners.base.errors import RunBudgetSpent
from lhaw_record.runners.models.gateway.calls import SessionLimits
from lhaw_record.runners.models.gateway.wires import CHAT
from tests.runners.models.gateway.rigs import canned
from tests.runners.models.gateway.shapes import TASK, calls, chat, result, says, system, user
from tests.support.canned_model import text_reply, tool_reply

PATH = f"v1/{CHAT.path}"
BATCH = tool_reply(("a", "read", '{"path":"x"}'), ("b", "work", '{"n":1}'))
TAKEN_UP = [
    user(TASK),
    calls(("a", "read", '{"path":"x"}'), ("b", "work", '{"n":1}')),
    result("a", "A"),
    result("b", "B"),
]


async def ask(rig, *conversations):
    """Send requests one after another; returns what the last one was answered."""
    async with rig.client() as client:
        for conversation in conversations:
            response = await client.post(PATH, json=chat(*conversation))
    return response


@pytest.mark.parametrize("max_actions", [1, 2])
async def test_a_request_that_shows_the_last_action_is_refused_for_good(max_actions):
    """The actions that it shows are recorded, no model is asked, and the trial is told to be over; also for a batch
    that passed the limit, which the agent executed by itself.
    """
    over = []
    rig, model = canned(
        BATCH, text_reply("done"), limits=SessionLimits(max_actions=max_actions), on_over=lambda: over.append(True)
    )
    response = await ask(rig, [user(TASK)], TAKEN_UP)
    assert (response.status_code, rig.session.limit_reached, over) == (403, "action_limit", [True])
    assert f"its {max_actions} actions" in response.text
    assert (rig.session.action_count, len(rig.of(ActionFinished)), len(rig.of(ModelCalled))) == (2, 2, 1)
    again = await ask(rig, TAKEN_UP)
    assert (again.status_code, len(model.requests), rig.session.action_count) == (403, 1, 2)


async def test_below_the_limit_the_agent_goes_on():
    """An action that is left may be the answer: the reply is served, and counted when the trial ends."""
    rig, model = canned(BATCH, text_reply("done"), limits=SessionLimits(max_actions=3))
    response = await ask(rig, [user(TASK)], TAKEN_UP)
    await rig.session.close("submitted")
    assert (response.status_code, rig.session.limit_reached, len(model.requests)) == (200, None, 2)
    assert rig.session.action_count == 3


async def test_the_limit_of_turns_comes_first():
    """A trial that has used both its turns and its actions ended for its turns, as with the native agent."""
    rig, _ = canned(BATCH, text_reply("done"), limits=SessionLimits(max_turns=1, max_actions=2))
    await ask(rig, [user(TASK)], TAKEN_UP)
    assert rig.session.limit_reached == "turn_limit"


async def test_a_cost_limit_that_nobody_can_keep_fails_the_trial():
    """After a reply of unknown cost the next request is refused for good, and the trial has a failure of ours."""
    rig, model = canned(BATCH, limits=SessionLimits(max_cost_usd=1.0))
    async with rig.client() as client:
        assert (await client.post("v1/chat/completions", json=chat(user(TASK)))).status_code == 200
        assert (await client.post("v1/chat/completions", json=chat(user("More.")))).status_code == 403
    assert (rig.session.failure.kind, len(model.requests)) == ("unknown_cost", 1)


TITLE = [system("Write a title."), user("Name it.")]


@pytest.mark.parametrize("aside", ["side", "embeddings"])
@pytest.mark.parametrize("is_done", [True, False])
async def test_a_run_without_money_left_spares_a_trial_that_is_done(is_done, aside):
    """After the program's own work nothing is lost with a side call; before its end the trial is missing data.

    What the main conversation itself asks for is refused as missing data in any case.
    """
    budget, over = RunBudget(1.0), []
    rig, model = canned(text_reply("done") if is_done else BATCH, budget=budget, on_over=lambda: over.append(True))
    assert (await ask(rig, [user(TASK)])).status_code == 200
    budget.spent_usd = 1.0
    async with rig.client() as client:
        if aside == "side":
            response = await client.post(PATH, json=chat(*TITLE, tools=()))
        else:
            rig.session.upstream.embedding = _no_embeddings
            response = await client.post("v1/embeddings", json={"model": "e", "input": "a"})
    assert (response.status_code, len(model.requests), len(rig.of(ModelCalled))) == (403, 1, 1)
    assert "is spent" in response.text
    assert (rig.session.failure is None, over) == ((True, []) if is_done else (False, [True]))
    more = [says("done"), user("Go on.")] if is_done else TAKEN_UP[1:]
    assert (await ask(rig, [user(TASK), *more])).status_code == 403
    assert isinstance(rig.session.failure, RunBudgetSpent)


async def _no_embeddings(wire, request, *, is_routed):
    """What would send a request for embeddings, if it were sent."""
    return
