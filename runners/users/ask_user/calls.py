"""Matches calls over MCP to the model's tool calls, and answers each call only once, however often it arrives.

A client repeats a call when its connection breaks, and often does not say which of the model's tool calls it carries
out. This module infers both from the call and from the pending calls known to the gateway.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import ClassVar, Generic, TypeVar, cast

import anyio
import anyio.abc

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.actions import decoded_arguments
from lhaw_record.runners.base.conversation.messages import Toolbox, ToolResult
from lhaw_record.runners.base.errors import BoundaryError, ToolBoundaryError, UserSimulatorError
from lhaw_record.runners.models.gateway.calls import PendingCall
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser
from lhaw_record.runners.users.ask_user.server import AskUserCall, McpCall, ToolRequest

Asked = TypeVar("Asked", bound=McpCall)
Answered = TypeVar("Answered")
PendingCalls = Callable[[], Sequence[PendingCall]]
"""Returns the main thread's actions that are being executed, like TrialSession.pending_calls."""
Executed = Callable[[int, ToolResult, float], None]
"""Receives the outcome of an action: its number, its result, and its duration in milliseconds."""


class _Exchange(Generic[Asked, Answered]):
    """One call, every request that carried it, and its answer or error."""

    def __init__(self, first: Asked, call_id: str | None) -> None:
        self.call_id = call_id
        self.arrivals = [first]
        self.is_done = anyio.Event()
        self.answer: Answered | None = None
        self.error: Exception | None = None

    def states(self) -> list[str]:
        """Return the delivery state of the answer on each connection that waited for it."""
        return [each.delivery.state if each.delivery is not None else "open" for each in self.arrivals]

    @property
    def is_lost(self) -> bool:
        """Whether every connection that waited for the answer is lost."""
        return set(self.states()) == {"lost"}

    def is_carried_by(self, asked: McpCall) -> bool:
        """Return whether a request repeats one that carried this call."""
        if asked.request_id is None or "done" in self.states():
            return False
        return any(
            asked.request_id == earlier.request_id
            and ((asked.session_id is not None and asked.session_id == earlier.session_id) or self.is_lost)
            for earlier in self.arrivals
        )


class McpCalls(ABC, Generic[Asked, Answered]):
    """Answers the calls of one trial for a client that may repeat them.

    A call repeats an earlier one if it has the same words and the same id of the model's tool call. If that id is
    unknown, the call must have the same JSON-RPC id in the same session, or in another session after its connection was
    lost, and no client may have received the answer yet. A repeated call gets the earlier answer, or waits for it.

    Args:
        pending: Returns the main thread's actions that are being executed, as far as the gateway knows.
    """

    over: ClassVar[type[BoundaryError]]
    """The error for calls after the end, or interrupted by it."""

    group: anyio.abc.TaskGroup
    """Runs the answers, so that they outlive their connections. It is set before the first call."""

    def __init__(self, pending: PendingCalls) -> None:
        self._pending = pending
        self._exchanges: list[_Exchange[Asked, Answered]] = []
        self._is_closed = False

    @abstractmethod
    def words(self, asked: Asked) -> Hashable:
        """Return the content by which two requests of one call are recognised."""

    @abstractmethod
    def is_for(self, asked: Asked, call: PendingCall) -> bool:
        """Return whether a request without an id may carry out a pending call."""

    @abstractmethod
    async def carry_out(self, asked: Asked, call_id: str | None, action_index: int | None) -> Answered:
        """Answer a call, once."""

    def enclosing(self, pending: Sequence[PendingCall], taken: Collection[str]) -> int | None:
        """Return the number of the action during which a call without its own pending call was made."""
        del pending, taken
        return None

    def matching(self, asked: Asked, pending: Sequence[PendingCall]) -> list[PendingCall]:
        """Return the pending calls that a request may carry out: by its id if it has one, otherwise by its words."""
        if asked.call_id is not None:
            return [call for call in pending if call.call_id == asked.call_id]
        return [call for call in pending if self.is_for(asked, call)]

    async def answer(self, asked: Asked) -> Answered:
        """Return the answer to a call, or raise the error from answering it."""
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
        """Refuse new calls. Open calls still get their answers."""
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
            if is_sent_again or (exchange.call_id in (None, *waiting) and exchange.is_carried_by(asked)):
                return exchange
        return None

    def _new(self, asked: Asked) -> _Exchange[Asked, Answered]:
        if self._is_closed:
            raise self._over()
        pending = self._pending()
        taken = {exchange.call_id for exchange in self._exchanges if exchange.call_id is not None}
        call = next((call for call in self.matching(asked, pending) if call.call_id not in taken), None)
        action_index = call.action_index if call else self.enclosing(pending, taken)
        exchange: _Exchange[Asked, Answered] = _Exchange(asked, call.call_id if call else asked.call_id)
        self._exchanges.append(exchange)
        self.group.start_soon(self._ask, exchange, action_index)
        return exchange

    async def _ask(self, exchange: _Exchange[Asked, Answered], action_index: int | None) -> None:
        try:
            exchange.answer = await self.carry_out(exchange.arrivals[0], exchange.call_id, action_index)
        except Exception as error:  # noqa: BLE001 - raised to every request of this exchange
            exchange.error = error
        except anyio.get_cancelled_exc_class():
            exchange.error = self._over()
            raise
        finally:
            exchange.is_done.set()

    def _over(self) -> BoundaryError:
        return self.over("the trial is over", kind="trial_over", is_retry_owed=False)


