"""Which parameters the user has stated: in the prompt, a reply or a later message; the latest counts."""

import re
from collections.abc import Sequence

import msgspec

from runners.models.scripted.recipe import Parameter, match_value
from runners.models.scripted.transcript import Statement, Transcript


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """The values that the user stated, and how many later statements changed something."""

    values: dict[str, str]
    change_count: int


def read_stated(parameters: Sequence[Parameter], transcript: Transcript) -> Stated:
    """Read everything the user said, in order."""
    named = _matches(parameters, _one_line(transcript.prompt))
    values = {name: match_value(match) for name, match in named.items()}
    change_count = 0
    for statement in transcript.statements:
        news = _news(parameters, statement, values)
        change_count += any(values.get(name) != value for name, value in news.items())
        values |= news
    return Stated(values=values, change_count=change_count)


def confirmation_of(question: str) -> str:
    """Return the question that asks once more for something that was said."""
    return f"Just to be sure: {question[:1].lower()}{question[1:]}"


def _news(parameters: Sequence[Parameter], statement: Statement, known: dict[str, str]) -> dict[str, str]:
    """Named values first; then what was asked for, then what is unknown, takes a bare value from the rest."""
    named = _matches(parameters, _one_line(statement.text))
    news = {name: match_value(match) for name, match in named.items()}
    text = _without(_one_line(statement.text), [match.span() for match in named.values()])
    asked = [item for item in parameters if statement.question in (item.question, confirmation_of(item.question))]
    unknown = [item for item in parameters if item.name not in known and item not in asked]
    for parameter in (*asked, *unknown):
        if parameter.name in news:
            continue
        match = re.search(parameter.shape, text)
        if match:
            news[parameter.name] = match_value(match)
            text = _without(text, [match.span()])
    return news


def _matches(parameters: Sequence[Parameter], text: str) -> dict[str, re.Match[str]]:
    """Return where values stand in sentences that name them."""
    found = {}
    for parameter in parameters:
        matches = (re.search(pattern, text, re.IGNORECASE) for pattern in parameter.patterns)
        match = next((match for match in matches if match), None)
        if match:
            found[parameter.name] = match
    return found


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Blank out what was understood, so that nothing is taken for two values."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _one_line(text: str) -> str:
    return " ".join(text.split())
