"""A trial as OpenTelemetry spans."""

import json

import msgspec
import pytest

from lhaw_record.recorder.events import ActionFinished, ModelFailed, ModelResponded
from lhaw_record.recorder.events.values import Usage
from lhaw_record.recorder.transfer.otlp import is_timed_trial, trace_of
from tests.analytics.make_store import Store


def streams(store):
    """The events of each stream."""
    found = {}
    for each in store.envelopes:
        found.setdefault(each.stream_id, []).append(each)
    return list(found.values())


def spans_of(stream):
    """The spans of a stream, with their attributes as a mapping."""
    ((scoped,),) = [each["scopeSpans"] for each in trace_of(stream)["resourceSpans"]]
    return [{**span, "attributes": {a["key"]: a["value"] for a in span["attributes"]}} for span in scoped["spans"]]


def some_store():
    """A trial with a question, one whose model failed, one that goes on."""
    store = Store(trials=1)
    store.task("t", (1.0,))
    store.variant("t", "v", "goal")
    store.trial("v", "ask_user", 0, actions=("ask_user S1 + bash ls", "broken bash", "say done", "submit"))
    store.trial("v", "underspecified", 0, ends="failed")
    store.trial("v", "underspecified", 1, ends="running")
    return store


def test_a_trial_is_one_trace():
    """The agent's span holds one for each model call and tool call; a question is an event; a broken call an error."""
    asked, failed, running = [each for each in streams(some_store()) if each[0].trial_id]
    assert (is_timed_trial(asked), is_timed_trial(failed), is_timed_trial(running)) == (True, True, False)
    spans = spans_of(asked)
    root, *inner = spans
    assert [span["name"] for span in spans] == [
        "invoke_agent a",
        "chat m",
        "execute_tool ask_user",
        "execute_tool bash",
        "chat m",
        "execute_tool bash",
        "chat m",
        "chat m",
        "execute_tool submit",
    ]
    assert {span["parentSpanId"] for span in inner} == {root["spanId"]}
    assert "parentSpanId" not in root
    assert len({span["spanId"] for span in spans}) == len(spans)
    assert {span["traceId"] for span in spans} == {root["traceId"]}
    assert [event["name"] for event in root["events"]] == [
        "lhaw.question_asked",
        "lhaw.question_answered",
        "gen_ai.evaluation.result",
    ]
    assert inner[0]["attributes"]["gen_ai.usage.input_tokens"] == {"intValue": "10"}
    assert ["status" in span for span in inner] == [False, False, False, False, True, False, False, False]
    last = spans_of(failed)[-1]
    assert (last["status"]["code"], last["attributes"]["error.type"]) == (2, {"stringValue": "timeout"})


def of(event_type, store):
    """The place of the first event of a type in the first stream of a trial, and that stream."""
    stream = next(each for each in streams(store) if each[0].trial_id)
    return next(place for place, each in enumerate(stream) if isinstance(each.event, event_type)), stream


def test_a_failed_call_has_what_it_used():
    """A stream that broke off was paid for."""
    place, stream = of(ModelResponded, some_store())
    event = stream[place].event
    usage = Usage(input_tokens=11, output_tokens=3, cost_usd=0.5, reasoning_tokens=2)
    failure = ModelFailed(
        call_id=event.call_id,
        role=event.role,
        error_kind="broken_stream",
        message="it broke off",
        is_retried=False,
        latency_ms=1.0,
        usage=usage,
    )
    stream[place] = msgspec.structs.replace(stream[place], event=failure)
    found = spans_of(stream)[1]["attributes"]
    assert found["gen_ai.usage.input_tokens"] == {"intValue": "11"}
    assert found["gen_ai.usage.reasoning.output_tokens"] == {"intValue": "2"}
    assert found["lhaw.cost_usd"] == {"doubleValue": 0.5}


@pytest.mark.parametrize("end", [ModelResponded, ActionFinished])
def test_a_call_without_an_end_is_an_unfinished_span(end):
    """It lasts until the attempt ended, in its place among the others."""
    place, stream = of(end, some_store())
    names = [span["name"] for span in spans_of(stream)]
    del stream[place]
    spans = spans_of(stream)
    assert [span["name"] for span in spans] == names
    (found,) = [span for span in spans if span["attributes"].get("error.type") == {"stringValue": "unfinished"}]
    assert found["endTimeUnixNano"] == spans[0]["endTimeUnixNano"]
    assert found["status"]["code"] == 2


def test_spans_are_the_same_each_time():
    """Sending twice is sending once: a collector sees the same ids."""
    stream = next(each for each in streams(some_store()) if each[0].trial_id)
    assert json.dumps(trace_of(stream)) == json.dumps(trace_of(stream))
