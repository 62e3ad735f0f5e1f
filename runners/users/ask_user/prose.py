"""The user at the end of an agent's turn: judges say what it asks for, and the user goes on with the agent, or not.

A question is answered by the simulated user and recorded as every question, with the medium ``prose``. A request for
permission is answered by the policy of the agent's entry, unless it asks for what was removed. Whatever else a turn
says, the agent is done, unless the user has a second request.
"""

import tomllib
from functools import cache
from typing import Any, Literal, Protocol, get_args

import msgspec

from lhaw_record.recorder.events import ApprovalAnswered, EndingJudged
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.judging import Asking, EndingVerdict
from lhaw_record.recorder.prose import PROSE_JUDGE, READ_CHARACTERS, asked_in, asking_of
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.errors import UnusableReply, UserSimulatorError
from lhaw_record.runners.base.recording import Recording
from lhaw_record.runners.experiment.tables import Experiment
from lhaw_record.runners.models.llm_jobs.json_replies import json_object
from lhaw_record.runners.models.reply_forms import ReplyForm, object_schema
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser
from lhaw_record.runners.users.simulated_user.protocol import AskModel

_CONTEXT_CHARACTERS = 2000
_VERDICT_FORM = ReplyForm("verdict", object_schema({"asks": {"type": "string", "enum": list(get_args(Asking))}}))


class EndingJudge(Protocol):
    """A judge of endings beside the rules."""

    name: str

    async def __call__(self, ending: str) -> Asking:
        """Return what the end of a turn asks for.

        Raises:
            UserSimulatorError: The judge cannot say.
        """
        ...


class ModelJudge:
    """A model as the judge of endings.

    Args:
        ask_model: Sends a prompt to the model, and records the call.
        model: The model's name.
    """

    def __init__(self, ask_model: AskModel, model: str) -> None:
        self._ask_model = ask_model
        self._prompt = str(_words()["judge"]["prompt"])
        self.name = f"{model}#{digest(self._prompt)[:12]}"

    async def __call__(self, ending: str) -> Asking:
        reply = await self._ask_model("", self._prompt.replace("{ending}", ending), _VERDICT_FORM)
        try:
            asks: Asking = msgspec.convert(json_object(reply, "asks")["asks"], Asking)
        except (UnusableReply, msgspec.ValidationError) as error:
            message = f"{self.name}, the judge of endings, gave no verdict: {error}"
            raise UserSimulatorError(message, kind="no_verdict") from error
        return asks


class TurnUser:
    """What one trial's user says at the ends of turns.

    Args:
        user: Answers and records the questions. None if the condition has no user to ask.
        max_turns: How many turns the user has after the task to answer what is asked in prose. None if the agent does
            not ask so.
        follow_up: The user's second request, when the work on the first is handed in. None if they make none.
        judge: A model that decides in place of the rules, or None.
        approvals: How requests for permission are answered.
        trial_clock: Counts the time spent waiting for the judge.
    """

    def __init__(
        self,
        user: RecordedUser | None,
        recording: Recording,
        max_turns: int | None,
        follow_up: str | None,
        judge: EndingJudge | None = None,
        approvals: Literal["allow", "reject"] = "allow",
        trial_clock: TrialClock | None = None,
    ) -> None:
        self._user = user
        self._recording = recording
        self._turns_left = max_turns
        self._follow_up = follow_up
        self._judge = judge
        self._approvals = approvals
        self._trial_clock = trial_clock or TrialClock()

    @property
    def may_go_on(self) -> bool:
        """Whether the user may say anything at the end of a turn."""
        return self._turns_left is not None or self._follow_up is not None

    async def told_after(self, action_count: int) -> str | None:
        """Return the user's late answers that are due after this number of actions, or None."""
        return None if self._user is None else await self._user.told_after(action_count)

    async def close(self) -> None:
        """Record that no open question gets an answer any more, because the agent has ended."""
        if self._user is not None:
            await self._user.close()

    async def react(self, ending: str, action_index: int, *, is_handed_in: bool) -> tuple[bool, str | None]:
        """Return whether a turn, which an action ended, asks, and what the user says next, or None."""
        if self._user is not None and self._turns_left is not None:
            has_asked, says = await self._answered(self._user, self._turns_left, ending, action_index)
            if has_asked:
                self._turns_left -= 1
                return True, says
        request = self._follow_up if is_handed_in else None
        if request is not None:
            self._follow_up = None
            if self._user is not None:
                self._user.follow_up()
        return False, request

    async def _answered(
        self, user: RecordedUser, turns_left: int, ending: str, action_index: int
    ) -> tuple[bool, str | None]:
        """Judge a turn and record that: whether it asks, and what the user says next, if so."""
        question, before = asked_in(ending)
        context = before[-_CONTEXT_CHARACTERS:]
        verdicts = [EndingVerdict(judge=PROSE_JUDGE, asks=asking_of(ending))]
        if self._judge is not None and ending.strip():
            with self._trial_clock.waiting("user_simulator", "the judge of a turn's end"):
                asks = await self._judge(ending[-READ_CHARACTERS:])
            verdicts.append(EndingVerdict(judge=self._judge.name, asks=asks))
        asks = verdicts[-1].asks
        if asks == "permission" and await user.is_about_removed(question, context):
            asks = "question"
        has_asked = asks in ("question", "permission")
        is_capped = has_asked and turns_left < 1
        await self._recording.append(
            EndingJudged(action_index=action_index, asks=asks, verdicts=tuple(verdicts), is_capped=is_capped)
        )
        if not has_asked:
            return False, None
        if asks == "question":
            says = await user.in_prose(question, context, action_index, is_there=not is_capped)
        else:
            says = None if is_capped else await self._permitted(question)
        return True, says

    async def _permitted(self, request: str) -> str:
        answer, options = f"{self._approvals}_once", ("allow_once", "reject_once")
        await self._recording.append(ApprovalAnswered(title=request, options=options, answer=answer))
        return str(_words()["permission"][self._approvals])


def prose_identity(experiment: Experiment) -> str:
    """Return a digest of all that decides whether and how a turn in prose is answered, beside the simulated user."""
    judge = experiment.user_simulator.ending_judge
    model = [judge.model, judge.given_parameters] if judge is not None else []
    return digest([PROSE_JUDGE, model, experiment.limits.max_user_turns, _words()])[:12]


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads(data_path("user", "prose.toml").read_text(encoding="utf-8"))
