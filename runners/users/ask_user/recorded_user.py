"""Records one trial's simulated user: each question before its answer, each answer before the agent sees it."""

import shlex
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import anyio
import msgspec

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.recorder.events import ExchangeReading, QuestionAnswered, QuestionAsked, QuestionOption
from lhaw_record.recorder.events.interaction import Medium, ResponseState
from lhaw_record.runners.base.clock import TrialClock, beside_loop
from lhaw_record.runners.base.conversation.messages import ToolResult
from lhaw_record.runners.base.errors import BoundaryError, UserSimulatorError
from lhaw_record.runners.base.recording import Recording
from lhaw_record.runners.experiment.prompts import ResponseWords
from lhaw_record.runners.users.ask_user.server import SERVER_NAME, TOOL_NAME, ask_user_tool, problem_with
from lhaw_record.runners.users.simulated_user.answers import offered, picked, reveals, unanswered
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


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question as its user sees it, all of it in ``text`` and ``context``.

    ``takes_words`` says that they may answer in their own words, ``is_list`` that they may pick several options, and
    ``is_required`` that without an answer to it, no question of its call gets one.
    """

    text: str
    context: str = ""
    header: str = ""
    options: tuple[QuestionOption, ...] = ()
    recommended: str | None = None
    takes_words: bool = True
    is_list: bool = False
    is_required: bool = False


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent is told, and the labels of the options that the user picked."""

    state: ResponseState
    text: str
    picked: tuple[str, ...] = ()


class _Open(msgspec.Struct, frozen=True):
    """A question without a response."""

    event: QuestionAsked
    question: Question
    began_s: float


