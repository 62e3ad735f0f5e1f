"""Chooses the simulated user's answer: ``exact`` and ``hil_bench`` give what was asked for, ``dump`` gives everything.

They are deterministic and need no model. ``matcher.py`` says what a question asks for.

The sentences are in ``data/user/answers.toml``: one per kind of segment, and the deferrals, of which one is chosen for
questions that are about none of the removed segments. The ``llm`` simulator is in ``llm.py``.
"""

import re
import tomllib
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import msgspec

from lhaw_record.recorder.events import ExchangeReading, QuestionOption
from lhaw_record.recorder.events.values import Segment
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.clock import beside_loop
from lhaw_record.runners.base.text.normalization import normalize, whole
from lhaw_record.runners.experiment.tables import DEFERRAL, Deferral
from lhaw_record.runners.users.simulated_user.encoder import Encoder
from lhaw_record.runners.users.simulated_user.evidence import without_quotations
from lhaw_record.runners.users.simulated_user.matcher import asked_segments, judge_of
from lhaw_record.runners.users.simulated_user.protocol import UserAnswer, UserKnowledge
from lhaw_record.runners.users.simulated_user.readings import is_for_everything, reading_of

_ARTICLE = re.compile(r"^(?:the|an?) ")
_RECOMMENDED = re.compile(r"\(recommended\)", re.IGNORECASE)


class ExactSimulator:
    """A user who answers exactly what is asked.

    Args:
        deferral: What is said if nothing that was removed is asked for.
        encoder: Compares questions also by their meaning.
    """

    name = "exact"
    is_person = False

    def __init__(self, deferral: Deferral = DEFERRAL, encoder: Encoder | None = None) -> None:
        self._deferral, self._encoder = deferral, encoder

    async def answer(self, question: str, context: str, knowledge: UserKnowledge) -> UserAnswer:
        """Return the values of the segments that the question is about, or defer.

        A chained segment is withheld until its parent is known, because the agent has not heard of the thing it
        specifies.
        """
        return await beside_loop(len(question) + len(context), self._decide, question, context, knowledge)

    def _decide(self, question: str, context: str, knowledge: UserKnowledge) -> UserAnswer:
        asked = asked_segments(question, context, knowledge, self._encoder)
        given = self._given(asked, knowledge)
        reading = _reading_of(given, asked, question, knowledge, self._encoder)
        return UserAnswer(text=answer_with(given, self._deferral), readings=(reading,))

    def _given(self, asked: Collection[str], knowledge: UserKnowledge) -> Sequence[Segment]:
        return [each for each in knowledge.removed if each.segment_id in asked and knowledge.is_open(each, asked)]


class DumpSimulator(ExactSimulator):
    """A user who gives every removed segment, whatever the question, and defers if nothing was removed.

    Source: Ask Early, appendix A.11.2. A segment counts as requested if the question is about it, otherwise as
    volunteered.
    """

    name = "dump"

    def _given(self, asked: Collection[str], knowledge: UserKnowledge) -> Sequence[Segment]:
        return knowledge.removed


class HilBenchSimulator:
    """The user of HiL-Bench: one segment's value word for word, or that the question is irrelevant.

    A question must be about one segment, and after three answers every further question is irrelevant. HiL-Bench asks a
    model what a question is about; here the rules say it. Source: arXiv 2604.09408 and its published server.
    """

    name = "hil_bench"
    is_person = False
    irrelevant = "irrelevant question"
    most_answers = 3

    def __init__(self, deferral: Deferral = DEFERRAL, encoder: Encoder | None = None) -> None:
        del deferral  # this user has its own words
        self._encoder = encoder

    async def answer(self, question: str, context: str, knowledge: UserKnowledge) -> UserAnswer:
        """Return the value of the only segment that the question is about, or that it is irrelevant."""
        return await beside_loop(len(question) + len(context), self._decide, question, context, knowledge)

    def _decide(self, question: str, context: str, knowledge: UserKnowledge) -> UserAnswer:
        asked = asked_segments(question, context, knowledge, self._encoder)
        is_answered = len(asked) == 1 and knowledge.answer_count < self.most_answers
        given = [segment for segment in knowledge.removed if is_answered and segment.segment_id in asked]
        reading = _reading_of(given, asked, question, knowledge, self._encoder)
        return UserAnswer(text=given[0].value if given else self.irrelevant, readings=(reading,))


RULE_BASED = {each.name: each for each in (ExactSimulator, DumpSimulator, HilBenchSimulator)}
"""The simulators that need no model, by the kind that an experiment names."""


def unanswered(question: str, context: str, knowledge: UserKnowledge) -> ExchangeReading:
    """Return what the rules read in a question that gets no answer. So nothing about the answer is right or wrong."""
    asked = asked_segments(question, context, knowledge)
    reading = _reading_of((), asked, question, knowledge, None)
    return msgspec.structs.replace(reading, withheld=(), verdict=None)


