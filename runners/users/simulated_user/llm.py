"""The ``llm`` simulator: a model plays the user, and says what it was asked for and what it gave.

Rules check its reply only where they cannot be wrong; elsewhere the reply stands, and the event keeps both readings.
"""

import re
import tomllib
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events import ExchangeReading, RejectedAnswer
from lhaw_record.recorder.events.canonical_json import canonical_json, digest
from lhaw_record.recorder.events.values import Segment
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.clock import beside_loop
from lhaw_record.runners.base.errors import ExperimentError, UnusableReply, UserSimulatorError
from lhaw_record.runners.base.text.normalization import normalize
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.experiment.tables import DEFERRAL, Deferral, Experiment, UserSimulatorSpec
from lhaw_record.runners.models.llm_jobs.json_replies import repaired_object
from lhaw_record.runners.models.reply_forms import ReplyForm, object_schema
from lhaw_record.runners.users.simulated_user.answers import (
    RULE_BASED,
    deferral_request,
    is_about_authority,
    reveals,
)
from lhaw_record.runners.users.simulated_user.encoder import Encoder, installed_encoder
from lhaw_record.runners.users.simulated_user.lexicon import lexicon, sentences, stem, terms
from lhaw_record.runners.users.simulated_user.matcher import asked_segments, judge_of
from lhaw_record.runners.users.simulated_user.protocol import AskModel, UserAnswer, UserKnowledge, UserSimulator
from lhaw_record.runners.users.simulated_user.readings import is_for_everything, names_nothing, reading_of

_WORD = re.compile(r"\w+")
_ECHOED_SHARE = 0.8
_COMPARED_WORDS = 1000  # a choice: the comparison is quadratic, and an echo of more is found by its sentences
_DISTINCT = re.compile(r"(?=.{4})[a-z]*[^a-z].*", re.DOTALL)  # a choice: "10", "EUR" or "region" may occur by chance
_DIVIDER = re.compile(r"^---$", re.MULTILINE)
_EVERYTHING = "everything"
_UNUSABLE = {
    "empty": "empty replies",
    "echo": "replies that only repeat the question",
    "cut": "replies that end in the middle",
}
_IDS = {"type": "array", "items": {"type": "string"}}
ANSWER_FORM = ReplyForm("answer", object_schema({"asks_for": _IDS, "reply": {"type": "string"}, "gives": _IDS}))
"""The JSON schema of a reply, for models that take JSON schemas."""
_PLACEHOLDER = re.compile(r"\{(full_prompt|sent_prompt|removed|question|context|deferral)\}")


class PlayedReply(msgspec.Struct, frozen=True, kw_only=True):
    """A model's reply: the text for the agent, and its own account of what is asked for and given, None without one.

    ``is_cut`` says that the account or the text ends in the middle.
    """

    text: str
    is_cut: bool = False
    asks_for: frozenset[str] | None = None
    gives: frozenset[str] = frozenset()


class CheckedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A reply with its readings, the simulator's own first, and its problem in one word (or None).

    The problems are those of :class:`RejectedAnswer`. An empty or cut reply and an echo are unusable.
    """

    text: str
    readings: tuple[ExchangeReading, ...]
    problem: str | None

    @property
    def is_usable(self) -> bool:
        """Whether the answer may be given to the agent."""
        return self.problem not in _UNUSABLE

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Sorts the better of two replies first: usable, in the form, with fewer segments withheld or volunteered."""
        own = self.readings[0]
        deviation = len(own.withheld) + (0 if own.verdict == "right" else len(set(own.gives) - set(own.asks_for)))
        return not self.is_usable, self.problem == "unstructured", deviation


