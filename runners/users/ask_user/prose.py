"""The user of an agent that asks by ending its turn: judges say what a turn asks for, and the user goes on, or not.

A question is answered by the simulated user and recorded as every question, with the medium ``prose``. A request for
permission is answered by the policy of the agent's entry, unless it asks for what was removed. Whatever else a turn
says, the agent is done.
"""

import tomllib
from functools import cache
from typing import Any, Literal, Protocol, get_args

import msgspec

from lhaw_record.recorder.events import ApprovalAnswered, EndingJudged, EndingVerdict
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.interaction import Asking
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


class ProseUser:
    """The user of one trial's agent, where it asks in prose.

    Args:
        user: Answers and records the questions.
        max_turns: How many turns the user has after the task.
        judge: A model that decides in place of the rules, or None.
        approvals: How requests for permission are answered.
        trial_clock: Counts the time spent waiting for the judge.
    """

    def __init__(
        self,
        user: RecordedUser,
        recording: Recording,
        max_turns: int,
        judge: EndingJudge | None = None,
        approvals: Literal["allow", "reject"] = "allow",
        trial_clock: TrialClock | None = None,
    ) -> None:
        self._user = user
        self._recording = recording
        self._turns_left = max_turns
        self._judge = judge
        self._approvals = approvals
        self._trial_clock = trial_clock or TrialClock()

    async def react(self, ending: str, action_index: int) -> tuple[bool, str | None]:
        """Judge the turn that an action ended, and record that: whether it asks, and what the user says next, if so."""
        question, before = asked_in(ending)
        context = before[-_CONTEXT_CHARACTERS:]
        verdicts = [EndingVerdict(judge=PROSE_JUDGE, asks=asking_of(ending))]
        if self._judge is not None and ending.strip():
            with self._trial_clock.waiting("user_simulator", "the judge of a turn's end"):
                asks = await self._judge(ending[-READ_CHARACTERS:])
            verdicts.append(EndingVerdict(judge=self._judge.name, asks=asks))
        asks = verdicts[-1].asks
        if asks == "permission" and self._user.is_about_removed(question, context):
            asks = "question"
        has_asked = asks in ("question", "permission")
        is_capped = has_asked and self._turns_left < 1
        await self._recording.append(
            EndingJudged(action_index=action_index, asks=asks, verdicts=tuple(verdicts), is_capped=is_capped)
        )
        if not has_asked:
            return False, None
        self._turns_left -= 1
        if asks == "question":
            says = await self._user.in_prose(question, context, action_index, is_there=not is_capped)
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
