"""Agents that do not send their history turn by turn: recognised, declared, or else flagged."""

import json

import pytest

from lhaw_record.recorder.events import AnchorLost, ClarificationInjected, ModelCalled, TrialFlagged
from lhaw_record.runners.experiment.values import ThreadRules
from tests.runners.models.gateway.rigs import canned, injection_after
from tests.runners.models.gateway.shapes import TASK, calls, chat, result, says, system, user
from tests.support.canned_model import text_reply, tool_reply

CHAT = "v1/chat/completions"
BLUE = "By the way: blue."
RULES = system("You work in a terminal.")
STEPS = 5
COMMANDS = [f"count harbour{n}" for n in range(1, STEPS + 1)]
SEEN = [f"There are {7 * n} boats." for n in range(1, STEPS + 1)]


async def driven(replies, requests, **options):
    """The trial of an agent that sends these requests, at its end. A request is a body, or a body and headers."""
    rig, _ = canned(*replies, **{"prompt": TASK, "injection": injection_after(2), **options})
    async with rig.client() as client:
        for request in requests:
            body, headers = request if isinstance(request, tuple) else (request, {})
            assert (await client.post(CHAT, json=body, headers=headers)).status_code == 200
    await rig.session.close("submitted")
    rig.check_conversations()
    return rig


def flags(rig):
    """The flags of a trial."""
    return [event.flag for event in rig.of(TrialFlagged)]


def has_message(rig):
    """Which requests had the message."""
    return [user(BLUE) in body["messages"] for body in rig.session.upstream.bodies]


def scratchpad(n):
    """A ReAct prompt in which one text grows by what the model wrote and by what came of it."""
    lines = [f"{written(step)}\nObservation: {SEEN[step]}\nThought:" for step in range(n)]
    return [user(f"Answer with Thought, Action and Observation.\n\nQuestion: {TASK}\nThought:" + "".join(lines))]


def folded(n):
    """The whole history as JSON in one message, the task behind it."""
    history = [turn for step in range(n) for turn in (("assistant", written(step)), ("user", SEEN[step]))]
    return [RULES, user(f"History: {json.dumps(history)}\n\nThe task: {TASK}")]


def listed(n):
    """The steps as a list that says what was run, without the words around it."""
    steps = [f"{step + 1}. ran {COMMANDS[step]!r} and saw {SEEN[step]!r}" for step in range(n)]
    return [RULES, user("\n".join([TASK, "So far:", *steps, "Next?"]))]


def written(step):
    """What the model writes in one step, as text."""
    return f" I should look at the next one.\nAction: {COMMANDS[step]}"


def as_call(step):
    """What it writes where it has tools."""
    return tool_reply((f"c{step}", "run", json.dumps({"command": COMMANDS[step]})))


@pytest.mark.parametrize("shape", [scratchpad, folded])
async def test_a_history_in_one_message_is_recognised(shape):
    """Every step is an action with its result, and the message stands behind the history from its action on."""
    texts = [text_reply(written(step)) for step in range(STEPS)]
    rig = await driven([*texts, text_reply("42")], [chat(*shape(n), tools=()) for n in range(STEPS + 1)])
    assert [kind for _, kind in rig.kinds()] == ["side", *["main"] * STEPS]
    assert len({thread for thread, _ in rig.kinds()}) == 1
    assert rig.session.action_count == STEPS + 1
    assert has_message(rig) == [False, False, *[True] * (STEPS - 1)]
    assert flags(rig) == []
    assert rig.of(AnchorLost) == []
    if shape is scratchpad:
        assert [seen in result for seen, result in zip(SEEN, rig.results(), strict=False)] == [True] * STEPS


@pytest.mark.parametrize("shape", [listed, folded])
async def test_calls_told_of_in_one_message_are_recognised(shape):
    """Where the agent offers tools, a call is known by its arguments."""
    bodies = [chat(*shape(n), tools=("run",)) for n in range(STEPS + 1)]
    rig = await driven([*map(as_call, range(STEPS)), text_reply("42")], bodies)
    assert rig.session.action_count == STEPS + 1
    assert has_message(rig) == [False, False, *[True] * (STEPS - 1)]
    assert flags(rig) == []


async def test_a_title_is_not_taken_for_a_history():
    """A later prompt that holds the words of a title does not continue the title."""
    rig = await driven(
        [text_reply("boats"), as_call(0), text_reply("Done.")],
        [
            chat(system("Write a title."), user(f"A title for: {TASK}"), tools=()),
            chat(RULES, user(f"{TASK} Count the boats. The boats are blue.")),
            chat(RULES, user(f"{TASK} Count the boats. The boats are blue."), calls(("c0", "run")), result("c0")),
        ],
    )
    assert rig.kinds() == [("t1", "side"), ("t2", "main"), ("t2", "main")]