def read_reply(reply: str, removed: Sequence[Segment]) -> PlayedReply:
    """Return the parts of a reply. A reply in another form is text without an account of itself."""
    try:
        found = repaired_object(reply, "reply")
    except UnusableReply:
        return PlayedReply(text=reply.strip(), is_cut='"asks_for"' in reply)
    if found.open_depth:
        return PlayedReply(text=reply.strip(), is_cut=True)
    said = found.value["reply"]
    text = said if isinstance(said, str) else "" if said is None else canonical_json(said).decode()
    if not isinstance(found.value.get("asks_for"), list) or not isinstance(found.value.get("gives"), list):
        return PlayedReply(text=text.strip())
    asks_for, gives = (_known_ids(found.value[key], removed) for key in ("asks_for", "gives"))
    return PlayedReply(text=text.strip(), asks_for=asks_for, gives=gives - {_EVERYTHING})


def _known_ids(named: list[Any], removed: Sequence[Segment]) -> frozenset[str]:
    ids = {each.segment_id.casefold(): each.segment_id for each in removed} | {_EVERYTHING: _EVERYTHING}
    return frozenset(ids[name] for each in named if (name := str(each).strip().casefold()) in ids)


def checked(
    reply: PlayedReply,
    question: str,
    context: str,
    knowledge: UserKnowledge,
    judge: str,
    encoder: Encoder | None = None,
) -> CheckedAnswer:
    """Return a reply with what its model and the matcher read in the exchange, and its problem, if it has one.

    To the model's own account, the matcher only adds what is certain: the verbatim value of a segment that was asked
    for, or that no reading of the question asks for, and that a question without a word about any detail asks for none.
    """
    text, asked = reply.text, asked_segments(question, context, knowledge, encoder)
    verbatim = {each.segment_id for each in knowledge.removed if reveals(text, each)}
    is_all = is_for_everything(question)
    rules = reading_of(judge_of(encoder), knowledge, asks_for=asked, gives=verbatim, is_for_everything=is_all)
    if reply.asks_for is None:
        readings: tuple[ExchangeReading, ...] = (msgspec.structs.replace(rules, doubts=("unstructured",)),)
        problem: str | None = "unstructured"
    else:
        asks_for = reply.asks_for - {_EVERYTHING}
        gives = (
            reply.gives | (verbatim & asks_for) | _certainly_told(text, question, context, asks_for, asked, knowledge)
        )
        told = [each for each in knowledge.removed if each.segment_id in gives | verbatim] if is_all else []
        if told and _names_none(f"{context} {question}", told, knowledge):
            asks_for, gives = asks_for & set(asked), gives | verbatim
        else:
            is_all = _EVERYTHING in reply.asks_for
        own = reading_of(
            judge,
            knowledge,
            asks_for=asks_for,
            gives=gives,
            is_for_everything=is_all,
            opened_by=asks_for | set(asked),
            doubts=[
                *_doubts(asks_for, gives, rules, knowledge),
                *_traces(text, f"{question} {context}", asks_for | gives, knowledge),
                *_unexplained(text, f"{question} {context}", gives, knowledge),
                *_beside(text, f"{question} {context}", gives, knowledge),
            ],
        )
        readings = (own, rules)
        problem = own.verdict
    if not text or reply.is_cut:
        problem = "cut" if text else "empty"
    elif _repeats(text, question, context, [each for each in knowledge.removed if each.segment_id in verbatim]):
        problem = "echo"
    return CheckedAnswer(text=text, readings=readings, problem=None if problem == "right" else problem)


def _certainly_told(
    text: str, question: str, context: str, asks_for: Collection[str], asked: Collection[str], knowledge: UserKnowledge
) -> set[str]:
    """Return the segments that nobody asked for and whose values a reply can only have from the full prompt."""
    asked_ids = {*asks_for, *asked}
    named = [each for each in knowledge.removed if each.segment_id in asked_ids and knowledge.is_open(each, asked_ids)]
    others = (question, context, knowledge.sent_prompt, *(f"{each.value}\n{each.text or ''}" for each in named))
    return {
        each.segment_id
        for each in knowledge.removed
        if each not in named
        and _DISTINCT.fullmatch(each.value.strip())
        and reveals(text, each)
        and not any(reveals(other, each) for other in others)
    }


