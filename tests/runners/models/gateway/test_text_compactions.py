"""Agents without tools that compact their history: nothing but the texts tells a summariser from the agent itself.

Every case has ten steps and a compaction after the fifth, in the shape that the agent's source or its traffic has. The
ten steps and the last text are the actions, the message stays in the agent's requests, and nothing is flagged.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.recorder.events import ModelCalled, TrialFlagged
from lhaw_record.runners.base.text.normalization import elements
from lhaw_record.runners.experiment.values import ThreadRules
from lhaw_record.runners.models.gateway import equality
from tests.runners.models.gateway.rigs import canned, injection_after
from tests.runners.models.gateway.shapes import TASK, chat, says, system, user
from tests.support.canned_model import text_reply

CHAT = "v1/chat/completions"
BLUE = "By the way: blue."
SUMMARY = "## Goal\n- Count boats\n\n## Done\n- The first five harbours\n\n## Next\n- The other five, then the report"
QUESTIONS = "1. Which harbours have been counted so far exactly?\n2. Which format does the report need to have?"
ANSWERS = "1. The first five harbours have been counted by me.\n2. The report is one plain line of text in the end."
RULES = system("You work in a terminal.")
STEPS, BEFORE = 10, 5


def steps(first, last):
    """What an agent makes of the replies of some steps."""
    return [part for n in range(first, last + 1) for part in (says(f"run work {n}"), user(f"harbour {n}"))]


def told(first, last):
    """The same, as a text."""
    return "\n".join(f"# ASSISTANT\nrun work {n}\n# USER\nharbour {n}" for n in range(first, last + 1))


def ask(*messages):
    """A request without tools."""
    return chat(*messages, tools=())


def langchain(opening=RULES):
    """LangChain's SummarizationMiddleware: one message of instructions and history; then the summary and the tail."""
    asked = ask(user(f"<role>\nContext Extraction Assistant\n</role>\n<messages>\n{TASK}\n{told(1, 4)}\n</messages>"))
    begin = [opening] if opening else []
    return [(asked, SUMMARY)], [*begin, user(f"Here is a summary of the conversation:\n\n{SUMMARY}"), *steps(5, 5)]


def langchain_without_a_system_text():
    """The same agent where nothing but the first message tells its requests from those of the summariser."""
    return langchain(None)


def aider():
    """Aider's ChatSummary: its own system text and the history as one text; then the summary, "Ok." and the result."""
    asked = ask(system("Briefly summarize this partial conversation."), user(f"# USER\n{TASK}\n{told(1, 5)}"))
    after = [RULES, user(f"I spoke to you previously about a number of things.\n{SUMMARY}"), says("Ok.")]
    return [(asked, SUMMARY)], [*after, user("harbour 5")]


def openhands():
    """OpenHands without function calling: events as one text; then the first message, the summary, the tail."""
    asked = ask(user(f"<EVENT id=1>\n{told(1, 4)}\n</EVENT>\nNow summarize the events."))
    return [(asked, SUMMARY)], [RULES, user(TASK), user(SUMMARY), *steps(5, 5)]


def in_the_history():
    """A prompt behind the history, below the same system text; then the summary in a user's message, and the tail."""
    asked = ask(RULES, user(TASK), *steps(1, 5), user("Create a handoff summary."))
    return [(asked, SUMMARY)], [RULES, user(TASK), user(f"Another model left this:\n{SUMMARY}"), *steps(5, 5)]


def checked():
    """The history below a summariser's system text, then the same with the summary, to be checked."""
    rules, first = system("You compress."), [user(TASK), *steps(1, 4), user("Generate a <state_snapshot>.")]
    check = ask(rules, *first, says(SUMMARY), user("Critically evaluate it."))
    after = [RULES, user(SUMMARY), says("Got it. Thanks for the additional context!"), *steps(5, 5)]
    return [(ask(rules, *first), SUMMARY), (check, SUMMARY)], after


def planning():
    """Smolagents' planning: the history below a planner's system text; the plan is quoted, and nothing is left out."""
    asked = ask(system("You update the plan."), user(TASK), *steps(1, 5), user("Write the new plan."))
    plan = says(f"Here are the facts and the plan:\n```\n{SUMMARY}\n```")
    return [(asked, SUMMARY)], [RULES, user(TASK), *steps(1, 5), plan, user("Now proceed and carry out this plan.")]


def terminus():
    """Terminus 2: a summary in the history, questions in a new conversation, the answers in the history again."""
    opening = [RULES, user(TASK)]
    hand_off = [*opening, *steps(1, 5), user("You are about to hand off your work to another AI agent.")]
    pick_up = user(f"You are picking up work from a previous AI agent on this task: {TASK}\n\nSummary:\n{SUMMARY}")
    questions = user(f"The next agent has a few questions for you:\n\n{QUESTIONS}")
    asked = [
        (ask(*hand_off), SUMMARY),
        (ask(pick_up), QUESTIONS),
        (ask(*hand_off, says(SUMMARY), questions), ANSWERS),
    ]
    return asked, [RULES, pick_up, says(QUESTIONS), user(f"Here are the answers:\n\n{ANSWERS}\n\nContinue.")]