def routed(n):
    """A worker's history."""
    turns = [part for step in range(n) for part in (calls((f"c{step}", "run")), result(f"c{step}", SEEN[step]))]
    return chat(RULES, user(TASK), *turns, tools=("run",))


async def test_a_router_before_the_worker_is_not_the_main_thread_for_long():
    """It offers a tool of its own and never goes on; the worker that states the task does."""
    router = chat(system("Who shall work?"), user(TASK), tools=("route",))
    replies = [tool_reply(("r", "route", '{"to":"worker"}')), *map(as_call, range(STEPS)), text_reply("42")]
    rig = await driven(replies, [router, *[routed(n) for n in range(STEPS + 1)]])
    assert rig.kinds()[0] == ("t1", "main")
    assert [kind for _, kind in rig.kinds()[2:]] == ["main"] * STEPS
    assert rig.of(ModelCalled)[2].thread_change == "promoted"
    assert rig.session.action_count == STEPS + 1
    assert has_message(rig) == [False, False, False, *[True] * (STEPS - 1)]
    assert flags(rig) == []


async def test_a_sub_agent_that_gets_the_task_is_not_promoted():
    """The main thread's own call hands the task over, so that what is done there is part of that action."""
    replies = [tool_reply(("r", "delegate", json.dumps({"prompt": TASK}))), *map(as_call, range(4)), text_reply("42")]
    main = chat(system("You delegate."), user(TASK), tools=("delegate",))
    back = chat(system("You delegate."), user(TASK), calls(("r", "delegate")), result("r"), tools=("delegate",))
    rig = await driven(replies, [main, *[routed(n) for n in range(4)], back])
    assert [kind for _, kind in rig.kinds()] == ["main", *["sub_agent"] * 4, "main"]
    assert rig.session.action_count == 2
    assert flags(rig) == []


async def test_an_agent_that_shows_nothing_of_its_history_is_flagged():
    """It acts and nothing is counted: no number of such a trial is silently taken for the agent's."""
    bodies = [chat(RULES, user(f"{TASK}\nState: {SEEN[n]}"), tools=("run",)) for n in range(STEPS)]
    rig = await driven(list(map(as_call, range(STEPS))), bodies)
    assert flags(rig) == ["actions_uncounted", "injection_lost"]
    assert "4 more were in " in rig.of(TrialFlagged)[0].detail
    assert [event.status for event in rig.of(ClarificationInjected)] == ["skipped"]


async def test_conversations_that_are_never_continued_are_flagged():
    """Without tools nothing says which conversation is the agent's."""
    bodies = [chat(system(f"You are expert {n}."), user(f"Part {n} of the work."), tools=()) for n in range(STEPS)]
    rig = await driven([text_reply(f"Part {n} is done.") for n in range(STEPS)], bodies)
    assert flags(rig) == ["no_main_thread", "actions_uncounted", "injection_lost"]


@pytest.mark.parametrize("ours", [None, "ask_user"])
async def test_a_way_to_ask_that_nobody_answers_is_flagged(ours):
    """A program's own tool to ask is no question of the trial, in no arm; the trial's own tool is none of it."""
    bodies = [chat(RULES, user(TASK), tools=("run", "ask_user", "request_user_input"))]
    bodies.append(
        chat(
            *bodies[0]["messages"],
            calls(("c1", "request_user_input", "{}")),
            result("c1", "unavailable"),
            tools=("run",),
        )
    )
    asked = tool_reply(("c1", "request_user_input", "{}"))
    rig = await driven([asked, text_reply("Done.")], bodies, injection=None, ask_user_tool=ours)
    assert flags(rig) == ["asking_unanswered"]
    detail = rig.of(TrialFlagged)[0].detail
    assert "request_user_input was offered, and called 1 times" in detail
    assert ("ask_user was offered" in detail) == (ours is None)


async def test_a_main_thread_that_never_comes_back_is_flagged():
    """A conversation beside the main thread goes on to the end of the program: nothing of it was counted."""
    bodies = [
        chat(system("You plan."), user(TASK), tools=("plan",)),
        *[chat(RULES, user("Count."), *routed(n)["messages"][2:], tools=("run",)) for n in range(STEPS)],
    ]
    replies = [tool_reply(("p", "plan", "{}")), *map(as_call, range(STEPS))]
    rig = await driven(replies, bodies)
    assert flags(rig) == ["actions_uncounted", "injection_lost"]