def _names_none(question: str, told: Sequence[Segment], knowledge: UserKnowledge) -> bool:
    """Return whether no word of a question for everything is about any of the segments that its answer tells.

    If the answer tells all of several segments, words of the prompt that was sent are about none of them.
    """
    if len(told) > 1 and len(told) == len(knowledge.removed) and names_nothing(question, knowledge.sent_prompt):
        return True
    spoken = terms(question)
    return names_nothing(question) and not any(
        spoken & terms(" ".join((each.value, each.text or "", *each.synonyms))) for each in told
    )


def _doubts(
    asks_for: Collection[str], gives: Collection[str], rules: ExchangeReading, knowledge: UserKnowledge
) -> list[str]:
    """Return where the rules read an exchange otherwise than its model."""
    readings = (("asked", rules.asks_for, asks_for), ("given", rules.gives, gives))
    return [
        f"{kind if segment_id in by_rules else f'not_{kind}'}:{segment_id}"
        for kind, by_rules, by_model in readings
        for segment_id in (each.segment_id for each in knowledge.removed)
        if (segment_id in by_rules) != (segment_id in by_model)
    ]


def _traces(text: str, said_before: str, named: Collection[str], knowledge: UserKnowledge) -> list[str]:
    """Return of which segments, neither asked for nor given, a reply has a word or a number that nobody had said."""
    told = [f"{each.value} {each.text or ''}" for each in knowledge.removed if each.segment_id in named]
    own = _signs(text) - _signs(" ".join((said_before, knowledge.sent_prompt, *told)))
    others = (each for each in knowledge.removed if each.segment_id not in named)
    return [f"trace:{each.segment_id}" for each in others if own & _signs(each.value)]


def _unexplained(text: str, said_before: str, gives: Collection[str], knowledge: UserKnowledge) -> list[str]:
    """Return a doubt if more sentences say something of their own than segments are told in other words.

    That is a word that stands neither in the question, nor in the prompt that was sent, nor beside a told segment, and
    that does not suit any task.
    """
    told = [each for each in knowledge.removed if each.segment_id in gives]
    values = (f"{each.value} {each.text or ''}" for each in told)
    there = " ".join((said_before, knowledge.sent_prompt, _templates()["plain"], *values))
    own = [each for each in sentences(text) if not names_nothing(normalize(each), normalize(there))]
    return ["unexplained"] if len(own) > sum(not reveals(text, each) for each in told) else []


def _beside(text: str, said_before: str, gives: Collection[str], knowledge: UserKnowledge) -> list[str]:
    """Return a doubt if a reply that reveals a value also has a word or a number of the prompt that nobody asked about.

    The prompt may then have what the question is for, so that the value is an extra.
    """
    told = [f"{each.value} {each.text or ''}" for each in knowledge.removed if each.segment_id in gives]
    plain = {each for each in _signs(_templates()["plain"]) if not each.isdigit()}
    own = (_signs(text) & _signs(knowledge.sent_prompt)) - _signs(" ".join((said_before, *told))) - plain
    return ["beside"] if told and own else []


def _signs(text: str) -> set[str]:
    """Return the stems of the words of four letters or more, and the numbers, in digits."""
    found = (_numbers().get(word) or (word if word.isdigit() else stem(word)) for word in _words(normalize(text)))
    return {each for each in found if each.isdigit() or (len(each) > 3 and each not in lexicon().stop_terms)}


@cache
def _numbers() -> dict[str, str]:
    raw = tomllib.loads(data_path("gate", "words.toml").read_text(encoding="utf-8"))
    return dict(raw["numbers"])


