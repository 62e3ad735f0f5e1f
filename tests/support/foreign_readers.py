"""Readers of formats, which have an environment of their own."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.needs import FORMATS_PYTHON

_SAMPLES = """
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries
found = []
for path in sorted(Path(sys.argv[1]).glob("*.eval")):
    log = read_eval_log(str(path))
    assert read_eval_log(str(path), header_only=True).eval == log.eval
    assert len(read_eval_log_sample_summaries(str(path))) == len(log.samples)
    for one in log.samples:
        sample = read_eval_log_sample(str(path), one.id, one.epoch)
        found.append({
            "condition": sample.metadata["condition"],
            "success": sample.scores["success"].as_float(),
            "texts": [message.text for message in sample.messages],
            "calls": [[c.function, c.arguments] for m in sample.messages for c in getattr(m, "tool_calls", None) or ()],
            "events": [event.event for event in sample.events],
            "asked": [len(event.input) for event in sample.events if event.event == "model"],
            "explanations": [score.explanation for score in sample.scores.values()],
            "mean": log.results.scores[0].metrics["mean"].value,
        })
print(json.dumps(found))
"""


def inspect_samples(folder: Path) -> list[dict[str, Any]]:
    """The samples of all logs in a folder, as inspect_ai reads them."""
    return _asked(_SAMPLES, folder)


def _asked(code: str, path: Path) -> Any:
    command = [str(FORMATS_PYTHON), "-c", f"import json, sys\nfrom pathlib import Path\n{code}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


_SPANS = """
import base64
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

def as_protobuf(value):  # OTLP writes ids in hexadecimal, protobuf's own JSON in base64
    if isinstance(value, list):
        return [as_protobuf(each) for each in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {k: base64.b64encode(bytes.fromhex(v)).decode() if k in ids else as_protobuf(v) for k, v in value.items()}

found = []
for line in Path(sys.argv[1]).read_text().splitlines():
    request = Parse(json.dumps(as_protobuf(json.loads(line))), ExportTraceServiceRequest())
    for span in request.resource_spans[0].scope_spans[0].spans:
        values = {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}
        found.append({
            "trace": span.trace_id.hex(),
            "id": span.span_id.hex(),
            "parent": span.parent_span_id.hex(),
            "name": span.name,
            "kind": Span.SpanKind.Name(span.kind),
            "start": span.start_time_unix_nano,
            "end": span.end_time_unix_nano,
            "attributes": {key: value for key, value in values.items() if isinstance(value, str | int | float)},
        })
print(json.dumps(found))
"""


def spans(path: Path) -> list[dict[str, Any]]:
    """The spans in a file of OTLP in JSON Lines, as the protocol's own classes parse them."""
    return _asked(_SPANS, path)
