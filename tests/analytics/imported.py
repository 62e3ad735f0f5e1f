"""A trial of a test's store as an import would have it: what its source does not tell is unknown.

Sources are ``conversation`` (model calls without tokens and times), ``actions`` (no model calls) and ``result``
(nothing of what the agent did). None tells the seed, how the trial ended, or what an answer revealed.
"""

from collections.abc import Sequence

import msgspec

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    Event,
    ModelCalled,
    ModelFailed,
    ModelResponded,
    QuestionAnswered,
    QuestionAsked,
    TrialFailed,
    TrialFinished,
    TrialStarted,
    Usage,
)
from tests.analytics.make_store import Store

UNKNOWN_SETTINGS = ("limits_json", "parameters_json", "prompts_digest", "user_simulator")
SOURCES = ("conversation", "actions", "result")
_CALLS = (ModelCalled, ModelResponded, ModelFailed)
_COURSE = (*_CALLS, ActionStarted, ActionFinished, QuestionAsked, QuestionAnswered)
_LEFT_OUT: dict[str, tuple[type[Event], ...]] = {"conversation": (), "actions": _CALLS, "result": _COURSE}


def as_imported(store: Store, stream: str, source: str, *, forgets_settings: bool = False) -> None:
    """Let a recorded stream of a store be one that was imported from such a source.

    An import lacks the settings too (``forgets_settings``), so it is another arm than recorded trials of its agent.
    """
    settings = UNKNOWN_SETTINGS if forgets_settings else ()
    kept = []
    sequence = 0
    for envelope in store.envelopes:
        if envelope.stream_id != stream:
            kept.append(envelope)
        elif not isinstance(envelope.event, _LEFT_OUT[source]):
            event = _as_told(envelope.event, source, settings)
            kept.append(msgspec.structs.replace(envelope, event=event, sequence=sequence, elapsed_ns=sequence))
            sequence += 1
    store.envelopes = kept


def _as_told(event: Event, source: str, settings: Sequence[str]) -> Event:
    unknown: dict[str, object] = {}
    if isinstance(event, TrialStarted):
        unknown = {**dict.fromkeys(("seed", *settings)), "origin": source}
    elif isinstance(event, TrialFinished):
        unknown = dict.fromkeys(("ended_by", "final_answer", "duration_ms", "cost_usd"))
        unknown |= {"action_count": None} if source == "result" else {}
    elif isinstance(event, TrialFailed):
        unknown = dict.fromkeys(("boundary", "duration_ms"))
    elif isinstance(event, ModelResponded):
        nothing = Usage(input_tokens=None, output_tokens=None, cached_input_tokens=None)
        unknown = {"finish_reason": None, "latency_ms": None, "usage": nothing}
    elif isinstance(event, ActionStarted):
        unknown = {} if source == "conversation" else {"model_call_id": None}
    elif isinstance(event, ActionFinished):
        unknown = dict.fromkeys(("is_error", "duration_ms"))
    elif isinstance(event, QuestionAnswered):
        unknown = dict.fromkeys(("answer", "latency_ms", "revealed"))
    return msgspec.structs.replace(event, **unknown)
