"""Laws of events: what is written is what is read, in both forms."""

import re

import msgspec
import pyarrow.parquet as pq
from hypothesis import given, settings

from lhaw_record.recorder.events import EVENT_TYPES, ActionStarted, Envelope, ModelResponded, Usage, type_name
from lhaw_record.recorder.events.arrow_schema import event_schema, from_row, to_table
from lhaw_record.recorder.events.encoding import encoded
from tests.recorder.events_strategy import envelopes
from tests.support.depth import at_depth

decode = msgspec.msgpack.Decoder(Envelope).decode


@given(envelopes())
@settings(max_examples=at_depth(300, 1500))
def test_decoding_inverts_encoding(envelope):
    """decode(encode(e)) = e for every event type."""
    assert decode(encoded(envelope)) == envelope


@given(envelopes())
@settings(max_examples=at_depth(200, 1000))
def test_a_row_holds_the_whole_record(envelope):
    """A record survives the journey through Arrow, to the byte of its encoding, which the digests are made of."""
    for only_present in (False, True):
        (row,) = to_table([envelope], only_present=only_present).to_pylist()
        back = from_row(row)
        assert back == envelope
        assert encoded(back) == encoded(envelope)


def test_a_row_survives_parquet(tmp_path):
    """Parquet gives back the rows that were written."""
    envelope = Envelope(
        stream_id="s",
        sequence=0,
        recorded_at_us=1,
        elapsed_ns=2,
        writer_id="w",
        experiment_id="e",
        event=ActionStarted(action_index=1, kind="text", name="message", arguments_json="{}", model_call_id="c"),
    )
    path = tmp_path / "rows.parquet"
    pq.write_table(to_table([envelope], only_present=True), path)
    assert [from_row(row) for row in pq.read_table(path).to_pylist()] == [envelope]


def test_a_row_without_a_later_column_takes_its_default():
    """A field that was added after a row was written reads as its default."""
    row = {
        "stream_id": "s",
        "sequence": 0,
        "type": "action_finished",
        "version": 1,
        "recorded_at_us": 1,
        "elapsed_ns": 2,
        "writer_id": "w",
        "experiment_id": "e",
        "trial_id": None,
        "attempt": None,
        "action_finished": {"action_index": 1, "is_error": False, "result": "x", "duration_ms": 1.0},
    }
    assert from_row(row).event.server is None


def test_null_is_unknown_where_the_default_is_known():
    """Tokens that nobody counted come back from a row as unknown, and not as the default, none."""
    event = {"call_id": "c", "role": "agent", "text": "", "finish_reason": None, "latency_ms": None}
    known = {"input_tokens": 0, "output_tokens": 0, "cached_input_tokens": 0}
    place = {"stream_id": "s", "sequence": 0, "recorded_at_us": 1, "elapsed_ns": 2, "writer_id": "w"}
    for tokens in (known, dict.fromkeys(known)):
        given = Envelope(**place, experiment_id="e", event=ModelResponded(**event, usage=Usage(**tokens)))
        (row,) = to_table([given]).to_pylist()
        back = from_row(row)
        assert {name: getattr(back.event.usage, name) for name in known} == tokens
        assert encoded(back) == encoded(given)


@given(envelopes())
@settings(max_examples=at_depth(100, 500))
def test_a_later_field_changes_no_encoded_record(envelope):
    """A version in which every struct has 20 more fields encodes an old event to the same bytes."""
    fields = msgspec.to_builtins(envelope)
    later = [(f"later_{number}", int | None, None) for number in range(20)]
    event = type(envelope.event)
    wider = msgspec.defstruct(event.__name__, later, bases=(event,), tag=type_name(event), frozen=True, kw_only=True)
    widened = msgspec.structs.replace(envelope, event=msgspec.convert(fields["event"], wider))
    assert encoded(widened) == encoded(envelope)
    assert encoded(envelope) == msgspec.msgpack.encode(fields)


def test_every_wire_name_is_its_class_in_snake_case():
    """The tag of an event is its class's name; a column of the schema bears it."""
    for cls in EVENT_TYPES:
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        assert type_name(cls) == snake
        assert snake in event_schema().names


def test_an_integer_in_a_float_field_becomes_a_float():
    """The encoding of a number does not depend on how the caller wrote it."""
    from lhaw_record.recorder.events.values import Checkpoint

    assert msgspec.msgpack.encode(Checkpoint(checkpoint_id="c", label="l", total=2)) == msgspec.msgpack.encode(
        Checkpoint(checkpoint_id="c", label="l", total=2.0)
    )
