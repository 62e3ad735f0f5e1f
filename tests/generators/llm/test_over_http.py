"""Extraction and rewriting through a model behind real HTTP: good replies, bad ones, and a server that misbehaves."""

import pytest

from lhaw_record.generators.errors import ExtractionFailed, NotRemovable, RewritingFailed
from lhaw_record.generators.protocol import Extraction
from lhaw_record.recorder.events import ModelCalled, ModelFailed, ModelResponded
from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from lhaw_record.runners.base.errors import ModelBoundaryError
from tests.generators.llm.question_setup import OUT, PROMPT, Replies, caller_of, extracted, rewritten, segments_reply
from tests.support.canned_model import MemoryRecording
from tests.support.chat_server import ChatServer
from tests.support.faults import Fault
from tests.support.generation_model import asked_of, rewriting_reply

GOOD = segments_reply("out.csv", "two decimals")
REWRITTEN = "Read sales.csv and write the totals, rounded to two decimals."
ASKED = [{"segment_id": "S1", "questions": ["Where should the totals go?"]}]


async def ask_extractor(model, faults=(), prompt=PROMPT, **changes):
    """What an extraction gives, and what it records."""
    recording = MemoryRecording()
    async with ChatServer(model, faults) as server:
        return await extracted(caller_of(server.url, recording, **changes), prompt), recording.events


async def test_segments_come_from_a_good_reply():
    """One recorded call under role extractor; its usage is the caller's, and the task is in it as it is."""
    model, recording = Replies(GOOD), MemoryRecording()
    async with ChatServer(model) as server:
        caller = caller_of(server.url, recording)
        found = await extracted(caller)
    assert [segment.value for segment in found.segments] == ["out.csv", "two decimals"]
    assert found.rejected == ()
    called, responded = recording.events
    assert (called.role, called.thread_id, called.model) == ("extractor", "thread", "local-model")
    assert caller.total_usage == caller.usage_with_recalled
    assert (responded.text, caller.total_usage.cost_usd) == (GOOD, responded.usage.cost_usd)
    assert asked_of(model.bodies[0]).task == PROMPT


async def test_prose_is_asked_for_once_more():
    """The model sees its own words and what is wrong; both replies are recorded as such."""
    model = Replies("I would take out the file names.", f"Of course:\n```json\n{GOOD}\n```")
    found, events = await ask_extractor(model)
    assert len(found.segments) == 2
    assert model.said(1)[2] == "assistant: I would take out the file names."
    assert 'it has no JSON object with the key "segments"' in model.said(1)[3]
    assert [type(event) for event in events] == [ModelCalled, ModelResponded] * 2
    assert len(rebuild_requests(events)) == 2


async def test_prose_twice_is_no_extraction():
    """The last reply is a failed call with its text and price; nothing is made up, and the cost is known."""
    recording = MemoryRecording()
    async with ChatServer(Replies("Hm.", "I am sorry.")) as server:
        caller = caller_of(server.url, recording)
        with pytest.raises(ExtractionFailed, match=r"the extractor gave no segments in 2 replies: .*thread\.2"):
            await extracted(caller)
    failed = recording.events[-1]
    assert isinstance(failed, ModelFailed)
    assert (failed.error_kind, failed.is_retried) == ("malformed_segments", False)
    assert "I am sorry." in failed.message
    assert caller.total_usage.cost_usd > recording.events[1].usage.cost_usd


async def test_each_wrong_segment_is_refused_by_itself():
    """Wrong scores, unknown dimensions, invented values and repetitions cost no second request."""
    reply = segments_reply("out.csv", "report.csv", "out.csv")
    reply = reply.replace("]}", ", " + segments_reply("sales.csv", criticality=0.7)[14:])
    found, events = await ask_extractor(Replies(reply))
    assert [segment.value for segment in found.segments] == ["out.csv"]
    assert [each.value for each in found.rejected] == ["report.csv", "out.csv", "sales.csv"]
    assert "criticality is 0.7" in found.rejected[2].reason
    assert len(events) == 2


