"""Records one trial's simulated user: each question before its answer, each answer before the agent sees it."""

import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import anyio
import msgspec

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.recorder.events import QuestionAnswered, QuestionAsked
from lhaw_record.recorder.events.interaction import Medium, ResponseState
from lhaw_record.runners.base.clock import TrialClock, beside_loop
from lhaw_record.runners.base.conversation.messages import ToolResult
from lhaw_record.runners.base.errors import BoundaryError, UserSimulatorError
from lhaw_record.runners.base.recording import Recording
from lhaw_record.runners.experiment.prompts import ResponseWords
from lhaw_record.runners.users.ask_user.server import SERVER_NAME, TOOL_NAME, ask_user_tool, problem_with
from lhaw_record.runners.users.simulated_user.answers import unanswered
from lhaw_record.runners.users.simulated_user.protocol import UserAnswer, UserKnowledge, UserSimulator


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """How the user of one trial responds to every question, and in which words.

    ``after_actions`` counts from the action that asked. ``goes_on`` says that the agent gets messages while it works.
    So it does not wait for a response that comes actions later, or never.
    """

    state: ResponseState
    words: ResponseWords
    after_actions: int | None = None
    after_seconds: float | None = None
    goes_on: bool = False

    @property
    def leaves_open(self) -> bool:
        """Whether the agent goes on without a response."""
        is_never = self.state == "timed_out" and self.after_seconds is None
        return self.goes_on and (is_never or self.after_actions is not None)


