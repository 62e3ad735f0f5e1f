"""The ``llm`` simulator: a model plays the user, its answers are checked, and what they reveal is measured."""

import re
import tomllib
from collections.abc import Collection
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events import RejectedAnswer, RevealedSegment
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Segment
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError, UnusableReply, UserSimulatorError
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.experiment.tables import Experiment, UserSimulatorSpec
from lhaw_record.runners.models.llm_jobs.json_replies import json_object
from lhaw_record.runners.models.reply_forms import ReplyForm, object_schema
from lhaw_record.runners.users.simulated_user.answers import (
    DumpSimulator,
    ExactSimulator,
    is_about_authority,
    reveals,
)
from lhaw_record.runners.users.simulated_user.encoder import installed_encoder
from lhaw_record.runners.users.simulated_user.lexicon import sentences
from lhaw_record.runners.users.simulated_user.matcher import asked_segments, judge_of
from lhaw_record.runners.users.simulated_user.protocol import AskModel, UserAnswer, UserKnowledge, UserSimulator

_WORD = re.compile(r"\w+")
_ECHOED_SHARE = 0.8
_DIVIDER = re.compile(r"^---$", re.MULTILINE)
ANSWER_FORM = ReplyForm("answer", object_schema({"answer": {"type": "string"}}))
"""The JSON schema of a reply, for models that take JSON schemas."""
_PLACEHOLDER = re.compile(r"\{(full_prompt|sent_prompt|removed|question|context)\}")


class CheckedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, the segments that it reveals or withholds, and its problem in one word (or None).

    ``problem`` is ``empty``, ``echo``, ``withheld`` or ``volunteered``. The first two make an answer unusable.
    """

    text: str
    revealed: tuple[RevealedSegment, ...]
    withheld: tuple[str, ...]
    problem: str | None

    @property
    def is_usable(self) -> bool:
        """Whether the answer may be given to the agent."""
        return self.problem not in ("empty", "echo")

    @property
    def deviation(self) -> int:
        """The number of segments that are withheld or volunteered."""
        return len(self.withheld) + sum(not each.is_requested for each in self.revealed)


def checked(text: str, question: str, context: str, asked: Collection[str], knowledge: UserKnowledge) -> CheckedAnswer:
    """Return an answer together with its problem, if it has one."""
    revealed = tuple(
        RevealedSegment(segment_id=each.segment_id, is_requested=each.segment_id in asked)
        for each in knowledge.removed
        if reveals(text, each)
    )
    given = {each.segment_id for each in revealed}
    withheld = tuple(
        each.segment_id for each in knowledge.removed if each.segment_id in asked and each.segment_id not in given
    )
    is_news = any(not reveals(question, each) for each in knowledge.removed if each.segment_id in given)
    problem: str | None
    if not text:
        problem = "empty"
    elif not is_news and (is_echo(text, question) or (context and is_echo(text, f"{context} {question}"))):
        problem = "echo"
    elif withheld:
        problem = "withheld"
    else:
        problem = "volunteered" if any(not each.is_requested for each in revealed) else None
    return CheckedAnswer(text=text, revealed=revealed, withheld=withheld, problem=problem)


def is_echo(answer: str, question: str) -> bool:
    """Return whether an answer only repeats the question.

    This holds if little remains without the question's sentences, or if the answer is itself a question in nearly the
    same words. A confirming statement is an answer even if it uses the question's words.
    """
    said, asked = _words(answer), _words(question)
    if not said or not asked:
        return False
    rest = f" {' '.join(said)} "
    for sentence in sentences(question):
        rest = rest.replace(f" {' '.join(_words(sentence))} ", " ")
    if len(rest.split()) <= (1 - _ECHOED_SHARE) * len(said):
        return True
    is_question = answer.rstrip(" \"'`*)").endswith("?")
    return is_question and SequenceMatcher(None, said, asked, autojunk=False).ratio() >= _ECHOED_SHARE


def request_again(answer: CheckedAnswer, knowledge: UserKnowledge) -> str:
    """Return the message to the model about an answer that has a problem."""
    templates = _templates()
    volunteered = {each.segment_id for each in answer.revealed if not each.is_requested}
    named = answer.withheld if answer.problem == "withheld" else volunteered
    values = ", ".join(f'"{each.value}"' for each in knowledge.removed if each.segment_id in named)
    problem = templates[answer.problem or "empty"].replace("{text}", values)
    return templates["again"].replace("{problem}", problem).replace("{reply}", answer.text)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@cache
def _templates() -> dict[str, str]:
    return tomllib.loads(data_path("user", "checks.toml").read_text(encoding="utf-8"))


class LlmSimulator:
    """A user played by a model that knows the full prompt, the prompt as sent, and the removed values.

    A segment counts as revealed if its value is found in the answer. A revealed segment counts as requested if the
    question is about it by the rules of ``exact``, otherwise as volunteered. Within a trial, the same question gets the
    same answer, unless an answer in between has unlocked a chained segment, which the model does not know before.

    If a reply is empty, only repeats the question, omits a requested detail or reveals another one, the model is told
    so and asked once more. The better reply becomes the answer, and the other one is kept with its problem. Two
    unusable replies are an error.

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
        self._given: dict[tuple[str, str, tuple[Segment, ...]], UserAnswer] = {}

    async def answer(self, question: str, context: str, knowledge: UserKnowledge) -> UserAnswer:
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
    ) -> UserAnswer:
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
        return UserAnswer(
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
            pass  # user text may contain braces
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


def simulator_of(spec: UserSimulatorSpec, ask_model: AskModel | None, template_path: Path | None) -> UserSimulator:
    """Return the simulated user that an experiment names. ``ask_model`` is only used for the kind ``llm``."""
    if ask_model is not None:
        return LlmSimulator(ask_model, template_path=template_path)
    encoder = installed_encoder() if spec.matcher == "encoder" else None
    return ExactSimulator(encoder) if spec.kind == "exact" else DumpSimulator(encoder)


def simulator_identity(experiment: Experiment, prompts: Prompts) -> str:
    """Return the identity for a trial's key: the simulator's kind, and a digest of all that affects answers.

    Raises:
        ExperimentError: The experiment names an encoder that is not installed.
    """
    spec = experiment.user_simulator
    files = [data_path("user", name) for name in ("answers.toml", "matcher.toml", "evidence.toml")]
    model: list[Any] = [judge_of(installed_encoder() if spec.matcher == "encoder" else None)]
    if spec.kind == "llm" and spec.llm is not None:
        files.append(prompts.user_simulator_path or data_path("prompts", "user_simulator.md"))
        files.append(data_path("user", "checks.toml"))
        model += [spec.llm.model, spec.llm.given_parameters]
    return f"{spec.kind}:{digest([model, *(path.read_text(encoding='utf-8') for path in files)])[:12]}"
