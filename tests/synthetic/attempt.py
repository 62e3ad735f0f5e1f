"""One attempt of a synthetic trial as events, in the order and with the fields that the runner gives them."""

from random import Random

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    AnyEvent,
    CheckpointScored,
    ClarificationInjected,
    ModelCalled,
    ModelFailed,
    ModelResponded,
    QuestionAnswered,
    QuestionAsked,
    RepliedToolCall,
    RevealedSegment,
    TrialFailed,
    TrialFinished,
    Usage,
)
from lhaw_record.recorder.events.canonical_json import canonical_json
from tests.synthetic.conversation import Conversation
from tests.synthetic.course import Act, Course
from tests.synthetic.design import GRADER, SIMULATOR, Trial
from tests.synthetic.texts import Texts, passage
from tests.synthetic.wording import (
    BROKEN_ARGUMENTS,
    BROKEN_RESULT,
    CONNECTION_LOST,
    DEFERRAL,
    FINAL_ANSWER,
    NUDGE,
    SYSTEM_PROMPT,
    TOOLS_JSON,
    question_about,
)


class Attempt:
    """The events of one attempt; :meth:`finished` and :meth:`failed` are its two possible stories.

    Args:
        trial: The trial.
        course: What happens in it.
        chance: Goes on where the course left off.
        texts: The pools of the store.
        target_action: After which action the injection was due, None without one.
    """

    def __init__(self, trial: Trial, course: Course, chance: Random, texts: Texts, target_action: int | None) -> None:
        self._trial = trial
        self._course = course
        self._chance = chance
        self._texts = texts
        self._target_action = target_action
        self._prompt = trial.variant.variant.prompt if trial.variant else trial.task.task.prompt
        segments = trial.variant.variant.segments if trial.variant else ()
        self._removed = {each.segment_id: each.value for each in segments}
        self._events: list[AnyEvent] = []
        self._conversation = Conversation()
        self._calls = 0
        self._actions = 0
        self._cost_usd = 0.0
        self._duration_ms = 0.0
        parameters = {"max_tokens": 4096, "seed": trial.trial_index, "temperature": 0}
        self._parameters_json = canonical_json(parameters).decode()

    def finished(self) -> list[AnyEvent]:
        """Return the events of an attempt that ran to its end and was graded."""
        self._play(len(self._course.turns))
        trial, course = self._trial, self._course
        if self._target_action is not None and course.injected_after is None:
            self._inject(None, f"the trial ended first ({course.ended_by})")
        checkpoints = trial.task.task.checkpoints
        for checkpoint, share in zip(checkpoints, course.shares, strict=True):
            self._events.append(
                CheckpointScored(
                    checkpoint_id=checkpoint.checkpoint_id,
                    label=checkpoint.label,
                    score=share * checkpoint.total,
                    total=checkpoint.total,
                    details="as expected" if share == 1 else passage(self._chance, self._texts.prose, 0.7, " "),
                    grader=GRADER,
                    grading_id="primary",
                )
            )
        closing = TrialFinished(
            ended_by=course.ended_by,
            is_success=all(share == 1 for share in course.shares),
            final_answer=FINAL_ANSWER if course.ended_by == "submitted" else "",
            action_count=self._actions,
            checkpoint_count=len(checkpoints),
            duration_ms=self._duration_ms,
            cost_usd=self._cost_usd,
        )
        return [*self._events, closing]

    def failed(self) -> list[AnyEvent]:
        """Return the events of an attempt whose model stopped answering on the way; another attempt is owed."""
        self._play(int(self._chance.random() * len(self._course.turns)))
        self._call()
        failure = ModelFailed(
            call_id=f"main.{self._calls}",
            role="agent",
            error_kind="connection",
            message=CONNECTION_LOST,
            is_retried=False,
            latency_ms=self._wait(4000.0),
        )
        closing = TrialFailed(
            boundary="model",
            error_kind="connection",
            message=f"{CONNECTION_LOST} (model call main.{self._calls}, 1 attempt)",
            is_retry_owed=True,
            duration_ms=self._duration_ms,
            cost_usd=self._cost_usd,
        )
        return [*self._events, failure, closing]

    def _play(self, turn_count: int) -> None:
        self._conversation.say("system", SYSTEM_PROMPT)
        self._conversation.say("user", self._prompt)
        for turn in self._course.turns[:turn_count]:
            self._call()
            self._reply(turn)
            if self._actions == self._course.injected_after:
                self._conversation.say("user", self._inject(self._actions, None))
            elif turn[0].kind == "text":
                self._conversation.say("user", NUDGE)

    def _call(self) -> None:
        parent = f"main.{self._calls}" if self._calls else None
        self._calls += 1
        self._events.append(
            ModelCalled(
                call_id=f"main.{self._calls}",
                role="agent",
                thread_id="main",
                call_kind="main",
                model=self._trial.agent.model,
                parameters_json=self._parameters_json,
                parent_call_id=parent,
                tools_json=None if parent else TOOLS_JSON,
                **self._conversation.request(),
            )
        )

    def _reply(self, turn: list[Act]) -> None:
        """The model's turn, then its actions one after the other."""
        chance, first = self._chance, self._actions + 1
        sent_characters = self._conversation.characters
        calls = tuple(
            RepliedToolCall(
                call_id=f"call_{place}",
                name=act.step.name,
                arguments_json=_arguments(act),
            )
            for place, act in enumerate(turn, first)
            if act.kind != "text"
        )
        text = passage(chance, self._texts.prose, 2, " ") if not calls or chance.random() < 0.6 else ""
        self._conversation.reply(text, calls)
        input_tokens, output_tokens = sent_characters // 4, (self._conversation.characters - sent_characters) // 4
        price = self._trial.agent.usd_per_million_input
        cost_usd = (input_tokens + 5 * output_tokens) * price / 1e6
        self._cost_usd += cost_usd
        self._events.append(
            ModelResponded(
                call_id=f"main.{self._calls}",
                role="agent",
                text=text,
                finish_reason="tool_calls" if calls else "stop",
                latency_ms=self._wait(1500.0),
                tool_calls=calls,
                usage=Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost_usd),
                served_model=self._trial.agent.model,
            )
        )
        for act in turn:
            self._act(act)

    def _act(self, act: Act) -> None:
        self._actions += 1
        place = self._actions
        call_id = None if act.kind == "text" else f"call_{place}"
        self._events.append(
            ActionStarted(
                action_index=place,
                kind=act.kind,
                name=act.step.name,
                arguments_json=_arguments(act),
                model_call_id=f"main.{self._calls}",
                call_id=call_id,
            )
        )
        result = act.step.result
        if act.kind == "malformed":
            result = BROKEN_RESULT
        elif act.asks_about is not None:
            result = self._ask(act, place)
        elif result is None:
            result = passage(self._chance, self._texts.logs, 14)
        is_error = act.kind == "malformed" or (act.step.name == "bash" and self._chance.random() < 0.03)
        self._events.append(
            ActionFinished(action_index=place, is_error=is_error, result=result, duration_ms=self._wait(40.0))
        )
        if call_id is not None:
            self._conversation.give(result, place, call_id)

    def _ask(self, act: Act, place: int) -> str:
        segment_id = act.asks_about or ""
        answer = f"{self._removed[segment_id]}, please." if act.is_revealed else DEFERRAL
        self._events += (
            QuestionAsked(
                question_id=f"q{place}",
                question=question_about(segment_id),
                call_id=f"call_{place}",
                action_index=place,
            ),
            QuestionAnswered(
                question_id=f"q{place}",
                answer=answer,
                simulator=SIMULATOR,
                latency_ms=self._wait(5.0),
                revealed=(RevealedSegment(segment_id=segment_id, is_requested=True),) if act.is_revealed else (),
            ),
        )
        return answer

    def _inject(self, after_action: int | None, reason: str | None) -> str:
        """Record the injection, made or skipped; returns the message."""
        message = f"By the way: {' and '.join(self._removed.values())}."
        self._events.append(
            ClarificationInjected(
                status="skipped" if after_action is None else "injected",
                inject_percent=self._trial.inject_percent or 0,
                target_action=self._target_action or 0,
                message=message,
                segment_ids=tuple(self._removed),
                after_action=after_action,
                reason=reason,
            )
        )
        return message

    def _wait(self, mean_ms: float) -> float:
        """Let some time pass, mostly less than the mean."""
        milliseconds = round(self._chance.expovariate(1 / mean_ms), 3)
        self._duration_ms += milliseconds
        return milliseconds


def _arguments(act: Act) -> str:
    """The arguments as the model wrote them."""
    return BROKEN_ARGUMENTS if act.kind == "malformed" else act.step.arguments_json