def _repeats(text: str, question: str, context: str, said: Sequence[Segment]) -> bool:
    """Return whether a reply is the question again. A statement with a removed value answers, as does a new value."""
    if said and (not _is_question(text) or any(not reveals(question, each) for each in said)):
        return False
    return is_echo(text, question) or bool(context and is_echo(text, f"{context} {question}"))


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
    compared = SequenceMatcher(None, said[:_COMPARED_WORDS], asked[:_COMPARED_WORDS], autojunk=False)
    return _is_question(answer) and compared.ratio() >= _ECHOED_SHARE


def _is_question(text: str) -> bool:
    return text.rstrip(" \"'`*)").endswith(("?", "\uff1f"))


def request_again(answer: CheckedAnswer, knowledge: UserKnowledge) -> str:
    """Return the message to the model about an answer that has a problem."""
    templates, own = _templates(), answer.readings[0]
    named = own.withheld if answer.problem == "withheld" else set(own.gives) - set(own.asks_for)
    values = ", ".join(f'{each.segment_id} ("{each.value}")' for each in knowledge.removed if each.segment_id in named)
    problem = templates[answer.problem or "empty"].replace("{text}", values)
    return templates["again"].replace("{problem}", problem).replace("{reply}", answer.text)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@cache
def _templates() -> dict[str, str]:
    return tomllib.loads(data_path("user", "checks.toml").read_text(encoding="utf-8"))


class LlmSimulator:
    """A user played by a model that knows the full prompt, the prompt as sent, and the removed values.

    The model decides in one structured reply what the question asks for, what to say, and what that gives. Within a
    trial, the same question gets the same answer, unless an answer in between has unlocked a chained segment, which the
    model does not know before.

    If a reply is empty, only repeats the question, is in another form, or by its model's account or by a certain rule
    withholds what was asked for or gives what was not, the model is told so and asked once more. The better reply
    becomes the answer, and the other one is kept with its problem. Two unusable replies are an error.

    Args:
        ask_model: Sends a system prompt and a user prompt to the model, and records the call.
        model: The model's name. With the digest of its prompt it is the name of the judge.
        template_path: A file in the form of ``data/prompts/user_simulator.md``: a system prompt, a line ``---`` and a
            user prompt. Both may contain {full_prompt}, {sent_prompt}, {removed}, {question}, {context} and {deferral}.
            What the form of the reply is, is added to it.
        deferral: What is said if nothing that was removed is asked for.
        encoder: Compares meanings for the second judge, which otherwise compares words.

    Raises:
        ExperimentError: The template has no divider, or no {question} below the divider.
    """

    name = "llm"
    is_person = False

    def __init__(
        self,
        ask_model: AskModel,
        model: str,
        template_path: Path | None = None,
        deferral: Deferral = DEFERRAL,
        encoder: Encoder | None = None,
    ) -> None:
        self._ask_model, self._encoder = ask_model, encoder
        self._system, self._user = _read(template_path or data_path("prompts", "user_simulator.md"))
        self._deferral = deferral_request(deferral)
        self._judge = f"{model}#{digest([self._system, self._user, _templates()['form'], self._deferral])[:12]}"
        self._given: dict[tuple[str, str, tuple[Segment, ...]], UserAnswer] = {}

    async def answer(self, question: str, context: str, knowledge: UserKnowledge) -> UserAnswer:
        """Return the model's answer."""
        size = len(question) + len(context)
        asked = await beside_loop(size, asked_segments, question, context, knowledge, self._encoder)
        known = tuple(segment for segment in knowledge.removed if knowledge.is_open(segment, asked))
        key = (question.strip(), context.strip(), known)
        if key not in self._given:
            self._given[key] = await self._fresh_answer(question, context, knowledge, known)
        return self._given[key]

    async def _fresh_answer(
        self, question: str, context: str, knowledge: UserKnowledge, known: tuple[Segment, ...]
    ) -> UserAnswer:
        system, user = (self._filled(part, question, context, knowledge, known) for part in (self._system, self._user))
        user = f"{user}\n{_templates()['form']}"

        def read(said: str) -> CheckedAnswer:
            return checked(read_reply(said, known), question, context, knowledge, self._judge, self._encoder)

        async def reply(prompt: str) -> CheckedAnswer:
            said = await self._ask_model(system, prompt, ANSWER_FORM)
            return await beside_loop(len(said) + len(question) + len(context), read, said)

        chosen, rejected = await reply(user), None
        if chosen.problem is not None:
            again = await reply(f"{user}\n\n{request_again(chosen, knowledge)}")
            chosen, rejected = (again, chosen) if again.rank < chosen.rank else (chosen, again)
        if not chosen.is_usable:
            problem = _UNUSABLE[chosen.problem or "empty"]
            raise UserSimulatorError(
                f"the model of the simulated user gave two {problem} (asked: {question.strip()[:200]!r})",
                kind=f"{chosen.problem}_reply",
                is_retry_owed=False,
            )
        return UserAnswer(
            text=chosen.text,
            readings=chosen.readings,
            rejected=(RejectedAnswer(text=rejected.text, problem=rejected.problem),)
            if rejected is not None and rejected.problem is not None
            else (),
        )

    def _filled(
        self, template: str, question: str, context: str, knowledge: UserKnowledge, known: Sequence[Segment]
    ) -> str:
        """Fill in all values at once, so that a placeholder inside a value is not filled."""
        values = {
            "full_prompt": knowledge.full_prompt,
            "sent_prompt": knowledge.sent_prompt,
            "removed": "\n".join(f"- {each.segment_id}: {_described(each)}" for each in known) or "- (none)",
            "question": question,
            "context": context or "(nothing)",
            "deferral": self._deferral,
        }
        return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def _read(path: Path) -> tuple[str, str]:
    parts = _DIVIDER.split(path.read_text(encoding="utf-8"), maxsplit=1)
    if len(parts) != 2 or "{question}" not in parts[1]:
        raise ExperimentError(f"{path} needs a line '---' after the system prompt and '{{question}}' below it")
    return parts[0].strip(), parts[1].strip()


