"""Matches calls over MCP to the model's tool calls, and answers each call only once, however often it arrives.

A client sends a call again when its connection breaks, and often does not say which of the model's tool calls it
carries out. This module decides both from the call and from those that the gateway knows to be in progress.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Generic, TypeVar, cast

import anyio
import anyio.abc

from lhaw_record.runners.models.gateway.calls import PendingCall

Asked = TypeVar("Asked", bound=McpCall)
Answered = TypeVar("Answered")


class _Exchange(Generic[Asked, Answered]):
    """One call, every request that carried it, and its answer or error."""

    def __init__(self, first: Asked, call_id: str | None) -> None:
        self.call_id = call_id
        self.arrivals = [first]
        self.is_done = anyio.Event()
        self.answer: Answered | None = None
        self.error: Exception | None = None

    @property
    def is_delivered(self) -> bool:
        return any(each.delivery is not None and each.delivery.state == "done" for each in self.arrivals)

    @property
    def is_lost(self) -> bool:
        """Whether every connection that waited for the answer is lost."""
        return all(each.delivery is not None and each.delivery.state == "lost" for each in self.arrivals)


class Exchanges(ABC, Generic[Asked, Answered]):
    """Answers the calls of one trial for a client that may repeat them.

    A call repeats an earlier one if it has the same words and the same id of the model's tool call. If that id is
    unknown, the call must have the same JSON-RPC id in the same session, or in another session after its connection
    was lost, and no client may have received the answer yet. A repeated call gets the earlier answer, or waits for
    it.

    Args:
        pending: Returns the main thread's actions that are being executed, as far as the gateway knows.
        group: The task group that answers the calls, so that they outlive their connections.
    """

    def __init__(self, pending: Callable[[], Sequence[PendingCall]], group: anyio.abc.TaskGroup) -> None:
        self._pending = pending
        self._group = group
        self._exchanges: list[_Exchange[Asked, Answered]] = []
        self._is_closed = False

    @abstractmethod
    def words(self, asked: Asked) -> Hashable:
        """Return what two requests of one call have in common."""

    @abstractmethod
    def matching(self, asked: Asked, pending: Sequence[PendingCall]) -> list[PendingCall]:
        """Return the pending calls that a request may carry out."""

    @abstractmethod
    def enclosing(self, asked: Asked, pending: Sequence[PendingCall], taken: Collection[str]) -> int | None:
        """Return the number of the action during which a call without a pending call of its own was made."""

    @abstractmethod
    async def carry_out(self, asked: Asked, call_id: str | None, action_index: int | None) -> Answered:
        """Answer a call, once."""

    @abstractmethod
    def over(self) -> Exception:
        """Return the error of calls after the end, or cut off by it."""

    async def answer(self, asked: Asked) -> Answered:
        """Return the answer to a call. Raises what answering it raises."""
        exchange = self._repeated(asked)
        if exchange is None:
            exchange = self._new(asked)
        else:
            exchange.arrivals.append(asked)
        await exchange.is_done.wait()
        if exchange.error is not None:
            raise exchange.error
        return cast("Answered", exchange.answer)

    def close(self) -> None:
        """Refuse new calls. Those already made still get their answers."""
        self._is_closed = True

    def _repeated(self, asked: Asked) -> _Exchange[Asked, Answered] | None:
        """Return the exchange that a request repeats, or None if the call is new."""
        words = self.words(asked)
        alike = [exchange for exchange in reversed(self._exchanges) if self.words(exchange.arrivals[0]) == words]
        if asked.call_id is not None:
            return next((exchange for exchange in alike if exchange.call_id == asked.call_id), None)
        waiting = {call.call_id for call in self.matching(asked, self._pending())}
        for exchange in alike:
            is_sent_again = exchange.call_id in waiting and exchange.is_lost
            if is_sent_again or (exchange.call_id in (None, *waiting) and _is_same_request(asked, exchange)):
                return exchange
        return None

    def _new(self, asked: Asked) -> _Exchange[Asked, Answered]:
        if self._is_closed:
            raise self.over()
        pending = self._pending()
        taken = {exchange.call_id for exchange in self._exchanges if exchange.call_id is not None}
        candidates = self.matching(asked, pending)
        call = next((call for call in candidates if call.call_id not in taken), None)
        action_index = call.action_index if call else self.enclosing(asked, pending, taken)
        exchange: _Exchange[Asked, Answered] = _Exchange(asked, call.call_id if call else asked.call_id)
        self._exchanges.append(exchange)
        self._group.start_soon(self._ask, exchange, action_index)
        return exchange

    async def _ask(self, exchange: _Exchange[Asked, Answered], action_index: int | None) -> None:
        try:
            exchange.answer = await self.carry_out(exchange.arrivals[0], exchange.call_id, action_index)
        except Exception as error:  # noqa: BLE001 - every request of this exchange raises it
            exchange.error = error
        except anyio.get_cancelled_exc_class():
            exchange.error = self.over()
            raise
        finally:
            exchange.is_done.set()


def _is_same_request(asked: McpCall, exchange: _Exchange[Any, Any]) -> bool:
    if asked.request_id is None or exchange.is_delivered:
        return False
    return any(
        asked.request_id == earlier.request_id
        and ((asked.session_id is not None and asked.session_id == earlier.session_id) or exchange.is_lost)
        for earlier in exchange.arrivals
    )
