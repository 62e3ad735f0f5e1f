"""Calls and replies of a trial that are under way at the gateway, and the trial's limits."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

import msgspec

from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.clock import Interval
from lhaw_record.runners.models.gateway.relay import StreamRelay
from lhaw_record.runners.models.gateway.trial_state import RequestDecision
from lhaw_record.runners.models.gateway.upstream import UpstreamAnswer
from lhaw_record.runners.models.gateway.wires.protocol import Body
from lhaw_record.runners.models.protocol import ModelError

CLIENT_GONE = "client_gone"
"""Error kind of a call whose client disconnected before the reply was ready."""
HUNG_UP = "hung_up"
"""Error kind of a call whose client disconnected although the model was generating, or before ``PATIENCE_S``.

That was the agent's decision: no client of a silent server gives it up so soon. ``CLIENT_GONE`` is all the rest.
"""
PATIENCE_S = 10.0
"""A choice, below the timeouts of clients (600 s in the SDKs of OpenAI and Anthropic)."""


class PendingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A served action whose result no request has shown yet. ``action_index`` is the number that it will get.

    A text action has no ``call_id`` and is named ``message``. An agent without tools may execute it.
    """

    call_id: str | None
    name: str
    arguments_json: str
    action_index: int


class SessionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a trial: replies to its main thread, actions, and total cost in USD. None means no limit.

    The agent executes a reply's actions itself, so a batch can exceed the limit before a request shows it.
    """

    max_turns: int | None = None
    max_actions: int | None = None
    max_cost_usd: float | None = None


class SessionReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply to be sent to the agent, with its thread and model call.

    ``rest`` is the remainder of a stream whose beginning the agent already has, or None if nothing was streamed.
    ``headers`` are the provider's headers to pass on to the agent.
    """

    body: Body
    thread_id: str
    call_id: str
    rest: bytes | None = None
    headers: Mapping[str, str] = MappingProxyType({})


class PendingReply(msgspec.Struct, frozen=True, kw_only=True):
    """A model call that is waiting for its reply. A call for embeddings has no ``decision`` and no ``reply_id``.

    ``failed_usage`` returns the known usage if the call fails.
    """

    call_id: str
    reply_id: str = ""
    send: Callable[[], Awaitable[UpstreamAnswer]]
    began_ns: int
    interval: Interval
    failed_usage: Callable[[ModelError], Usage | None]
    decision: RequestDecision | None = None
    relay: StreamRelay | None = None

    def took_ms(self, until_ns: int, held_s: float) -> float:
        """Return the milliseconds from the start of the call to ``until_ns``, minus the wait before it was sent."""
        return round((until_ns - self.began_ns) / 1e6 - held_s * 1e3, 3)

    def first_token_ms(self, held_s: float) -> float | None:
        """The milliseconds to the first chunk of text, or None if the reply was not streamed."""
        token_ns = self.relay.first_token_ns if self.relay is not None else None
        return None if token_ns is None else self.took_ms(token_ns, held_s)


def at_least(usage: Usage) -> Usage:
    """Return a lower bound of a broken stream's usage: missing counts become 0; an unknown price stays unknown."""
    known = {name: value or 0 for name, value in msgspec.structs.asdict(usage).items()}
    if usage.input_tokens is not None and usage.output_tokens is not None:
        known["cost_usd"] = usage.cost_usd
    return Usage(**known)
