"""Agents that compact their history: the shapes of their sources and their traffic, with invented texts.

Every case has ten steps and a compaction after the fifth; the model writes the summary. All ten actions count, the
message stays in every later request, and the record says what happened.
"""

import pytest

from lhaw_record.recorder.events import AnchorLost, InjectionReapplied, ModelCalled, TrialFlagged
from tests.runners.models.gateway.rigs import canned, injection_after
from tests.runners.models.gateway.shapes import TASK, calls, chat, result, says, system, user
from tests.support.canned_model import text_reply, tool_reply

CHAT = "v1/chat/completions"
BLUE = "By the way: blue."
SUMMARY = "## Goal\n- Count boats\n\n## Done\n- The first five harbours\n\n## Next\n- The other five, then the report"
RULES = system("You work in a terminal.")
STEPS, BEFORE = 10, 5


def steps(first, last):
    """What an agent makes of the replies of some steps."""
    return [
        part for n in range(first, last + 1) for part in (calls((f"c{n}", "work")), result(f"c{n}", f"harbour {n}"))
    ]


def told(first, last):
    """The same, as a text."""
    return "\n\n".join(f"[Assistant tool call]: work({{}})\n[Tool result]: harbour {n}" for n in range(first, last + 1))


def opencode():
    """OpenCode: the old part as one text to a summariser; then the summary as an assistant turn, a step, a nudge."""
    summarise = chat(system("You summarise."), user(f"<conversation>\n[User]: {TASK}\n\n{told(1, 4)}"), tools=())
    opening = [RULES, user("What did we do so far?"), says(SUMMARY), *steps(5, 5), user("Continue, or stop.")]
    return [summarise], opening, SUMMARY


def opencode_without_a_tail():
    """OpenCode where the last step was too long to be kept: its call is in nothing but the text to the summariser."""
    summarise = chat(system("You summarise."), user(f"<conversation>\n[User]: {TASK}\n\n{told(1, 5)}"), tools=())
    return [summarise], [RULES, user("What did we do so far?"), says(SUMMARY), user("Continue, or stop.")], SUMMARY


def codex():
    """Codex: the history and a prompt without tools; then the user's messages and the summary behind a sentence."""
    summarise = chat(RULES, user(TASK), *steps(1, 5), user("Create a handoff summary."), tools=())
    return [summarise], [RULES, user(TASK), user(f"Another model began and left this:\n{SUMMARY}")], SUMMARY


def claude_code():
    """Claude Code: the history and a prompt, with its tools; then the summary without the analysis before it."""
    analysis = "\n".join(f"Then I looked at harbour number {n} and counted all boats there." for n in range(1, 9))
    written = f"<analysis>\n{analysis}\n</analysis>\n\n<summary>\n{SUMMARY}\n</summary>"
    summarise = chat(RULES, user(TASK), *steps(1, 5), user("Write a detailed summary of the conversation."))
    return [summarise], [RULES, user(f"This session is continued from another one.\nSummary:\n{SUMMARY}")], written


def openhands():
    """OpenHands' condenser: events as one text, no tools; then the first message, the summary, the tail."""
    summarise = chat(user(f"<EVENT id=1>\n{told(1, 4)}\n</EVENT>\nNow summarize the events."), tools=())
    return [summarise], [RULES, user(TASK), user(SUMMARY), *steps(5, 5)], SUMMARY


def gemini_cli():
    """Gemini CLI: the old part and a prompt, then the same with the summary to be checked; both without tools."""
    rules, first = system("You compress."), [user(TASK), *steps(1, 4), user("Generate a <state_snapshot>.")]
    check = chat(rules, *first, says(SUMMARY), user("Critically evaluate it."), tools=())
    opening = [RULES, user(SUMMARY), says("Got it. Thanks for the additional context!"), *steps(5, 5)]
    return [chat(rules, *first, tools=()), check], opening, SUMMARY


AGENTS = [opencode, opencode_without_a_tail, codex, claude_code, openhands, gemini_cli]


@pytest.fixture(params=AGENTS, ids=[agent.__name__ for agent in AGENTS])
async def compacted(request):
    """The trial of one agent, at its end."""
    extra, opening, summary = request.param()
    work = [tool_reply((f"c{n}", "work", "{}")) for n in range(1, STEPS + 1)]
    replies = [*work[:BEFORE], *[text_reply(summary)] * len(extra), *work[BEFORE:], text_reply("Done.")]
    rig, _ = canned(*replies, prompt=TASK, injection=injection_after(3))
    before = [chat(RULES, user(TASK), *steps(1, n)) for n in range(BEFORE)]
    after = [chat(*opening, *steps(BEFORE + 1, n)) for n in range(BEFORE, STEPS + 1)]
    async with rig.client() as client:
        for body in (*before, *extra, *after):
            assert (await client.post(CHAT, json=body)).status_code == 200
    await rig.session.close("submitted")
    rig.check_conversations()
    return rig, len(after)


async def test_every_action_counts(compacted):
    """Those before and after, the one in between, and the last text; the summary is none of them."""
    rig, _ = compacted
    assert [name for _, name, _ in rig.actions()] == [*["work"] * STEPS, "message"]
    assert rig.of(TrialFlagged) == []


async def test_the_main_thread_goes_on(compacted):
    """Its calls stay in one thread, and the first one after the compaction says so."""
    rig, after = compacted
    later = rig.of(ModelCalled)[-after:]
    assert {(event.thread_id, event.call_kind) for event in later} == {("t1", "main")}
    assert [event.thread_change for event in later] == ["compacted", *[None] * (after - 1)]


async def test_the_message_stays(compacted):
    """Each later request has it once, behind the first message of the user; the loss of its place is recorded once."""
    rig, after = compacted
    for body in rig.session.upstream.bodies[-after:]:
        assert body["messages"].count(user(BLUE)) == 1
    assert len(rig.of(AnchorLost)) == len(rig.of(InjectionReapplied)) == 1


async def test_an_agent_that_writes_commands_as_text_may_compact_often():
    """Its texts are actions and its summaries are none: a trial with five of them is not flagged as badly counted."""
    rig, model = canned(text_reply("Done."), prompt=TASK)
    opening = [RULES, user(TASK)]
    async with rig.client() as client:

        async def ask(conversation, text):
            model.answer = text
            assert (await client.post(CHAT, json=chat(*conversation, tools=()))).status_code == 200

        async def respond(request):
            return text_reply(model.answer)

        model.respond = respond
        for number in range(1, 6):
            history = list(opening)
            for step in range(3):
                await ask(history, f"run step {number}.{step} of the work")
                history += [says(f"run step {number}.{step} of the work"), user(f"harbour {number}.{step}")]
            await ask([*history, user("Summarise what you did.")], f"{SUMMARY} Part {number}.")
            opening = [RULES, user(TASK), user(f"Before:\n{SUMMARY} Part {number}.")]
        await ask(opening, "Done.")
    await rig.session.close("submitted")
    assert [kind for kind, _, _ in rig.actions()] == ["text"] * 16
    assert rig.of(TrialFlagged) == []