class RecordedUser:
    """Answers the questions of one trial.

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
        self._unanswered: dict[str, _Open] = {}
        self._is_over = anyio.Event()

    @property
    def was_asked(self) -> bool:
        """Whether a question has arrived."""
        return self._question_count > 0

    async def is_about_removed(self, question: str, context: str) -> bool:
        """Return whether a text asks for any segment that was removed, by the rules."""
        return bool((await _request(question, context, self._knowledge)).asks_for)

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
        state: ResponseState | None = None if is_there else "unavailable"
        (reply,) = await self.ask([Question(text=question, context=context)], call_id, action_index, medium, state)
        return reply.text

    async def ask(
        self,
        questions: Sequence[Question],
        call_id: str | None,
        action_index: int | None,
        medium: Medium,
        state: ResponseState | None = None,
    ) -> list[Reply]:
        """Answer all questions of one call, and record them before the first answer.

        A ``state`` is the response to all of them where the agent's way to ask reaches nobody.
        """
        try:
            began_s, first = self._clock(), f"q{self._question_count + 1}"
            asked = []
            for question in questions:
                self._question_count += 1
                event = QuestionAsked(
                    question_id=f"q{self._question_count}",
                    question=question.text,
                    context=question.context,
                    call_id=call_id,
                    action_index=action_index,
                    medium=medium,
                    header=question.header,
                    options=tuple(map(self._option, question.options)),
                    recommended=question.recommended,
                    batch_id=first if len(questions) > 1 else None,
                )
                await self._recording.append(event)
                asked.append(_Open(event, question, began_s))
            if state is not None:
                return [await self._without_answer(each, state) for each in asked]
            return await (self._answer(asked) if self._response is None else self._responses(asked, self._response))
        except (BoundaryError, RecorderError) as error:
            self.failure = self.failure or error
            self.failed.set()
            raise

    async def _responses(self, asked: list[_Open], response: Response) -> list[Reply]:
        self._unanswered |= {each.event.question_id: each for each in asked}
        if response.leaves_open:
            return [Reply(state="timed_out", text=response.words.result("pending")) for _ in asked]
        with anyio.move_on_after(response.after_seconds or 0.0):  # the agent's own time
            await self._is_over.wait()
        return [await self._respond(each.event.question_id, response.state) for each in asked]

    def _option(self, option: QuestionOption) -> QuestionOption:
        """Return an option with what it says of what was removed."""
        text = f"{option.label}\n{option.description}"
        holds = tuple(each.segment_id for each in self._knowledge.removed if reveals(text, each))
        return msgspec.structs.replace(option, holds=holds)

    async def told_after(self, action_count: int) -> str | None:
        """Return the user's late answers that are due after this number of actions, or None."""
        response = self._response
        if response is None or response.after_actions is None:
            return None
        latest = action_count - response.after_actions
        due = [key for key, each in self._unanswered.items() if (each.event.action_index or 0) <= latest]
        messages = [(await self._respond(key, response.state, action_count)).text for key in due]
        return "\n\n".join(messages) or None

    async def close(self) -> None:
        """Record that no open question gets an answer any more, because the agent has ended."""
        self._is_over.set()
        for key in list(self._unanswered):
            await self._respond(key, "timed_out")

    async def _respond(self, key: str, state: ResponseState, after_action: int | None = None) -> Reply:
        """Record the response to a question, and return the result of its call or the message after an action."""
        words = cast("Response", self._response).words
        if key not in self._unanswered:
            return Reply(state="timed_out", text=words.result("timed_out"))
        asked = self._unanswered.pop(key)
        state = "timed_out" if self._is_over.is_set() else state
        if state == "late":
            (reply,) = await self._answer([asked], state, after_action)
        else:
            reply = await self._without_answer(asked, state, after_action)
        if after_action is None:
            return reply if reply.text else msgspec.structs.replace(reply, text=words.result(state))
        return msgspec.structs.replace(reply, text=words.message(state, asked.event.question, reply.text))

    async def _without_answer(
        self, asked: _Open, state: ResponseState, after_action: int | None = None, said: UserAnswer | None = None
    ) -> Reply:
        reading = await _request(asked.event.question, asked.event.context, self._knowledge_of(asked))
        await self._recording.append(
            QuestionAnswered(
                question_id=asked.event.question_id,
                answer=None,
                simulator=self._simulator.name,
                latency_ms=round((self._clock() - asked.began_s) * 1000, 3),
                response_state=state,
                readings=(reading,),
                after_action=after_action,
                answered_by=said.by if said else None,
                saw_values=said.saw_values if said else None,
            )
        )
        return Reply(state=state, text=said.text if said and said.is_declined else "")

    def follow_up(self) -> None:
        """Answer from now on as a user who has made their second request."""
        assert self._knowledge.after_follow_up is not None, "the variant has a follow-up"
        self._knowledge = self._knowledge.after_follow_up

    async def _answer(
        self, asked: Sequence[_Open], state: ResponseState = "answered", after_action: int | None = None
    ) -> list[Reply]:
        """Answer the questions of one call. A form without an answer that it takes to what it requires is dismissed."""
        ids = ", ".join(each.event.question_id for each in asked)
        what = f"an answer of the simulated user ({ids})"
        with self._trial_clock.waiting("user_simulator", what, is_exempt=self._simulator.is_person):
            async with self._turn:
                known = self._knowledge
                answers = [await self._simulated(each) for each in asked]
                picks = [
                    picked(each.event.options, answer, is_list=each.question.is_list)
                    for each, answer in zip(asked, answers, strict=True)
                ]
                fits = [
                    not answer.is_declined and (bool(pick) or each.question.takes_words)
                    for each, answer, pick in zip(asked, answers, picks, strict=True)
                ]
                is_whole = all(fit or not each.question.is_required for each, fit in zip(asked, fits, strict=True))
                self._knowledge = known
                replies = []
                for each, answer, pick, fit in zip(asked, answers, picks, fits, strict=True):
                    if is_whole and fit:
                        replies.append(await self._record(each, answer, pick, state, after_action))
                    else:
                        missing: ResponseState = "declined" if answer.is_declined else "dismissed"
                        replies.append(await self._without_answer(each, missing, after_action, answer))
                return replies

    async def _record(
        self,
        asked: _Open,
        answer: UserAnswer,
        picks: tuple[str, ...],
        state: ResponseState,
        after_action: int | None,
    ) -> Reply:
        text = ", ".join(picks) or answer.text
        self._reveal(answer)
        await self._recording.append(
            QuestionAnswered(
                question_id=asked.event.question_id,
                answer=text,
                simulator=self._simulator.name,
                latency_ms=round((self._clock() - asked.began_s) * 1000, 3),
                revealed=answer.revealed,
                withheld=answer.withheld,
                rejected=answer.rejected,
                readings=answer.readings,
                response_state=state,
                after_action=after_action,
                picked=picks,
                answered_by=answer.by,
                saw_values=answer.saw_values,
            )
        )
        return Reply(state=state, text=text, picked=picks)

    async def _simulated(self, asked: _Open) -> UserAnswer:
        """Return the answer to a question. The next one takes into account what it reveals."""
        question, context, knowledge = asked.event.question, asked.event.context, self._knowledge_of(asked)
        try:
            answer = await self._simulator.answer(question, context, knowledge)
        except (BoundaryError, RecorderError):
            raise
        except Exception as error:
            raise UserSimulatorError(
                f"the simulator {self._simulator.name} failed: {type(error).__name__}: {error}", kind="crash"
            ) from error
        self._reveal(answer)
        return answer

    def _reveal(self, answer: UserAnswer) -> None:
        revealed = self._knowledge.revealed.union(each.segment_id for each in answer.revealed)
        count = self._knowledge.answer_count + bool(answer.revealed)
        self._knowledge = msgspec.structs.replace(self._knowledge, revealed=revealed, answer_count=count)

    def _knowledge_of(self, asked: _Open) -> UserKnowledge:
        return msgspec.structs.replace(self._knowledge, offered=offered(asked.event.options))


async def _request(question: str, context: str, knowledge: UserKnowledge) -> ExchangeReading:
    """Return what a question without an answer asks for."""
    return await beside_loop(len(question) + len(context), unanswered, question, context, knowledge)


def question_of_command(command: Any, program: str) -> str | None:
    """Return the question of a shell command that does nothing but ask by a program, or None."""
    lexer = shlex.shlex(command if isinstance(command, str) else "", posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        first, *words = list(lexer) or [""]
    except ValueError:  # a quotation without an end
        return None
    is_alone = first == program and not any(set(word) <= set("();<>|&") for word in words)
    return " ".join(words).strip() or None if is_alone else None


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

    async def ask(self, arguments: dict[str, Any], call_id: str | None, medium: Medium = "mcp") -> ToolResult:
        """Ask with the arguments from the model. Invalid arguments give an error result.

        Raises:
            UserSimulatorError: The user could not answer.
        """
        problem = problem_with(TOOL_NAME, arguments)
        if problem is not None:
            return ToolResult(text=problem, is_error=True, server=SERVER_NAME)
        context = arguments.get("context") or ""
        answer = await self.user(arguments["question"], context, call_id or None, self._current_action(), medium)
        return ToolResult(text=answer, server=SERVER_NAME)