async def test_a_reply_of_which_nothing_can_be_taken_is_asked_for_once_more():
    """The reasons are told; where the second is no better, the segments are none and the reasons are kept."""
    model = Replies(segments_reply("out.csv", criticality="high"), GOOD)
    found, _ = await ask_extractor(model)
    assert len(found.segments) == 2
    assert "'out.csv': criticality is 'high'; it must be 0, 0.5 or 1" in model.said(1)[3]
    found, events = await ask_extractor(Replies(segments_reply("report.csv")))
    assert (found.segments, [each.value for each in found.rejected]) == ((), ["report.csv"])
    assert [type(event) for event in events] == [ModelCalled, ModelResponded] * 2


async def test_no_segment_is_an_answer():
    """An empty list is taken at its word."""
    found, events = await ask_extractor(Replies('{"segments": []}'))
    assert found == Extraction(segments=())
    assert len(events) == 2


async def test_a_reply_that_ends_early_is_asked_for_once_more_and_never_taken():
    """What came before its end may not be all; whoever cuts it twice gives no segments."""
    cut = segments_reply("two decimals", "out.csv").replace('"out.csv"', '"out.csv') + " and so on"
    model = Replies(cut, GOOD)
    found, _ = await ask_extractor(model)
    assert len(found.segments) == 2
    assert "it ends inside a segment" in model.said(1)[3]
    with pytest.raises(ExtractionFailed, match="it ends inside a segment"):
        await ask_extractor(Replies(cut))


async def test_a_reply_at_its_limit_is_cut_whatever_the_server_says():
    """The finish reason is "stop", but all tokens are used: it is asked for again with twice the room."""
    limited = {"temperature": 0, "max_tokens": 100}
    short = segments_reply("out.csv")
    model = Replies(short + " " * (400 - len(short)), short)
    found, events = await ask_extractor(model, parameters=limited)
    assert [segment.value for segment in found.segments] == ["out.csv"]
    assert [body["max_tokens"] for body in model.bodies] == [100, 200]
    assert [event.finish_reason for event in events if isinstance(event, ModelResponded)] == ["stop", "stop"]


@pytest.mark.parametrize(
    ("faults", "kinds"),
    [
        ([Fault(kind="rate_limit", retry_after="0"), Fault(kind="server_error")], ["rate_limit", "server_error"]),
        ([Fault(kind="drop")], ["connection"]),
        ([Fault(kind="not_json"), Fault(kind="no_choices")], ["malformed_reply", "malformed_reply"]),
        ([Fault(kind="slow", seconds=0.05)], []),
    ],
)
async def test_faults_of_the_server_are_retried(faults, kinds):
    """Rate limits, server errors, cut connections and broken bodies are repeated; slow replies are kept."""
    found, events = await ask_extractor(Replies(GOOD), faults)
    assert len(found.segments) == 2
    failures = [event for event in events if isinstance(event, ModelFailed)]
    assert [(event.error_kind, event.is_retried) for event in failures] == [(kind, True) for kind in kinds]


async def test_a_server_that_never_answers_is_given_up():
    """After the last attempt the failure is that of the model, not of the task."""
    with pytest.raises(ModelBoundaryError, match="no reply in time") as caught:
        await ask_extractor(Replies(GOOD), [Fault(kind="hang", times=None)], request_timeout_s=0.2)
    assert (caught.value.kind, caught.value.is_retry_owed) == ("timeout", True)


async def test_a_refused_key_is_told_as_such():
    """Whoever runs many extractions stops them at it."""
    with pytest.raises(ModelBoundaryError) as caught:
        await ask_extractor(Replies(GOOD), [Fault(kind="unauthorised")])
    assert caught.value.kind == "endpoint_down"
    assert "not authorised" in str(caught.value)


