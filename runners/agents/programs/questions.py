"""Asks the simulated user of one trial for its program, and matches the questions to tool calls of the model."""

from collections.abc import Callable, Collection, Hashable, Sequence

import anyio.abc

from lhaw_record.runners.agents.programs.exchanges import Exchanges
from lhaw_record.runners.base.conversation.actions import decoded_arguments
from lhaw_record.runners.base.errors import UserSimulatorError
from lhaw_record.runners.models.gateway.calls import PendingCall
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser


def matching_calls(question: Question, pending: Sequence[PendingCall], names: Collection[str]) -> list[PendingCall]:
    """Return the pending calls that a question may carry out: by its call id if it has one, otherwise by its words."""
    if question.call_id is not None:
        return [call for call in pending if call.call_id == question.call_id]
    words = _words(question.question, question.context)
    return [call for call in _named(pending, names) if _words_of(call) == words]


def enclosing_action(pending: Sequence[PendingCall], names: Collection[str], taken: Collection[str]) -> int | None:
    """Return the action during which a question without its own call was asked, by a sub-agent or a program."""
    free = [call for call in pending if call.call_id not in taken]
    for candidates in (_named(free, names), free):
        if len(candidates) == 1:
            return candidates[0].action_index
    return None


class Questions(Exchanges[Question, str]):
    """Asks the simulated user of one trial.

    Args:
        handler: Answers and records the questions.
        pending: Returns the main thread's actions that are being executed, as far as the gateway knows.
        names: The names of the tool on our side.
        group: The task group that runs the questions.
    """

    def __init__(
        self,
        handler: RecordedUser,
        pending: Callable[[], Sequence[PendingCall]],
        names: Collection[str],
        group: anyio.abc.TaskGroup,
    ) -> None:
        super().__init__(pending, group)
        self._handler = handler
        self._names = names

    def words(self, asked: Question) -> Hashable:
        """Return the question with its context."""
        return asked.question, asked.context

    def matching(self, asked: Question, pending: Sequence[PendingCall]) -> list[PendingCall]:
        """Return the pending calls that a question may carry out."""
        return matching_calls(asked, pending, self._names)

    def enclosing(self, asked: Question, pending: Sequence[PendingCall], taken: Collection[str]) -> int | None:
        """Return the number of the action during which a question was asked."""
        del asked
        return enclosing_action(pending, self._names, taken)

    async def carry_out(self, asked: Question, call_id: str | None, action_index: int | None) -> str:
        """Return the user's answer."""
        return await self._handler(asked.question, asked.context, call_id, action_index)

    def over(self) -> Exception:
        """Return that the trial is over."""
        return UserSimulatorError("the trial is over", kind="trial_over", is_retry_owed=False)


def _named(pending: Sequence[PendingCall], names: Collection[str]) -> list[PendingCall]:
    return [call for call in pending if call.name.endswith(tuple(names))]


def _words_of(call: PendingCall) -> tuple[str, str] | None:
    arguments = decoded_arguments(call.arguments_json) or {}
    question, context = arguments.get("question"), arguments.get("context") or ""
    return _words(question, context) if isinstance(question, str) and isinstance(context, str) else None


def _words(question: str, context: str) -> tuple[str, str]:
    return question.strip(), context.strip()