AGENTS = [langchain, langchain_without_a_system_text, aider, openhands, in_the_history, checked, planning]
DECLARED = ThreadRules(side="^(You are about to hand off|You are picking up work|The next agent has a few questions)")


async def worked(agent, opening, *, times=1, rules=None):
    """The trial of an agent that asks the same of its summariser some times in a row."""
    aside, after = agent()
    asides = [each for _ in range(times) for each in aside]
    begun = [(ask(*opening, user(TASK), *steps(1, n)), f"run work {n + 1}") for n in range(BEFORE)]
    late = range(BEFORE, STEPS + 1)
    then = [(ask(*after, *steps(BEFORE + 1, n)), f"run work {n + 1}" if n < STEPS else "Done.") for n in late]
    calls = [*begun, *asides, *then]
    replies = [text_reply(text) for _, text in calls]
    rig, _ = canned(*replies, prompt=TASK, injection=injection_after(3), rules=rules)
    async with rig.client() as client:
        for body, _ in calls:
            assert (await client.post(CHAT, json=body)).status_code == 200
    await rig.session.close("submitted")
    rig.check_conversations()
    return rig, len(asides), len(then)


def check(rig, asides, after):
    """The ten steps and the last text are actions, in one thread, and the message is in all of its later requests."""
    assert rig.session.action_count == STEPS + 1
    results = {n: result for n, result in enumerate(rig.results(), start=1) if n not in (BEFORE, STEPS + 1)}
    assert results == {n: f"harbour {n}" for n in results}  # that of the last step before may be only in the summary
    assert rig.of(TrialFlagged) == []
    later = rig.of(ModelCalled)[-after:]
    assert {(event.thread_id, event.call_kind) for event in later} == {("t1", "main")}
    for body in rig.session.upstream.bodies[-after:]:
        assert body["messages"].count(user(BLUE)) == 1
    return rig.of(ModelCalled)[BEFORE : BEFORE + asides], later


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("agent", AGENTS, ids=[agent.__name__ for agent in AGENTS])
async def test_a_summary_is_no_action(agent, times):
    """Once, and where the summariser is asked several times, as an agent does that rejects a summary."""
    rig, asides, after = await worked(agent, [] if agent is langchain_without_a_system_text else [RULES], times=times)
    aside, later = check(rig, asides, after)
    if agent is not in_the_history:  # nothing tells that one from a step, until the history has been replaced
        assert {event.call_kind for event in aside} == {"side"}
    compacted = [event.thread_change for event in later]
    assert compacted == [None if agent is planning else "compacted", *[None] * (after - 1)]


async def test_the_entry_says_which_requests_are_side_calls():
    """Terminus 2 asks for its summary in the history and goes on from the last questions: only its words are known."""
    rig, asides, after = await worked(terminus, [RULES], rules=DECLARED)
    aside, _ = check(rig, asides, after)
    assert {event.call_kind for event in aside} == {"side"}


async def test_an_agent_that_goes_on_in_another_mode_keeps_its_actions():
    """Other system texts may be a mode instead of a summariser: three steps on, all of them count."""
    modes = [system("You are the architect and write no code."), system("Now edit files; say which.")]
    calls = [(ask(modes[n > 4], user(TASK), *steps(1, n)), f"run work {n + 1}") for n in range(STEPS)]
    rig, _ = canned(*[text_reply(text) for _, text in calls], prompt=TASK, injection=injection_after(3))
    async with rig.client() as client:
        for body, _ in calls:
            assert (await client.post(CHAT, json=body)).status_code == 200
    await rig.session.close("submitted")
    rig.check_conversations()
    assert rig.session.action_count == STEPS
    assert rig.of(TrialFlagged) == []
    assert [kind for _, kind in rig.kinds()] == ["side", *["main"] * 4, *["side"] * 3, *["main"] * 2]


PIECES = [
    "a",
    "Z",
    "9",
    "_",
    " ",
    "\\",
    "n",
    "\n",
    "ß",
    "Σ",
    "ς",
    "İ",
    "“",
    "\u200b",
    "\ud800",
    "²",
    "漢",
    "<a>",
    "</a>",
    "<b>",
]


@given(st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
def test_letters_and_tags_are_those_of_the_plain_patterns(text):
    """Both are found without a search that takes longer than the text is long, and are the same."""
    plain = re.sub(r"[\W_]+", "", re.sub(r"\\[nrt]", " ", text)).lower()
    assert equality._words(text) == plain
    found = [text[begin:end] for _, begin, end, _ in elements(text, equality._TAG)]
    assert found == [inner for _, inner in re.findall(r"(?s)<(\w+)>(.*?)</\1>", text)]


def test_tags_that_are_never_closed_are_not_looked_for():
    """A client chooses their number and names: each would be looked for in the whole text."""

    class Text(str):
        __slots__ = ()

        def find(self, *_):
            raise AssertionError("looked for an end that is not there")

    assert not list(elements(Text("".join(f"<t{number}></x>" for number in range(100))), equality._TAG))
