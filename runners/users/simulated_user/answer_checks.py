"""Checks a model's answer as the simulated user: no echo of the question, and only what was asked for. Pure."""

import re
import tomllib
from collections.abc import Collection
from difflib import SequenceMatcher
from functools import cache

import msgspec

from lhaw_record.recorder.events import RevealedSegment
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.users.simulated_user.answers import reveals
from lhaw_record.runners.users.simulated_user.clauses import sentences
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge

_WORD = re.compile(r"\w+")
_ECHOED_SHARE = 0.8


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
    """Return an answer with everything that is wrong with it."""
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

    It does if little remains without the question's sentences, or if it is itself a question of nearly the same words.
    A statement that confirms in the question's words is an answer.
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
    """Return what the model is told about an answer that has a problem."""
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