class Questions(McpCalls[AskUserCall, str]):
    """Asks the simulated user of one trial.

    Args:
        handler: Answers and records the questions.
        names: Our names for the tool.
    """

    over = UserSimulatorError

    def __init__(self, handler: RecordedUser, pending: PendingCalls, names: Collection[str]) -> None:
        super().__init__(pending)
        self._handler = handler
        self._names = tuple(names)

    def words(self, asked: AskUserCall) -> Hashable:
        return asked.question, asked.context

    def is_for(self, asked: AskUserCall, call: PendingCall) -> bool:
        arguments = decoded_arguments(call.arguments_json) or {}
        question, context = arguments.get("question"), arguments.get("context") or ""
        if not (call.name.endswith(self._names) and isinstance(question, str) and isinstance(context, str)):
            return False
        return (question.strip(), context.strip()) == (asked.question.strip(), asked.context.strip())

    def enclosing(self, pending: Sequence[PendingCall], taken: Collection[str]) -> int | None:
        return enclosing_action([call for call in pending if call.call_id not in taken], self._names)

    async def carry_out(self, asked: AskUserCall, call_id: str | None, action_index: int | None) -> str:
        return await self._handler(asked.question, asked.context, call_id, action_index)


def enclosing_action(pending: Sequence[PendingCall], names: tuple[str, ...]) -> int | None:
    """Return the action during which a sub-agent or a program asked, if it is unambiguous."""
    for candidates in ([call for call in pending if call.name.endswith(names)], pending):
        if len(candidates) == 1:
            return candidates[0].action_index
    return None


class OfferedTools:
    """The tools that a program gets over MCP in one trial.

    The MCP server does not pass exceptions on, so the first one is kept in ``failure`` for the trial, and the event
    ``failed`` is set.

    Args:
        executed: Called with the outcome of every action that is a call of one of the tools.
    """

    def __init__(self, toolbox: Toolbox, executed: Executed) -> None:
        self.tools = toolbox.tools
        self.failure: Exception | None = None
        self.failed = anyio.Event()
        self._toolbox = toolbox
        self._executed = executed

    async def __call__(self, call: ToolRequest, call_id: str | None, action_index: int | None) -> ToolResult:
        """Execute a call."""
        began_s = time.monotonic()
        try:
            result = await self._toolbox.call(call.name, call.arguments, call_id)
        except (BoundaryError, RecorderError) as error:
            self.failure = self.failure or error
            self.failed.set()
            raise
        if action_index is not None:
            self._executed(action_index, result, round((time.monotonic() - began_s) * 1000, 3))
        return result


class ToolCalls(McpCalls[ToolRequest, ToolResult]):
    """Executes the calls of one trial. A call by a sub-agent or a script is part of an action with its own result."""

    over = ToolBoundaryError

    def __init__(self, offered: OfferedTools, pending: PendingCalls) -> None:
        super().__init__(pending)
        self._offered = offered
        self._names = [tool.name for tool in offered.tools]

    def words(self, asked: ToolRequest) -> Hashable:
        return asked.name, canonical_json(asked.arguments)

    def is_for(self, asked: ToolRequest, call: PendingCall) -> bool:
        """Compare name and arguments, allowing for a prefix in the name that the model sees, such as a server's."""
        name = max((name for name in self._names if call.name.endswith(name)), key=len, default="")
        return self.words(asked) == (name, canonical_json(decoded_arguments(call.arguments_json) or {}))

    async def carry_out(self, asked: ToolRequest, call_id: str | None, action_index: int | None) -> ToolResult:
        return await self._offered(asked, call_id, action_index)
