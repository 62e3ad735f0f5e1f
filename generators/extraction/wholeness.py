"""Decides whether a candidate is only part of something longer, or only an example."""

import re

from generators.extraction.candidate import Candidate
from generators.extraction.document import Document
from generators.extraction.lexicon import Lexicon
from generators.extraction.statements import is_explanation

_PLAIN_KINDS = frozenset({"date", "person", "colour", "number", "identifier", "quoted_term"})
_LISTED_AFTER = re.compile(r",\s+(?:and\s+)?\d")
_LISTED_BEFORE = re.compile(r"\d,\s+(?:and\s+)?$")
_QUOTED_AFTER = re.compile(r"[\"'`](?:,\s*|,? (?:and|or) )[\"'`]")
_QUOTED_BEFORE = re.compile(r"[\"'`](?:,\s*|,? (?:and|or) )[\"'`]$")
_PATTERN = re.compile(r"[-_.]?[{<\[]")
_VARIABLE_BEFORE = re.compile(r"[$]$|/<?$")
_HOST = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_ASIDE_BEFORE, _ASIDE_AFTER = re.compile(r"[ \t]\($"), re.compile(r"\)")
_NEAR_CHARS = 8
_CODE_KINDS = frozenset({"quoted_term", "identifier", "number"})
_IN_CALL = re.compile(r"\w[(\[][\"'`]?$")
_KEY_BEFORE = re.compile(r"[\"'] ?: ?[\"'`]$")
_DEFAULT = re.compile(r"\w: ?[\w\[\], |]{1,40} ?= ?[\"'`]?$")
_KEY_OR_PARAMETER = re.compile(
    r"[\"'] ?:|: ?(?:str|int|bool|float|bytes|list|dict|tuple|set|Any|Optional|Union|Literal|None)\b"
)
_LIST_BEFORE = re.compile(r"(?:^|\n)[ \t]*[-*+\u2022][ \t]+$|[\w)],\s+(?:and\s+)?$")
_LIST_AFTER = re.compile(r",\s+[\w]+_\w|[ \t]*\([A-Z]")
_BEFORE_CHARS = 60
_GOES_ON = re.compile(r"-[^\W\d_]|[\])}>][_-]")
_EXAMPLE = re.compile(r"\be\.g\.|\bfor (?:example|instance)\b|\bexamples?(?: of [\w ]+)?(?: include)?:")
_SUCH_AS = re.compile(r"\bsuch as [\"'`\u201c]*$")
_CONSEQUENCE = re.compile(
    r"(?:\bso (?:that )?(?:it|they|you|i|we) (?:can|may)\b|\b(?:i|we)(?:'ll| will) (?:run|call|compile|check|test)\b"
    r"|\bis known to be\b)(?!.*\b(?:should|must)\b)",
    re.DOTALL,
)
_EXPLAINED = re.compile(r"[`\"'] (?:is|are) (?:the|an?)\b")
_PRODUCT_BEFORE = re.compile(r"(?<![\w-])(?=[\w-]*[a-z])[\w-]*[A-Z][\w-]*[A-Z][\w-]*\s$")
_TWO_SENTENCES = re.compile(r"[a-z)][.!?]\s+[A-Z]")
_BEGINS_BEFORE = re.compile(r"[^\W\d_]-$|[_-][\[({<]$|[^\W\d_],$")
_STANDARD = re.compile(r"(?:ISO|RFC|IEEE|PEP|UTF|ASCII|CP)-?\d+")
_DOUBLE_ENDING = re.compile(r"[a-z]{2,5}\.(?:gz|bz2|xz|zst)")
_INSTALLED = re.compile(r"\b(?:(?:pre-?|already |been |is |are )installed|available)\b")
_OPERATOR_BEFORE, _VALUE_AFTER = re.compile(r"[\w)\]] (?:[+*/-]|[<>!+-]?=) $"), re.compile(r" ?[-+*/]?==?[^=\n]")
_CITED_BEFORE = re.compile(r"(?:\bet al\.|[A-Z][a-z]+),? ?\($")
_REPEATED = re.compile(r", (?:and )?(?P<word>[a-z]+) \d")
_REPEATED_BEFORE = re.compile(r"(?:^|\W)(?P<word>[a-z]+) $")
_STANDARD_BEFORE = re.compile(r"\b(?:ISO|RFC|IEEE|PEP|UTF|ASCII)[ \t-]*$")
_LIST_FOLLOWS = re.compile(r"(?:[ \t]+[\w-]+){0,3}:[ \t]*\n")
_DESCRIBED = re.compile(
    r"(?<!that )(?<!which )\b(?:contains|consists of|comes with"
    r"|(?:file|script|table|model|dataset|data|class|log)s? (?:has|have))"
    r"\b(?!.*\b(?:should|must)\b)",
    re.DOTALL,
)
_COMMAND = re.compile(r"`[^`\n]*(?:\s-|\$\(|\s[|>]\s)[^`\n]*`")
_TAG = re.compile(r"</?[a-zA-Z][\w-]*(?:\s[^<>\n]*=[^<>\n]*)?/?>")
_HTML = re.compile(
    r"</?(?:[abipqsu]|h[1-6r]|li|[uo]l|t[rdh]|div|span|br|img|table|body|head|html|form|input|button|script|style)>"
)
_ESCAPE = re.compile(r"\\[a-zA-Z0]")


