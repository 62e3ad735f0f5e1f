"""A model with prepared answers, and a recording in memory: what tests of the layers above a model need."""

from collections.abc import Sequence
from pathlib import Path

from lhaw_record.recorder.events import AnyEvent, Envelope
from lhaw_record.recorder.events.arrow_schema import to_table
from lhaw_record.recorder.events.values import Usage
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.runners.base.conversation.messages import Message, ToolCall
from lhaw_record.runners.models.protocol import ModelError, ModelReply, ModelRequest


class CannedModel:
    """Gives its answers in turn, then repeats the last one; an answer is a reply or the failure to raise."""

    def __init__(self, answers: Sequence[ModelReply | ModelError], name: str = "canned") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._answers = list(answers)

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Return or raise the next answer."""
        answer = self._answers[min(len(self.requests), len(self._answers) - 1)]
        self.requests.append(request)
        if isinstance(answer, ModelError):
            raise answer
        return answer


class MemoryRecording:
    """Keeps what is appended, and in which batches."""

    def __init__(self) -> None:
        self.batches: list[tuple[AnyEvent, ...]] = []
        self._deferred: tuple[AnyEvent, ...] = ()

    async def append(self, *events: AnyEvent) -> None:
        """Keep the events, and those deferred before."""
        batch, self._deferred = (*self._deferred, *events), ()
        if batch:
            self.batches.append(batch)

    def defer(self, *events: AnyEvent) -> None:
        """Keep the events with the next ones."""
        self._deferred += events

    @property
    def events(self) -> list[AnyEvent]:
        """All events in order, without those still deferred."""
        return [event for batch in self.batches for event in batch]


def snapshot_of(*recordings: MemoryRecording, experiment_id: str = "e") -> Snapshot:
    """Return a store's look that holds what was kept, one stream for each recording, in this order of time."""
    envelopes = [
        Envelope(
            stream_id=f"run-{run}",
            sequence=sequence,
            recorded_at_us=run * 1_000 + sequence,
            elapsed_ns=0,
            writer_id="w",
            experiment_id=experiment_id,
            event=event,
        )
        for run, recording in enumerate(recordings)
        for sequence, event in enumerate(recording.events)
    ]
    return Snapshot(store=Path(), segments=(), open_rows=to_table(envelopes))


def text_reply(text: str, *, cost_usd: float | None = 0.5) -> ModelReply:
    """Return a reply of text alone: 10 input tokens, 4 of them cached, 2 output tokens."""
    return ModelReply(
        message=Message(role="assistant", content=text),
        finish_reason="stop",
        usage=Usage(input_tokens=10, output_tokens=2, cached_input_tokens=4, cost_usd=cost_usd),
    )


def tool_reply(*calls: tuple[str, str, str], text: str = "") -> ModelReply:
    """Return a reply of tool calls, each given as id, name and arguments."""
    return ModelReply(
        message=Message(
            role="assistant",
            content=text,
            tool_calls=tuple(
                ToolCall(call_id=call_id, name=name, arguments_json=args) for call_id, name, args in calls
            ),
        ),
        finish_reason="tool_calls",
        usage=Usage(input_tokens=10, output_tokens=2),
    )
