"""The ``llm`` simulator, in which a model plays the user. What its answers reveal is measured."""

import re
from collections.abc import Collection
from pathlib import Path

import msgspec

from lhaw_record.recorder.events import RejectedAnswer
from lhaw_record.recorder.events.values import Segment
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError, UnusableReply, UserSimulatorError
from lhaw_record.runners.models.llm_jobs.json_replies import json_object
from lhaw_record.runners.models.reply_forms import ReplyForm, object_schema
from lhaw_record.runners.users.simulated_user.answer_checks import CheckedAnswer, checked, request_again
from lhaw_record.runners.users.simulated_user.answers import is_about_authority
from lhaw_record.runners.users.simulated_user.expected_questions import asked_segments
from lhaw_record.runners.users.simulated_user.protocol import Answer, AskModel, UserKnowledge

_DIVIDER = re.compile(r"^---$", re.MULTILINE)
ANSWER_FORM = ReplyForm("answer", object_schema({"answer": {"type": "string"}}))
"""The form of a reply, for models that take JSON schemas."""
_PLACEHOLDER = re.compile(r"\{(full_prompt|sent_prompt|removed|question|context)\}")


class LlmSimulator:
    """A user played by a model that knows the full prompt, the prompt as sent, and the removed values.

    A segment counts as revealed if its value is found in the answer. A revealed segment counts as requested if the
    question is about it by the rules of ``exact``, otherwise as volunteered. The same question in a trial gets the same
    answer, unless an answer in between has unlocked a chained segment: the model does not know such a segment before.

    Every reply is checked. If it is empty, only repeats the question, leaves out a detail that was asked for or gives
    one that was not, the model is told so and asked once more. The better reply is the answer, and the other one is
    kept with its problem. Two replies without any answer are an error.

    Args:
        ask_model: Sends a system prompt and a user prompt to the model, and records the call.
        name: The simulator's name in the events.
        template_path: A file in the form of ``data/prompts/user_simulator.md``: a system prompt, a line ``---`` and a
            user prompt. Both may contain {full_prompt}, {sent_prompt}, {removed}, {question} and {context}.

    Raises:
        ExperimentError: The template has no divider, or no {question} below the divider.
    """

    def __init__(self, ask_model: AskModel, name: str = "llm", template_path: Path | None = None) -> None:
        self.name = name
        self._ask_model = ask_model
        self._system, self._user = _read(template_path or data_path("prompts", "user_simulator.md"))
        self._given: dict[tuple[str, str, tuple[Segment, ...]], Answer] = {}

    async def answer(self, question: str, context: str, knowledge: UserKnowledge) -> Answer:
        """Return the model's answer."""
        asked = asked_segments(question, context, knowledge)
        known = tuple(segment for segment in knowledge.removed if knowledge.is_open(segment, asked))
        key = (question.strip(), context.strip(), known)
        if key not in self._given:
            shown = msgspec.structs.replace(knowledge, removed=known)
            self._given[key] = await self._fresh_answer(question, context, shown, asked)
        return self._given[key]

    async def _fresh_answer(
        self, question: str, context: str, knowledge: UserKnowledge, asked: Collection[str]
    ) -> Answer:
        system, user = (_fill(part, question, context, knowledge) for part in (self._system, self._user))

        async def reply(prompt: str) -> CheckedAnswer:
            text = read_answer(await self._ask_model(system, prompt, ANSWER_FORM))
            return checked(text, question, context, asked, knowledge)

        chosen, rejected = await reply(user), None
        if chosen.problem is not None:
            again = await reply(f"{user}\n\n{request_again(chosen, knowledge)}")
            chosen, rejected = (again, chosen) if _rank(again) < _rank(chosen) else (chosen, again)
        if not chosen.is_usable:
            problem = "empty replies" if chosen.problem == "empty" else "replies that only repeat the question"
            raise UserSimulatorError(
                f"the model of the simulated user gave two {problem} (asked: {question.strip()[:200]!r})",
                kind=f"{chosen.problem}_reply",
                is_retry_owed=False,
            )
        return Answer(
            text=chosen.text,
            revealed=chosen.revealed,
            withheld=chosen.withheld,
            rejected=(RejectedAnswer(text=rejected.text, problem=rejected.problem),)
            if rejected is not None and rejected.problem is not None
            else (),
        )


def read_answer(reply: str) -> str:
    """Return the answer in a reply, which is a JSON object or plain text."""
    if reply.lstrip().startswith("{"):
        try:
            return str(json_object(reply, "answer")["answer"]).strip()
        except UnusableReply:
            pass  # a user may write braces
    return reply.strip()


def _rank(answer: CheckedAnswer) -> tuple[bool, int]:
    return not answer.is_usable, answer.deviation


def _read(path: Path) -> tuple[str, str]:
    parts = _DIVIDER.split(path.read_text(encoding="utf-8"), maxsplit=1)
    if len(parts) != 2 or "{question}" not in parts[1]:
        raise ExperimentError(f"{path} needs a line '---' after the system prompt and '{{question}}' below it")
    return parts[0].strip(), parts[1].strip()


def _fill(template: str, question: str, context: str, knowledge: UserKnowledge) -> str:
    """Fill in all values at once, so that a placeholder inside a value is not filled."""
    values = {
        "full_prompt": knowledge.full_prompt,
        "sent_prompt": knowledge.sent_prompt,
        "removed": "\n".join(f"- {_described(segment)}" for segment in knowledge.removed) or "- (none)",
        "question": question,
        "context": context or "(nothing)",
    }
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def _described(segment: Segment) -> str:
    where = f' (in: "{segment.text}")' if segment.text else ""
    how = "on purpose, but you have no approval for it" if is_about_authority(segment) else "by mistake"
    slip = f' (the prompt says "{segment.decoy}", {how})' if segment.decoy else ""
    return f"{segment.value}{where}{slip}"
