"""A model call that waits for its reply, and what is recorded of its way over the wire."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from lhaw_record.recorder.events import Wire
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.clock import Interval
from lhaw_record.runners.models.exchanges import Exchange, wire_digests
from lhaw_record.runners.models.gateway.relay import Relay
from lhaw_record.runners.models.gateway.trial_state import Decision
from lhaw_record.runners.models.gateway.upstream import Answer
from lhaw_record.runners.models.protocol import ModelError


class PendingReply(msgspec.Struct, frozen=True, kw_only=True):
    """A model call that is waiting for its reply. One for embeddings has no ``decision`` and no ``reply_id``.

    ``failed_usage`` returns what is known of its usage if it fails.
    """

    call_id: str
    reply_id: str = ""
    send: Callable[[], Awaitable[Answer]]
    began_ns: int
    interval: Interval
    failed_usage: Callable[[ModelError], Usage | None]
    decision: Decision | None = None
    relay: Relay | None = None

    def took_ms(self, until_ns: int, held_s: float) -> float:
        """Return the milliseconds of the call until some time, without those for which it waited to be sent."""
        return round((until_ns - self.began_ns) / 1e6 - held_s * 1e3, 3)

    def facts(self, exchange: Exchange | None, held_s: float, changes: Mapping[str, Any] | None = None) -> Wire | None:
        """Return what is recorded of the way over the wire, or None if it was not seen."""
        facts = wire_digests(exchange)
        if facts is None:
            return None
        token_ns = self.relay.first_token_ns if self.relay is not None else None
        return msgspec.structs.replace(
            facts,
            first_token_ms=None if token_ns is None else self.took_ms(token_ns, held_s),
            changes_json=canonical_json(dict(changes)).decode() if changes else None,
        )


def at_least(usage: Usage) -> Usage:
    """Return what a broken stream has cost at least: what the provider did not report counts as nothing.

    An unknown price of tokens that were reported stays unknown.
    """
    known = {name: value or 0 for name, value in msgspec.structs.asdict(usage).items()}
    if usage.input_tokens is not None and usage.output_tokens is not None:
        known["cost_usd"] = usage.cost_usd
    return Usage(**known)
