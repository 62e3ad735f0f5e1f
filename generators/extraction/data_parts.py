"""Finds the parts of a prompt that ask for nothing: headings, reports, logs, code, comments, tests to come. Pure.

A report is a section such as "Actual behaviour" or "Steps to reproduce". It counts as one only if another section of
the prompt says what is wanted; else the description is the request. Sections about prizes or licences always count.
"""

import re
from collections.abc import Iterator

from generators.spans import Span

_REPORTS = (
    r"(?:(?:the |your |our )?(?:incident|anomaly|situation|diagnosis|verification|(?:system )?architecture"
    r"|(?:forensic )?clues|symptoms?|problem|scenario|hints?)|title|bug report|bug|issue|summary"
    r"|(?:issue |bug )?description|describe the (?:bug|issue)"
    r"|problem(?: statement| description)?|background|motivation|context|overview|impact|environment"
    r"|(?:actual|current|observed|existing)(?: (?:behaviou?rs?|results?|outputs?|state))?"
    r"|(?:steps to |how to |to )?reproduc(?:e|ing|tion)(?: the (?:bug|issue|problem))?(?: steps)?"
    r"|(?:error|stack ?trace|traceback|logs?|log output|console output)(?: messages?)?"
    r"|additional (?:context|information|notes))"
)
_DEMANDS = (
    r"(?:requirements?|acceptance criteria|expected(?: (?:behaviou?rs?|results?|outputs?))?"
    r"|(?:new )?interfaces?(?: introduced)?|(?:your )?(?:tasks?|instructions?|mission|objectives?|goals?)"
    r"|what to do|to ?do|deliverables?|constraints?)"
)


def _section(names: str) -> re.Pattern[str]:
    """Return the pattern of a section's heading: a marked line that begins with a name, or a line with nothing else."""
    marked = rf"[ \t]*(?:#{{1,6}}|\*\*|__)[ \t]*{names}\b[^\n]*"
    return re.compile(rf"(?im)^(?:{marked}|[ \t]*{names}[ \t]*:?[ \t]*)$")


_REPORT, _DEMAND = _section(_REPORTS), _section(_DEMANDS)
_NOTICE = _section(r"(?:prizes?|timeline|acknowledge?ments?|citations?|licen[cs]es?)")
_ASIDE = re.compile(r"\]\([^()\s]+\)|\A\s*(?:\[[^\]\n]{1,60}\]\s*)+")
"""Where a link leads, and what a tracker puts before a title: the price, whom it waits for."""
_HEADING = re.compile(r"(?m)^[ \t]*(?:#{1,6}[ \t]*\S[^\n]*|\*\*[^*\n]{1,90}\*\*:?[ \t]*|__[^_\n]{1,90}__:?[ \t]*)$")
_LOG_LINE = re.compile(
    r"(?m)^(?:[ \t>]*\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^\n]*"
    r"|[ \t>]*\[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)\b[\]: ][^\n]*"
    r"|[ \t>]*Traceback \(most recent call last\):[^\n]*"
    r"|[ \t>]+File \"[^\"\n]+\", line \d+[^\n]*"
    r"|[ \t>]*at [\w$.<>]+\([^\n)]*\)[ \t]*"
    r"|[ \t>]*[\w.]*(?:Error|Exception)\b(?:: [^\n]*)?"
    r"|[ \t]*(?:\$|>>>|\.\.\.) [^\n]*)$"
)
_TESTED = re.compile(
    r"(?im)^[^\n]*\bwill be (?:tested|verified|checked|graded|evaluated) (?:by|with|as follows)\b[^\n]*:[ \t]*\n"
    r"(?:[^\n]*\S[^\n]*(?:\n|\Z))*"
    r"|(?:^|(?<=[.!?] ))(?:you can (?:test|check|verify)|(?:we|i)(?:'ll| will) (?:test|check|verify)"
    r"|this should (?:output|print|return|show))\b[^\n]*"
)
_KEY_LINE = re.compile(r"(?m)^[ \t]*[\"'][^\"'\n]+[\"'][ \t]*:[^\n]*$")
_ROW = re.compile(r"(?m)^[^|\n]*(?:\|[^|\n]*){3,}$")
_CODE_LINE = re.compile(
    r"[ \t]*(?:import [\w.]+(?: as \w+)?|from [\w.]+ import [\w*, ]+|(?:def|class) \w+.*:"
    r"|#include\b.*|@\w[\w.]*(?:\(.*\))?"
    r"|[\w.]+(?:, [\w.]+)* [-+*/]?= [\w.\"'{(\[].*|[\w.]+\((?:[^.]|\.\w)*[),{(\[]|[)\]}]+[\w.()\[\]\"']*[,;]?"
    r"|[\w.]+=[^ ].*,?|[\"'][^\"']*[\"'],?|[^\n]*[=(][^\n]*[;{}])[ \t]*"
)
_ITEM = re.compile(r"[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t]")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_PARAGRAPH = re.compile(r"(?:[^\n]*\S[^\n]*(?:\n|\Z))+")
_CODE_INDENT = ("    ", "\t")


def data_spans(text: str) -> Iterator[Span]:
    """Yield the spans of a prompt that ask for nothing. They may overlap.

    Besides sections and code these are headings, lines of logs, what only says how the result will be checked, lines of
    keys with their values, table rows, comments, and where links lead.
    """
    for pattern in (_HEADING, _LOG_LINE, _TESTED, _KEY_LINE, _ROW, _COMMENT, _ASIDE):
        for match in pattern.finditer(text):
            yield match.span()
    yield from _reports(text)
    yield from _commands(text)
    yield from _code(text)


def _reports(text: str) -> Iterator[Span]:
    demands = [match.start() for match in _DEMAND.finditer(text)]
    borders = sorted({match.start() for match in _HEADING.finditer(text)} | set(demands))
    for match in (*_NOTICE.finditer(text), *(_REPORT.finditer(text) if demands else ())):
        yield match.start(), next((border for border in borders if border > match.start()), len(text))


def _commands(text: str) -> Iterator[Span]:
    """Yield indented blocks of code. Lines of a list, and lines that a colon introduces, are none."""
    place, is_code_possible = 0, False
    for line in text.splitlines(keepends=True):
        is_indented = line.startswith(_CODE_INDENT) and not _ITEM.match(line)
        if is_indented and is_code_possible:
            yield place, place + len(line)
        elif line.strip():
            is_code_possible = not is_indented and not _ITEM.match(line) and not line.rstrip().endswith(":")
        place += len(line)


def _code(text: str) -> Iterator[Span]:
    """Yield the paragraphs outside of fences of which most lines are code."""
    for match in _PARAGRAPH.finditer(text):
        if text.count("```", 0, match.end()):
            return  # what counts in a fence is decided elsewhere
        lines = match.group().splitlines()
        if len(lines) > 1 and 2 * sum(bool(_CODE_LINE.fullmatch(line)) for line in lines) > len(lines):
            yield match.span()