def _described(segment: Segment) -> str:
    where = f' (in: "{segment.text}")' if segment.text else ""
    how = "on purpose, but you have no approval for it" if is_about_authority(segment) else "by mistake"
    slip = f' (the prompt says "{segment.decoy}", {how})' if segment.decoy else ""
    return f"{segment.value}{where}{slip}"


def simulator_of(spec: UserSimulatorSpec, ask_model: AskModel | None, template_path: Path | None) -> UserSimulator:
    """Return the simulated user that an experiment names. ``ask_model`` is only used for the kind ``llm``."""
    encoder = installed_encoder() if spec.matcher == "encoder" else None
    if spec.kind == "llm":
        assert spec.llm is not None, "the kind names a model"
        assert ask_model is not None, "a caller asks it"
        return LlmSimulator(ask_model, spec.llm.model, template_path, spec.deferral, encoder)
    return RULE_BASED[spec.kind](spec.deferral, encoder)


def simulator_identity(experiment: Experiment, prompts: Prompts) -> str:
    """Return the identity for a trial's key: the simulator's kind, and a digest of all that affects answers.

    Raises:
        ExperimentError: The experiment names an encoder that is not installed.
    """
    spec = experiment.user_simulator
    files = [data_path("user", name) for name in ("answers.toml", "matcher.toml", "evidence.toml", "fishing.toml")]
    model: list[Any] = [judge_of(installed_encoder() if spec.matcher == "encoder" else None)]
    if spec.kind == "llm" and spec.llm is not None:
        files.append(prompts.user_simulator_path or data_path("prompts", "user_simulator.md"))
        files.append(data_path("user", "checks.toml"))
        model += [spec.llm.model, spec.llm.given_parameters]
    return f"{spec.kind}:{digest([model, spec.deferral, *(path.read_text(encoding='utf-8') for path in files)])[:12]}"
