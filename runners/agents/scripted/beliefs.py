"""The value that a scripted model assumes for each parameter: stated by the user, found in a file, or guessed."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.runners.agents.scripted.transcript import Statement, Transcript
from lhaw_record.runners.environments.benchmarks.desk.recipe import (
    Memory,
    Recipe,
    RecipeParameter,
    RecipeStep,
    match_value,
)


class StatedValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values that the user stated.

    ``doubted`` are the parameters for which the prompt gives two values, or whose value a later message withdrew.
    ``settled`` are those that the user stated after the prompt. ``change_count`` is the number of later statements that
    changed or withdrew a value.
    """

    values: dict[str, str]
    change_count: int
    doubted: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()


class Beliefs:
    """Decides which value each parameter has.

    A stated or usual value is used unless files contradict it. Otherwise the value is looked up in files, and guessed
    if they lack it.

    Args:
        recipe: Declares the parameters.
        stated: What the user stated.
        seed: Picks the guesses. Three seeds in a row pick three different ones if there are as many.
        heeds_rules: Whether a rule in the files counts more than a prompt that says otherwise.
    """

    def __init__(self, recipe: Recipe, stated: StatedValues, seed: int, *, heeds_rules: bool) -> None:
        self._parameters = {parameter.name: parameter for parameter in recipe.parameters}
        self._results = recipe.results
        self._stated = stated
        self._seed = seed
        self._heeds_rules = heeds_rules

    def is_known(self, parameter: RecipeParameter, memory: Memory) -> bool:
        """Return whether the user stated one value or a file contains it, and no file contradicts it."""
        value = self._given(parameter, memory)
        if parameter.name in self._stated.doubted or self._ruled(parameter, memory) not in (None, value):
            return False
        if value is not None:
            return not is_outdated(parameter, value, memory)
        return _find(parameter, memory) is not None

    def value(self, name: str, memory: Memory) -> str:
        """Return the value of a parameter or result, as the model believes it."""
        if name in self._results:
            return self._results[name](memory) or ""
        parameter = self._parameters[name]
        known = self._ruled(parameter, memory) or self._given(parameter, memory) or _find(parameter, memory)
        return known or self._guess(parameter, memory)

    def call_of(self, step: RecipeStep, memory: Memory) -> dict[str, str]:
        """Return the arguments of a step's call, filled with the current values."""
        return step.filled({name: self.value(name, memory) for name in step.needed()})

    def _given(self, parameter: RecipeParameter, memory: Memory) -> str | None:
        """Return the stated or usual value, unless a listing has shown that it does not exist."""
        value = self._stated.values.get(parameter.name) or parameter.usual
        return None if value is None or is_missing(parameter, value, memory) else value

    def _ruled(self, parameter: RecipeParameter, memory: Memory) -> str | None:
        """Return what the files demand, unless the user has said since the prompt what counts."""
        if parameter.rule is None or not self._heeds_rules or parameter.name in self._stated.settled:
            return None
        return parameter.rule(memory)

    def _guess(self, parameter: RecipeParameter, memory: Memory) -> str:
        choices = parameter.guesses(memory) or ("unknown",)
        return choices[(self._seed + int(digest(parameter.name)[:8], 16)) % len(choices)]


def read_stated(parameters: Sequence[RecipeParameter], transcript: Transcript) -> StatedValues:
    """Read everything that the user said, in order: prompt, replies and later messages.

    The latest statement of a value counts.
    """
    prompt = _one_line(transcript.prompt)
    values = {name: match_value(match) for name, match in _matches(parameters, prompt).items()}
    doubted = {parameter.name for parameter in parameters if _is_said_twice(parameter, prompt)}
    settled: set[str] = set()
    change_count = 0
    for statement in transcript.statements:
        reopened = _reopened(parameters, statement)
        news = _news(parameters, statement, values)
        change_count += bool(reopened) or any(values.get(name) != value for name, value in news.items())
        values |= news
        settled |= news.keys()
        doubted = (doubted | reopened) - news.keys()
    return StatedValues(
        values=values, change_count=change_count, doubted=frozenset(doubted), settled=frozenset(settled)
    )


def confirmation_of(question: str) -> str:
    """Return the question that asks the user to confirm an earlier answer."""
    return f"Just to be sure: {question[:1].lower()}{question[1:]}"


def is_missing(parameter: RecipeParameter, value: str, memory: Memory) -> bool:
    """Return whether a listing shows candidates for a parameter, but not this value.

    A failed listing shows no candidates, so it proves nothing.
    """
    shown = memory.get(parameter.shown_by or "")
    if shown is None or not re.search(parameter.shape, shown):
        return False
    return re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w.-])", shown) is None


def is_outdated(parameter: RecipeParameter, value: str, memory: Memory) -> bool:
    """Return whether a listing shows a newer version of a file, such as ``data_v2.csv`` for ``data.csv``."""
    shown = memory.get(parameter.shown_by or "")
    path = PurePosixPath(value)
    if shown is None or not path.suffix or is_missing(parameter, value, memory):
        return False
    stem = re.escape(str(path.with_suffix("")))
    return re.search(rf"(?<![\w.-]){stem}[_-][\w-]+{re.escape(path.suffix)}(?![\w.-])", shown) is not None


def _find(parameter: RecipeParameter, memory: Memory) -> str | None:
    return parameter.find(memory) if parameter.find else None


def _news(parameters: Sequence[RecipeParameter], statement: Statement, known: Mapping[str, str]) -> dict[str, str]:
    """Read the values in a statement: named values first, then bare values for what was asked or is still unknown."""
    named = _matches(parameters, _one_line(statement.text))
    news = {name: match_value(match) for name, match in named.items()}
    text = _blanked(_one_line(statement.text), [match.span() for match in named.values()])
    asked = [item for item in parameters if statement.question in (item.question, confirmation_of(item.question))]
    unknown = [item for item in parameters if item.name not in known and item not in asked]
    for parameter in (*asked, *unknown):
        if parameter.name in news:
            continue
        match = re.search(parameter.shape, text)
        if match:
            news[parameter.name] = match_value(match)
            text = _blanked(text, [match.span()])
    return news


def _is_said_twice(parameter: RecipeParameter, text: str) -> bool:
    """Return whether a text gives two values for a parameter in the same words."""
    found = ({match_value(each) for each in re.finditer(word, text, re.IGNORECASE)} for word in parameter.patterns)
    return any(len(values) > 1 for values in found)


def _reopened(parameters: Sequence[RecipeParameter], statement: Statement) -> set[str]:
    """Return the parameters whose value the user withdraws, in a message that answers no question."""
    if statement.question is not None:
        return set()
    text = _one_line(statement.text)
    return {item.name for item in parameters if any(re.search(each, text) for each in item.reopened_by)}


def _matches(parameters: Sequence[RecipeParameter], text: str) -> dict[str, re.Match[str]]:
    """Find, for each parameter, the text that names it together with its value."""
    found = {}
    for parameter in parameters:
        matches = (re.search(pattern, text, re.IGNORECASE) for pattern in parameter.patterns)
        match = next((match for match in matches if match), None)
        if match:
            found[parameter.name] = match
    return found


def _blanked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Blank out text that has been understood, so that it is not read as another value."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _one_line(text: str) -> str:
    return " ".join(text.split())