def is_whole(document: Document, lexicon: Lexicon, candidate: Candidate) -> bool:
    """Return whether a candidate says something by itself.

    It does not if it only explains, if it is an example, a host, markup, a link in parentheses, a consequence, the
    start of a pattern of names, what is installed, more than one sentence, or part of a compound word, of the name of a
    product or a standard, of a list of numbers or quoted terms, or of a piece of code: an argument, a parameter, a key,
    a variable, a word of a command.
    """
    if _is_no_instruction(document, candidate) or is_explanation(document, lexicon, candidate):
        return False
    if candidate.kind in _CODE_KINDS and _is_part_of_code(document, candidate):
        return False
    return candidate.kind not in _PLAIN_KINDS or not _is_part(document, candidate)


def _is_no_instruction(document: Document, candidate: Candidate) -> bool:
    first = document.sentence(candidate.start)[0]
    is_file = candidate.kind in ("file_name", "path", "identifier")
    if is_file and (
        _PATTERN.match(document.text, candidate.end)
        or _SUCH_AS.search(document.lower[first : candidate.start])
        or (document.text[candidate.start] in "_-." and document.text[candidate.start - 1 : candidate.start] in "}]>")
    ):
        return True
    whole = (_HOST, _ESCAPE, _STANDARD, _DOUBLE_ENDING)
    if any(pattern.fullmatch(document.text, candidate.start, candidate.end) for pattern in whole):
        return True
    is_address = document.text.startswith(("http://", "https://"), candidate.start)
    before = document.text[max(0, candidate.start - 2) : candidate.start]
    if is_address and _ASIDE_BEFORE.search(before) and _ASIDE_AFTER.match(document.text, candidate.end):
        return True
    before = document.text[max(0, candidate.start - _BEFORE_CHARS) : candidate.start]
    if candidate.kind in ("number", "version") and (_PRODUCT_BEFORE.search(before) or _STANDARD_BEFORE.search(before)):
        return True
    if candidate.labels.subdimension == "version" and _is_installed(document, candidate):
        return True
    if candidate.kind == "number" and (
        _LIST_FOLLOWS.match(document.text, candidate.end) or _DESCRIBED.search(document.lower[first : candidate.start])
    ):
        return True
    if _CONSEQUENCE.search(document.lower[first : candidate.start]):
        return True
    if candidate.kind in _CODE_KINDS and _EXPLAINED.match(document.text, candidate.end):
        return True
    is_example = _EXAMPLE.search(document.lower, first, candidate.start)
    return bool(is_example or _TWO_SENTENCES.search(document.text[candidate.start : candidate.end]))


def _is_part(document: Document, candidate: Candidate) -> bool:
    start, end, text = candidate.start, candidate.end, document.text
    near = text[max(0, start - _NEAR_CHARS) : start]
    if candidate.kind == "date" and _CITED_BEFORE.search(text[max(0, start - _BEFORE_CHARS) : start]):
        return True
    before, after = _REPEATED_BEFORE.search(text[max(0, start - _BEFORE_CHARS) : start]), _REPEATED.match(text, end)
    if candidate.kind == "number" and before and after and before["word"] == after["word"]:
        return True
    if candidate.kind == "quoted_term" and (_QUOTED_AFTER.match(text, end) or _QUOTED_BEFORE.search(near)):
        return True
    is_listed = _LISTED_AFTER.match(text, end) or _LISTED_BEFORE.search(near)
    if candidate.kind in ("number", "date") and text[start:end].isdigit() and is_listed:
        return True
    return bool(_GOES_ON.match(text, end) or _BEGINS_BEFORE.search(text[max(0, start - 2) : start]))


def _is_part_of_code(document: Document, candidate: Candidate) -> bool:
    start, end, text = candidate.start, candidate.end, document.text
    if document.is_in_fence(start):
        return False  # what counts there was decided before
    before = text[max(0, start - _BEFORE_CHARS) : start]
    if candidate.kind == "identifier" and (_LIST_BEFORE.search(before) or _LIST_AFTER.match(text, end)):
        return True
    if candidate.kind == "identifier" and _VALUE_AFTER.match(text, end):
        return True
    if candidate.kind != "quoted_term" and _OPERATOR_BEFORE.search(before):
        return True
    if _is_inside(_COMMAND, document, candidate) or _is_markup(document, candidate):
        return True
    is_letter = candidate.kind == "quoted_term" and end - start == 1
    return is_letter or bool(
        _VARIABLE_BEFORE.search(before)
        or _KEY_BEFORE.search(before)
        or _IN_CALL.search(before)
        or _DEFAULT.search(before)
        or _KEY_OR_PARAMETER.match(text, end)
    )


def _is_markup(document: Document, candidate: Candidate) -> bool:
    value = document.text[candidate.start : candidate.end]
    return bool(_HTML.fullmatch(value)) or _is_inside(_TAG, document, candidate)


def _is_inside(pattern: re.Pattern[str], document: Document, candidate: Candidate) -> bool:
    """Return whether a candidate lies in a match of its line, and is not all of it."""
    line = document.text.rfind("\n", 0, candidate.start) + 1
    end = document.text.find("\n", candidate.end)
    for match in pattern.finditer(document.text, line, end if end >= 0 else len(document.text)):
        if match.start() < candidate.start and candidate.end < match.end():
            return candidate.end - candidate.start < match.end() - match.start() - 2
    return False


def _is_installed(document: Document, candidate: Candidate) -> bool:
    """Return whether a version is one that is there: its sentence, or the line before its list, says so."""
    first, last = document.sentence(candidate.start)
    heading = document.text.rfind(":\n", 0, candidate.start)
    intro = document.lower[document.text.rfind("\n", 0, max(0, heading)) + 1 : heading] if heading >= 0 else ""
    is_in_list = heading >= 0 and "\n\n" not in document.text[heading : candidate.start].replace(":\n\n", ":\n", 1)
    said = document.lower[first:last] + (intro if is_in_list else "")
    return bool(_INSTALLED.search(said))