class RecordedUser:
    """Answers the calls to one trial's ``ask_user`` tool.

    The MCP server does not pass exceptions on, so the first one is kept in ``failure`` for the trial, and the event
    ``failed`` is set. Simultaneous questions are answered one after another, and each answer takes into account what
    the earlier ones revealed.

    Args:
        knowledge: What the simulated user had in mind and what they left out.
        trial_clock: Counts the time spent waiting for answers.
        clock: Returns monotonic seconds.
        response: How the user responds, unless they answer at once.
    """

    def __init__(
        self,
        simulator: UserSimulator,
        knowledge: UserKnowledge,
        recording: Recording,
        trial_clock: TrialClock | None = None,
        clock: Callable[[], float] = time.monotonic,
        response: Response | None = None,
    ) -> None:
        self.failure: Exception | None = None
        self.failed = anyio.Event()
        self._simulator = simulator
        self._knowledge = knowledge
        self._recording = recording
        self._trial_clock = trial_clock or TrialClock()
        self._clock = clock
        self._question_count = 0
        self._turn = anyio.Lock()
        self._response = response
        self._unanswered: dict[str, tuple[QuestionAsked, float]] = {}
        self._is_over = anyio.Event()

    @property
    def was_asked(self) -> bool:
        """Whether a question has arrived."""
        return self._question_count > 0

    def is_about_removed(self, question: str, context: str) -> bool:
        """Return whether a text asks for any segment that was removed, by the rules."""
        return bool(unanswered(question, context, self._knowledge).asks_for)

    async def in_prose(self, question: str, context: str, action_index: int, *, is_there: bool) -> str | None:
        """Answer a turn that asks, and record it, or record why the user, who may not be there, gives no answer."""
        answer = await self(question, context, None, action_index, "prose", is_there=is_there)
        is_told = is_there and (self._response is None or self._response.state == "late")
        return answer if is_told and not self._is_over.is_set() else None

    async def __call__(
        self,
        question: str,
        context: str,
        call_id: str | None,
        action_index: int | None,
        medium: Medium = "mcp",
        *,
        is_there: bool = True,
    ) -> str:
        """Answer one question, and record the question and the answer."""
        try:
            self._question_count += 1
            asked = QuestionAsked(
                question_id=f"q{self._question_count}",
                question=question,
                context=context,
                call_id=call_id,
                action_index=action_index,
                medium=medium,
            )
            await self._recording.append(asked)
            began_s = self._clock()
            response = self._response
            if not is_there:
                return await self._leave_open(asked, began_s, "unavailable")
            if response is None:
                return await self._answer(asked, began_s)
            self._unanswered[asked.question_id] = asked, began_s
            if response.leaves_open:
                return response.words.result("pending")
            with anyio.move_on_after(response.after_seconds or 0.0):  # the agent's own time
                await self._is_over.wait()
            return await self._respond(asked.question_id, response.state)
        except (BoundaryError, RecorderError) as error:
            self.failure = self.failure or error
            self.failed.set()
            raise

    async def told_after(self, action_count: int) -> str | None:
        """Return what the user says by now about earlier questions, after so many actions, or None."""
        response = self._response
        if response is None or response.after_actions is None:
            return None
        latest = action_count - response.after_actions
        due = [key for key, (asked, _) in self._unanswered.items() if (asked.action_index or 0) <= latest]
        messages = [await self._respond(key, response.state, action_count) for key in due]
        return "\n\n".join(messages) or None

    async def close(self) -> None:
        """Record that no open question gets an answer any more, because the agent has ended."""
        self._is_over.set()
        for key in list(self._unanswered):
            await self._respond(key, "timed_out")

    async def _respond(self, key: str, state: ResponseState, after_action: int | None = None) -> str:
        """Record the response to a question, and return the result of its call or the message after an action."""
        words = cast("Response", self._response).words
        if key not in self._unanswered:
            return words.result("timed_out")
        asked, began_s = self._unanswered.pop(key)
        state = "timed_out" if self._is_over.is_set() else state
        if state == "late":
            answer = await self._answer(asked, began_s, response_state=state, after_action=after_action)
        else:
            answer = await self._leave_open(asked, began_s, state, after_action)
        if after_action is None:
            return answer or words.result(state)
        return words.message(state, asked.question, answer)

    async def _leave_open(
        self, asked: QuestionAsked, began_s: float, state: ResponseState, after_action: int | None = None
    ) -> str:
        """Record that a question gets no answer, and return no text."""
        size = len(asked.question) + len(asked.context)
        reading = await beside_loop(size, unanswered, asked.question, asked.context, self._knowledge)
        await self._recording.append(
            QuestionAnswered(
                question_id=asked.question_id,
                answer=None,
                simulator=self._simulator.name,
                latency_ms=round((self._clock() - began_s) * 1000, 3),
                response_state=state,
                readings=(reading,),
                after_action=after_action,
            )
        )
        return ""

    def follow_up(self) -> None:
        """Answer from now on as a user who has made their second request."""
        assert self._knowledge.after_follow_up is not None, "the variant has a follow-up"
        self._knowledge = self._knowledge.after_follow_up

    async def _answer(self, asked: QuestionAsked, began_s: float, **responded: Any) -> str:
        with self._trial_clock.waiting("user_simulator", f"an answer of the simulated user ({asked.question_id})"):
            async with self._turn:
                return await self._answer_in_turn(asked, began_s, responded)

    async def _answer_in_turn(self, asked: QuestionAsked, began_s: float, responded: Mapping[str, Any]) -> str:
        answer = await self._simulated(asked.question, asked.context)
        revealed = self._knowledge.revealed.union(each.segment_id for each in answer.revealed)
        self._knowledge = msgspec.structs.replace(self._knowledge, revealed=revealed)
        answered = QuestionAnswered(
            question_id=asked.question_id,
            answer=answer.text,
            simulator=self._simulator.name,
            latency_ms=round((self._clock() - began_s) * 1000, 3),
            revealed=answer.revealed,
            withheld=answer.withheld,
            rejected=answer.rejected,
            readings=answer.readings,
            **responded,
        )
        await self._recording.append(answered)
        return answer.text

    async def _simulated(self, question: str, context: str) -> UserAnswer:
        try:
            return await self._simulator.answer(question, context, self._knowledge)
        except (BoundaryError, RecorderError):
            raise
        except Exception as error:
            raise UserSimulatorError(
                f"the simulator {self._simulator.name} broke: {type(error).__name__}: {error}", kind="crash"
            ) from error


class AskUserTool:
    """``ask_user`` as a tool of the native agent, with the same definition, checks and answers as over MCP.

    Args:
        user: Answers and records the questions.
        current_action: Returns the number of the action that is being executed, counted from 1.
    """

    def __init__(self, user: RecordedUser, current_action: Callable[[], int]) -> None:
        self.user = user
        self.tool = ask_user_tool(TOOL_NAME)
        self._current_action = current_action

    async def ask(self, arguments: dict[str, Any], call_id: str | None) -> ToolResult:
        """Ask with the arguments from the model. Invalid arguments give an error result.

        Raises:
            UserSimulatorError: The user could not answer.
        """
        problem = problem_with(TOOL_NAME, arguments)
        if problem is not None:
            return ToolResult(text=problem, is_error=True, server=SERVER_NAME)
        context = arguments.get("context") or ""
        answer = await self.user(arguments["question"], context, call_id or None, self._current_action())
        return ToolResult(text=answer, server=SERVER_NAME)