async def stateless(**options):
    """The trial of an agent that only sends its state, and whose entry or headers say more."""
    headers = options.pop("headers", [{}] * (STEPS + 1))
    bodies = [chat(RULES, user(f"{TASK}\nState: {n}"), tools=("run",)) for n in range(STEPS + 1)]
    replies = [*map(as_call, range(STEPS)), text_reply("42")]
    return await driven(replies, list(zip(bodies, headers, strict=True)), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"rules": ThreadRules(step="request")},
        {"rules": ThreadRules(step="request", main="You work in a terminal")},
        {"headers": [{"x-lhaw-thread": "main", "x-lhaw-step": str(n)} for n in range(STEPS + 1)]},
    ],
    ids=["step", "step and main", "headers"],
)
async def test_a_declared_step_counts_without_being_shown(options):
    """Each request says that the reply before it was carried out; the message stands at the request's end."""
    rig = await stateless(**options)
    assert rig.session.action_count == STEPS + 1
    assert has_message(rig) == [False, False, *[True] * (STEPS - 1)]
    assert {thread for thread, _ in rig.kinds()} == {"t1"}
    assert flags(rig) == []


async def test_a_step_that_is_asked_for_again_counts_once():
    """The number of the step tells another attempt from the next step."""
    numbers = [1, 2, 2, 3, 3, 4]
    headers = [{"x-lhaw-thread": "main", "x-lhaw-step": str(n)} for n in numbers]
    rig = await stateless(headers=headers)
    assert rig.session.action_count == len(set(numbers))


async def test_the_entry_says_which_conversation_is_the_main_thread():
    """A planner with tools comes first and goes on; the entry names the worker, whose system text is known."""
    planner = [system("You plan."), user(TASK)]
    plan = [calls(("p0", "plan")), result("p0")]
    bodies = [
        chat(*planner, tools=("plan",)),
        chat(*planner, *plan, tools=("plan",)),
        *[routed(n) for n in range(3)],
        chat(*planner, *plan, calls(("p1", "plan")), result("p1"), tools=("plan",)),
    ]
    replies = [*[tool_reply((f"p{n}", "plan", "{}")) for n in range(2)], *map(as_call, range(3)), text_reply("42")]
    rig = await driven(replies, bodies, rules=ThreadRules(main="work in a terminal"))
    assert [kind for _, kind in rig.kinds()] == ["sub_agent", "sub_agent", "main", "main", "main", "sub_agent"]
    assert rig.session.action_count == 3
    assert flags(rig) == []


async def test_the_entry_says_which_header_names_the_thread():
    """Two conversations with equal openings are told apart by a header of the agent's own; its title is a side call."""
    one, two = {"x-run": "a"}, {"x-run": "b"}
    title = chat(system("Write a title."), user(TASK), tools=())
    rig = await driven(
        [text_reply("Title"), as_call(0), tool_reply(("s0", "run", "{}")), as_call(1), text_reply("42")],
        [
            (title, one),
            (routed(0), one),
            (routed(0), two),
            (chat(RULES, user(TASK), calls(("s0", "run")), result("s0"), tools=("run",)), two),
            (routed(1), one),
        ],
        rules=ThreadRules(thread="X-Run"),
    )
    assert [kind for _, kind in rig.kinds()] == ["side", "main", "sub_agent", "sub_agent", "main"]
    assert rig.session.action_count == 2


async def test_sub_agents_count_on_request():
    """Their calls are actions of the trial then, and so is the call that started them."""
    replies = [tool_reply(("r", "delegate", '{"prompt":"Count."}')), *map(as_call, range(3)), text_reply("42")]
    main = chat(RULES, user(TASK), tools=("delegate",))
    inner = [chat(user("Count."), *routed(n)["messages"][2:], tools=("run",)) for n in range(3)]
    back = chat(RULES, user(TASK), calls(("r", "delegate")), result("r"), tools=("delegate",))
    apart = await driven(replies, [main, *inner, back])
    counted = await driven(replies, [main, *inner, back], rules=ThreadRules(sub_agents="counted"))
    assert apart.session.action_count == 2
    assert [name for _, name, _ in counted.actions()] == ["run", "run", "delegate", "message", "run"]


async def test_a_side_call_that_goes_on_with_tools_is_promoted():
    """A conversation that began without tools, and is continued with them, is the agent's own."""
    opening = [RULES, user(TASK)]
    rig = await driven(
        [text_reply("I will count."), as_call(0), text_reply("42")],
        [
            chat(*opening, tools=()),
            chat(*opening, says("I will count."), user("Go on."), tools=("run",)),
            chat(*opening, says("I will count."), user("Go on."), calls(("c0", "run")), result("c0"), tools=("run",)),
        ],
    )
    assert rig.kinds() == [("t1", "side"), ("t1", "main"), ("t1", "main")]
    assert rig.of(ModelCalled)[1].thread_change == "promoted"
    assert rig.session.action_count == 3