async def test_a_prompt_that_is_too_long_fails_alone():
    """The context window is a limit of this task; the others go on."""
    for act, error in ((extracted, ExtractionFailed), (rewritten, RewritingFailed)):
        async with ChatServer(Replies(GOOD), [Fault(kind="context_window")]) as server:
            with pytest.raises(error, match="exceeds the model's context window"):
                await act(caller_of(server.url, MemoryRecording()))


async def test_an_empty_prompt_costs_nothing():
    """No request is sent for it."""
    model = Replies(GOOD)
    with pytest.raises(ExtractionFailed, match="task t has an empty prompt"):
        await ask_extractor(model, prompt=" \r\n")
    assert model.bodies == []


async def test_long_prompts_and_other_scripts_arrive_as_they_are():
    """100 kB, Windows line endings and any script; values are found in it."""
    prompt = "Прочитай отчёт.xlsx.\r\n" + "数字を報告書.xlsxに書く。\r\n" * 4_000 + "اقرأ الملف جدول.csv\r\n"
    model = Replies(segments_reply("отчёт.xlsx", "報告書.xlsx", "جدول.csv"))
    found, _ = await ask_extractor(model, prompt=prompt)
    assert [segment.value for segment in found.segments] == ["отчёт.xlsx", "報告書.xlsx", "جدول.csv"]
    assert asked_of(model.bodies[0]).task == prompt


async def test_a_rewriting_comes_back_in_the_original_form():
    """Severity and segments are in the request; the line ending that the model lost is back."""
    model, recording = Replies(rewriting_reply(f"```\n{REWRITTEN}\n```", ASKED)), MemoryRecording()
    async with ChatServer(model) as server:
        made = await rewritten(caller_of(server.url, recording, "rewriter"))
    asked = asked_of(model.bodies[0])
    assert (made.prompt, made.failure_mode) == (f"{REWRITTEN}\r\n", "It goes on with a guess.")
    assert [each.questions for each in made.expected_questions] == [("Where should the totals go?",)]
    assert (asked.task, asked.severity, asked.problems) == (PROMPT, "delete", None)
    assert [shown["value"] for shown in asked.segments] == [OUT.value]
    assert recording.events[0].role == "rewriter"


async def test_a_second_attempt_is_told_what_was_wrong():
    """The checks' messages of the attempt before stand in the request."""
    model = Replies(rewriting_reply(REWRITTEN, ASKED))
    async with ChatServer(model) as server:
        await rewritten(caller_of(server.url, MemoryRecording(), "rewriter"), ["out.csv remains", "too short"])
    assert asked_of(model.bodies[0]).problems == "out.csv remains\ntoo short"


async def test_a_rewriting_without_questions_is_asked_for_once_more():
    """What is missing is named; a reply that was cut off is never taken for a whole prompt."""
    model = Replies(rewriting_reply(REWRITTEN, []), rewriting_reply(REWRITTEN, ASKED))
    async with ChatServer(model) as server:
        made = await rewritten(caller_of(server.url, MemoryRecording(), "rewriter"))
    assert made.prompt == f"{REWRITTEN}\r\n"
    assert "no question for S1" in model.said(1)[3]
    async with ChatServer(Replies(rewriting_reply(REWRITTEN, ASKED)[:50])) as server:
        with pytest.raises(RewritingFailed, match="the rewriter gave no rewriting in 2 replies: it ends before"):
            await rewritten(caller_of(server.url, MemoryRecording(), "rewriter"))


async def test_that_it_cannot_be_done_is_recorded_and_paid():
    """The reply with its reason and its price, like any other answer."""
    recording = MemoryRecording()
    async with ChatServer(Replies('{"underspecified_prompt": "", "impossible": "Nobody would ask."}')) as server:
        with pytest.raises(NotRemovable, match="Nobody would ask"):
            await rewritten(caller := caller_of(server.url, recording, "rewriter"))
    _, responded = recording.events
    assert "Nobody would ask" in responded.text
    assert caller.usage_with_recalled.cost_usd == responded.usage.cost_usd > 0
