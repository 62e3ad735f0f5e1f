"""Measures a simulated user on labelled questions: which well-aimed ones it answers, and what it reveals unasked."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.generators.errors import SourceError
from lhaw_record.generators.gate.calibration import interval_of
from lhaw_record.generators.generation.paid_run import Callers, PaidRun, PaidSettings
from lhaw_record.generators.llm.rewriter import segments_text
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment
from lhaw_record.recorder.resources import data_path
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.agents.services import asking
from lhaw_record.runners.base.errors import UnusableReply, UserSimulatorError
from lhaw_record.runners.base.text.language import language_of
from lhaw_record.runners.experiment.decoding import converted
from lhaw_record.runners.models.llm_jobs.json_replies import json_object
from lhaw_record.runners.models.llm_jobs.paid_work import PaidWork
from lhaw_record.runners.models.llm_jobs.prompt_template import PromptTemplate
from lhaw_record.runners.models.llm_jobs.question import ask
from lhaw_record.runners.models.reply_forms import ReplyForm, object_schema
from lhaw_record.runners.users.simulated_user.answers import reveals
from lhaw_record.runners.users.simulated_user.protocol import AskModel, UserKnowledge, UserSimulator

_PAGE = "docs/matcher.md"
_IDS = {"type": "array", "items": {"type": "string"}}
_QUESTION = object_schema({"question": {"type": "string"}, "asks_for": _IDS, "kind": {"type": "string"}})
_FORM = ReplyForm("questions", object_schema({"questions": {"type": "array", "items": _QUESTION}}))


class LabelledQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question to the user of a variant, and the ids of the removed segments that it asks for."""

    variant: str
    question: str
    asks_for: tuple[str, ...]
    kind: str = "plain"
    context: str = ""