async def heard(question: str, context: str, answer: str | None, knowledge: UserKnowledge) -> UserAnswer:
    """Return what a person says, None if they decline, with what the rules read in it: values, word for word."""
    size = len(question) + len(context)
    reading = await beside_loop(size, unanswered, question, context, knowledge)
    if answer is None:
        return UserAnswer(text="", readings=(reading,), is_declined=True)
    option = next((line for line in context.splitlines() if line.startswith(f"- {answer}: ")), "")
    given = [each for each in knowledge.removed if reveals(f"{answer}\n{option}", each)]
    return UserAnswer(text=answer, readings=(_reading_of(given, reading.asks_for, question, knowledge, None),))


def answer_with(segments: Sequence[Segment], kind: Deferral = DEFERRAL) -> str:
    """Return an answer with the values of exactly these segments, or the deferral if there are none."""
    return " ".join(_sentence(segment) for segment in segments) or deferral(kind)


def deferral(kind: Deferral = DEFERRAL) -> str:
    """Return the answer to a question that is about none of the removed segments."""
    return str(_templates()["deferral"][kind]["says"])


def deferral_request(kind: Deferral) -> str:
    """Return the instruction for a model that plays the user to defer in its own words."""
    return str(_templates()["deferral"][kind]["request"])


def reveals(answer: str, segment: Segment) -> bool:
    """Return whether the answer contains the segment's value as whole words, ignoring case, spacing and number format.

    1,000 equals 1000 and 1000.0, and ``500ms`` equals ``500 ms``. But 3.10 is not 3.1 if the value is a version, and
    ``report.xlsx`` is not found in ``old_report.xlsx``.
    """
    is_version = segment.subdimension.lower() == "version"
    value = _ARTICLE.sub("", normalize(segment.value, keep_zeros=is_version).strip(" .,;:!?\"'`"))
    if not value:
        return False
    pattern = rf"(?<!\w)(?<!\w[./_@-]){re.escape(value)}(?!\w)(?![./_@-]\w)"
    return re.search(pattern, normalize(answer, keep_zeros=is_version)) is not None


def offered(options: Sequence[QuestionOption]) -> frozenset[str]:
    """Return the ids of the segments that a question asks for by offering their values.

    What all of several options say is no choice, so it is not asked for.
    """
    held = [frozenset(each.holds) for each in options]
    return frozenset[str]().union(*held).difference(frozenset.intersection(*held) if len(held) > 1 else ())


def picked(options: Sequence[QuestionOption], answer: UserAnswer, *, is_list: bool) -> tuple[str, ...]:
    """Return the labels of the options that say what an answer says, no more and no less, or ``()`` if none do.

    If several options say it, the only one whose label is in the answer is meant, else none of them.
    """
    same = [each.label for each in options if plain_label(each.label) == plain_label(answer.text)]
    if same:
        return (same[0],)
    given = {each.segment_id for each in answer.revealed}
    fitting = [each for each in options if each.holds and given.issuperset(each.holds)]
    exact = [each for each in fitting if given == set(each.holds)]
    if len(exact) > 1:
        named = [each for each in exact if whole(plain_label(each.label)).search(answer.text.casefold())]
        exact = named if len(named) == 1 else []
    elif is_list and not exact and sum(len(each.holds) for each in fitting) == len(given):
        exact = fitting if given == {held for each in fitting for held in each.holds} else []
    return tuple(each.label for each in exact)


def is_recommended(option: QuestionOption) -> bool:
    """Return whether the agent recommends an option."""
    return _RECOMMENDED.search(f"{option.label} {option.description}") is not None


def plain_label(text: str) -> str:
    """Return a label or an answer in the form used to compare it: no case, end marks or "(recommended)"."""
    return _RECOMMENDED.sub("", text).strip(" .!").casefold()


def _reading_of(
    given: Sequence[Segment], asked: Collection[str], question: str, knowledge: UserKnowledge, encoder: Encoder | None
) -> ExchangeReading:
    return reading_of(
        judge_of(encoder),
        knowledge,
        asks_for=asked,
        gives=[each.segment_id for each in given],
        is_for_everything=is_for_everything(without_quotations(question, knowledge.sent_prompt)),
    )


@cache
def _templates() -> dict[str, Any]:
    return tomllib.loads(data_path("user", "answers.toml").read_text(encoding="utf-8"))


def is_about_authority(segment: Segment) -> bool:
    """Return whether the prompt replaces the segment with an order that the user has no authority to give."""
    return (segment.dimension, segment.subdimension.lower()) == ("context", "authority")


def _sentence(segment: Segment) -> str:
    """Fill in the template for the segment. A sentence about a decoy starts with a correction.

    An order without authority is not a slip, so the answer about it has no correction. The template's full stop is
    dropped if the value already ends a sentence.
    """
    templates = _templates()
    template = str(templates.get(segment.dimension, {}).get(segment.subdimension.lower(), templates["default"]))
    filled = template.replace("{value}", segment.value)
    sentence = filled[:-1] if segment.value.endswith((".", "!", "?")) else filled
    return sentence if segment.decoy is None or is_about_authority(segment) else f"{templates['correction']} {sentence}"
