"""The questions of one trial: each is asked once, however often its call arrives, and answered whoever still waits."""

from collections.abc import Callable, Collection, Sequence

import anyio
import anyio.abc

from runners.errors import UserSimulatorError
from runners.gateway.session import PendingCall
from runners.users.asked import Asked
from runners.users.asking import AskUser
from runners.users.joining import action_around, calls_like


class _Question:
    """One question: the calls that brought it, and what came of it."""

    def __init__(self, first: Asked, call_id: str | None) -> None:
        self.call_id = call_id
        self.arrivals = [first]
        self.is_done = anyio.Event()
        self.answer = ""
        self.error: Exception | None = None

    def has_words_of(self, asked: Asked) -> bool:
        first = self.arrivals[0]
        return (first.question, first.context) == (asked.question, asked.context)

    @property
    def is_heard(self) -> bool:
        return any(each.delivery is not None and each.delivery.state == "done" for each in self.arrivals)

    @property
    def is_lost(self) -> bool:
        """Whether every connection that waited for the answer is gone."""
        return all(each.delivery is not None and each.delivery.state == "lost" for each in self.arrivals)


class Questions:
    """Asks the simulated user of one trial on behalf of a client that may repeat itself.

    A call is a repetition if it has the words of an earlier one and the same id of the model's tool call; where that is
    unknown, if it has the same JSON-RPC id in the same session, or in another one after its connection was lost, and
    nobody got the answer yet. A repetition gets the earlier answer, or waits for it.

    Args:
        handler: Answers and records.
        pending: The main thread's actions that are being executed, as the gateway knows them.
        names: What the tool is called here.
        group: In it the questions are asked, so that they outlive the connections.
    """

    def __init__(
        self,
        handler: AskUser,
        pending: Callable[[], Sequence[PendingCall]],
        names: Collection[str],
        group: anyio.abc.TaskGroup,
    ) -> None:
        self._handler = handler
        self._pending = pending
        self._names = names
        self._group = group
        self._all: list[_Question] = []
        self._is_closed = False

    async def answer(self, asked: Asked) -> str:
        """Return the answer to a question.

        Raises:
            UserSimulatorError: There is no answer.
            RecorderError: The question or its answer could not be recorded.
        """
        question = self._repeated(asked)
        if question is None:
            question = self._new(asked)
        else:
            question.arrivals.append(asked)
        await question.is_done.wait()
        if question.error is not None:
            raise question.error
        return question.answer

    def close(self) -> None:
        """Take no more questions; those that were asked are answered."""
        self._is_closed = True

    def _repeated(self, asked: Asked) -> _Question | None:
        """The question that a call asks again, None where it asks a new one."""
        alike = [question for question in reversed(self._all) if question.has_words_of(asked)]
        if asked.call_id is not None:
            return next((question for question in alike if question.call_id == asked.call_id), None)
        waiting = {call.call_id for call in calls_like(asked, self._pending(), self._names)}
        for question in alike:
            is_sent_anew = question.call_id in waiting and question.is_lost
            if is_sent_anew or (question.call_id in (None, *waiting) and _is_same_request(asked, question)):
                return question
        return None

    def _new(self, asked: Asked) -> _Question:
        if self._is_closed:
            raise UserSimulatorError("the trial is over", kind="trial_over", is_retry_owed=False)
        pending = self._pending()
        taken = {question.call_id for question in self._all if question.call_id is not None}
        call = next((call for call in calls_like(asked, pending, self._names) if call.call_id not in taken), None)
        action_index = call.action_index if call else action_around(pending, self._names, taken)
        question = _Question(asked, call.call_id if call else asked.call_id)
        self._all.append(question)
        self._group.start_soon(self._ask, question, action_index)
        return question

    async def _ask(self, question: _Question, action_index: int | None) -> None:
        first = question.arrivals[0]
        try:
            question.answer = await self._handler(first.question, first.context, question.call_id, action_index)
        except Exception as error:  # noqa: BLE001 - every call of this question raises it
            question.error = error
        except anyio.get_cancelled_exc_class():
            question.error = UserSimulatorError("the trial was ended", kind="trial_over", is_retry_owed=True)
            raise
        finally:
            question.is_done.set()


def _is_same_request(asked: Asked, question: _Question) -> bool:
    if asked.request_id is None or question.is_heard:
        return False
    return any(
        asked.request_id == earlier.request_id
        and ((asked.session_id is not None and asked.session_id == earlier.session_id) or question.is_lost)
        for earlier in question.arrivals
    )
