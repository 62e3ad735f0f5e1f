"""Traces, parsed by OpenTelemetry's own protocol classes."""

import json

from lhaw_record.recorder.transfer.otlp import is_timed_trial, trace_of
from tests.recorder.transfer.test_otlp import some_store, streams
from tests.runners.imports.files import write
from tests.support.foreign_readers import spans
from tests.support.needs import needs

pytestmark = needs("formats")


def test_the_protocol_accepts_every_span(tmp_path):
    """No unknown field, ids of 16 and 8 bytes, known kinds; parents are there, and no span ends before it begins."""
    written = [trace_of(each) for each in streams(some_store()) if each[0].trial_id and is_timed_trial(each)]
    found = spans(write(tmp_path / "t.jsonl", "".join(json.dumps(each) + "\n" for each in written)))
    assert len(found) == sum(len(each["resourceSpans"][0]["scopeSpans"][0]["spans"]) for each in written)
    ids = {(each["trace"], each["id"]) for each in found}
    assert {(len(trace), len(span)) for trace, span in ids} == {(32, 16)}
    assert all((each["trace"], each["parent"]) in ids for each in found if each["parent"])
    assert all(0 < each["start"] <= each["end"] for each in found)
    assert {each["kind"] for each in found} == {"SPAN_KIND_INTERNAL", "SPAN_KIND_CLIENT"}
    (asked,) = [each for each in found if each["name"] == "execute_tool ask_user"]
    assert asked["attributes"]["gen_ai.tool.call.id"] == "t1"