class AskedUser(msgspec.Struct, frozen=True, kw_only=True):
    """What the user of a variant knows, and what they are asked. A model writes the questions if there are none."""

    variant_id: str
    knowledge: UserKnowledge
    questions: tuple[LabelledQuestion, ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    """A question, and the segments that its answer revealed."""

    asked: LabelledQuestion
    revealed: frozenset[str]

    def row(self) -> dict[str, object]:
        """Return the outcome as a row of the table of wrong answers."""
        shown = {"asks_for": " ".join(self.asked.asks_for), "revealed": " ".join(sorted(self.revealed))}
        return {"variant": self.asked.variant, "kind": self.asked.kind, **shown, "question": self.asked.question}


class _Names(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    synonyms: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


class _Segment(Segment, frozen=True, forbid_unknown_fields=True):
    questions: tuple[str, ...] = ()


class _Variant(msgspec.Struct, frozen=True):
    id: str
    full_prompt: str
    sent_prompt: str
    segments: tuple[_Segment, ...]

    @property
    def knowledge(self) -> UserKnowledge:
        known = UserKnowledge(full_prompt=self.full_prompt, sent_prompt=self.sent_prompt, removed=self.segments)
        return _with_names(known, {each.segment_id: _Names(questions=each.questions) for each in self.segments})


class _Set(msgspec.Struct, frozen=True):
    questions: tuple[LabelledQuestion, ...]
    variants: tuple[_Variant, ...] = ()


def bundled_sets() -> dict[str, Path]:
    """Return the bundled sets of labelled questions by name."""
    return {path.stem: path for path in sorted(data_path("user").glob("*.json"))}


def read_set(path: Path, names_path: Path | None, known: Mapping[str, UserKnowledge]) -> list[AskedUser]:
    """Return the users of a set of labelled questions.

    Args:
        path: The set.
        names_path: Other names and questions of its segments, by variant and segment id.
        known: What the users know of variants that the set names without an entry.
    """
    found = converted(_json(path), _Set, path, _PAGE)
    named = converted(_json(names_path), dict[str, dict[str, _Names]], names_path, _PAGE) if names_path else {}
    if not found.questions:
        raise SourceError(f"{path}: the file has no questions; add some under 'questions' ({_PAGE})")
    users = {**known, **{each.id: each.knowledge for each in found.variants}}
    for name, segments in named.items():
        there = {each.segment_id for each in users[name].removed} if name in users else set()
        if unknown := sorted(segments.keys() - there):
            raise SourceError(f"{names_path}: key '{name}': no variant of this name has a segment {unknown[0]!r}")
    asked: dict[str, list[LabelledQuestion]] = {}
    for number, each in enumerate(found.questions):
        if each.variant not in users:
            raise SourceError(
                f"{path}: questions[{number}]: there is no variant {each.variant!r} under 'variants', nor in desk"
            )
        if problem := _problem(each, users[each.variant], asked.setdefault(each.variant, [])):
            raise SourceError(f"{path}: questions[{number}]: {problem}")
        asked[each.variant].append(each)
    return [
        AskedUser(variant_id=name, knowledge=_with_names(users[name], named.get(name, {})), questions=tuple(questions))
        for name, questions in asked.items()
    ]


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SourceError(f"{path}: the file is not readable JSON: {error}") from error


def _problem(each: LabelledQuestion, known: UserKnowledge, asked: Sequence[LabelledQuestion]) -> str:
    ids = [segment.segment_id for segment in known.removed]
    if unknown := [name for name in each.asks_for if name not in ids]:
        return f"variant {each.variant!r} has no segment {unknown[0]!r}; it has {', '.join(ids) or 'none'}"
    if not each.question.strip():
        return "the question is empty"
    is_known = any((other.question, other.context) == (each.question, each.context) for other in asked)
    return f"variant {each.variant!r} already has the question {each.question[:80]!r}; ask it once" if is_known else ""


def _with_names(known: UserKnowledge, named: Mapping[str, _Names]) -> UserKnowledge:
    more = {each.segment_id: named.get(each.segment_id, _Names()) for each in known.removed}
    removed = (
        msgspec.structs.replace(each, synonyms=(*each.synonyms, *more[each.segment_id].synonyms))
        for each in known.removed
    )
    expected = (ExpectedQuestions(segment_id=name, questions=each.questions) for name, each in more.items())
    return msgspec.structs.replace(known, removed=tuple(removed), expected=(*known.expected, *expected))


async def outcomes_of(user: AskedUser, simulator: UserSimulator) -> list[Outcome]:
    """Ask a user each question by itself, as if nothing had been revealed before."""
    answers = [(each, await simulator.answer(each.question, each.context, user.knowledge)) for each in user.questions]
    return [Outcome(each, frozenset(part.segment_id for part in answer.revealed)) for each, answer in answers]


def user_rates(outcomes: Sequence[Outcome]) -> Iterator[dict[str, object]]:
    """Yield how a simulated user does on all questions, on each kind and in each language.

    Recall is the share of the questions that ask for something of which everything asked for is revealed, precision the
    share of what is revealed that was asked for, a leak a question for nothing whose answer reveals something.
    """
    groups: dict[tuple[str, str], list[Outcome]] = {("all", ""): list(outcomes)}
    for each in sorted(outcomes, key=lambda one: one.asked.kind):
        groups.setdefault(("kind", each.asked.kind), []).append(each)
    for each in sorted(outcomes, key=lambda one: language_of(one.asked.question)):
        groups.setdefault(("language", language_of(each.asked.question)), []).append(each)
    for (name, group), members in groups.items():
        aimed, aimless = ([each for each in members if bool(each.asked.asks_for) == is_aimed] for is_aimed in (1, 0))
        given = [(each, name in each.asked.asks_for) for each in members for name in sorted(each.revealed)]
        yield {
            "by": name,
            "group": group,
            **_share("aimed", "found", "recall", [(each, each.revealed >= set(each.asked.asks_for)) for each in aimed]),
            **_share("revealed", "wanted", "precision", given),
            **_share("aimless", "leaks", "leak_rate", [(each, bool(each.revealed)) for each in aimless]),
        }


def _share(whole: str, part: str, name: str, counted: Sequence[tuple[Outcome, bool]]) -> dict[str, object]:
    number = sum(is_counted for _, is_counted in counted)
    interval = interval_of([(each.asked.variant.split("/")[0], is_counted) for each, is_counted in counted])
    low, high = interval or (None, None)
    rate = round(number / len(counted), 3) if counted else None
    return {whole: len(counted), part: number, name: rate, f"{name}_low": low, f"{name}_high": high}


class UserSettings(PaidSettings, frozen=True, kw_only=True):
    """Which simulated users are asked, in whose wording, and how the calls are recorded and limited.

    ``simulator`` makes a simulated user from the model behind it, which is None if there is none.
    """

    users: tuple[AskedUser, ...]
    simulator: Callable[[AskModel | None], UserSimulator]
    asking: PromptTemplate


class UserCalibration(PaidRun):
    """One measurement with a model as the user, as the asker, or as both. Replies in the store are not paid again.

    Args:
        store: A store opened for writing.
        settings: What is measured.
        on_change: Called after every variant.
    """

    def __init__(
        self, store: Store, settings: UserSettings, on_change: Callable[[PaidWork], None] = lambda _: None
    ) -> None:
        super().__init__(store, settings, on_change)
        self._settings = settings
        self._found: dict[str, list[Outcome]] = {}

    @property
    def outcomes(self) -> list[Outcome]:
        """What was asked and revealed, in the order of the variants."""
        return [each for user in self._settings.users for each in self._found.get(user.variant_id, ())]

    @property
    def left(self) -> int:
        """How many variants are left."""
        return len(self._settings.users) - len(self._found)

    async def run(self) -> None:
        """Ask the user of every variant."""
        jobs = ((each.variant_id, partial(self._measure, each)) for each in self._settings.users)
        await self.run_jobs("user", jobs, lambda: self.left)

    async def _measure(self, user: AskedUser, callers: Callers) -> None:
        asker, model = (callers.of(role, f"{role}-{user.variant_id}") for role in ("agent", "user_simulator"))
        if asker is not None:
            known, wording = user.knowledge, self._settings.asking
            values = {"original": known.full_prompt, "task": known.sent_prompt}
            text = wording.user({**values, "segments": segments_text(known.removed)})
            read = partial(_read, user=user)
            questions = await ask(asker, wording, text, read, wanted="questions", form=_FORM)
            user = msgspec.structs.replace(user, questions=questions)
        simulator = self._settings.simulator(None if model is None else asking(model, UserSimulatorError))
        self._found[user.variant_id] = await outcomes_of(user, simulator)


def _read(reply: str, user: AskedUser) -> tuple[LabelledQuestion, ...]:
    """Return the questions of a model in the agent's place, with what it says that each asks for."""
    try:
        raw = [{**each, "variant": user.variant_id} for each in json_object(reply, "questions")["questions"]]
        found = msgspec.convert(raw, tuple[LabelledQuestion, ...])
    except (msgspec.ValidationError, TypeError) as error:
        raise UnusableReply(f"a question has another form: {error}".replace("`", "'")) from error
    if not found:
        raise UnusableReply("there is no question")
    for number, each in enumerate(found):
        told = [segment.value for segment in user.knowledge.removed if reveals(each.question, segment)]
        if problem := _problem(each, user.knowledge, found[:number]) or (told and f"{each.question!r} tells {told[0]}"):
            raise UnusableReply(problem)
    return found
