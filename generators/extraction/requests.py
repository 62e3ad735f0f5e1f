"""Decides which sentences of a prompt ask for something. Reports, and documents with headings, are not requests."""

import re

from lhaw_record.generators.extraction.document import Document
from lhaw_record.generators.extraction.lexicon import Lexicon

_ASKS = re.compile(
    r"\?\W*$|\b(?:please|(?:can|could|would|will) you|(?:i|we)(?:'d| would)? (?:also )?(?:like|love|need|want)"
    r"|(?:i'm|i am) (?:looking|trying|planning)|help me|let me know|you can find|make sure|must|should|ha(?:ve|s) to"
    r"|needs? to|(?:budget|deadline|price)\b.{0,30} (?:is|of)|the (?:data|file|input)s? (?:is|are) (?:in|at))\b",
    re.IGNORECASE,
)
_REPORTS = re.compile(
    r"(?i:\b(?:bugs?|traceback|repro\w*|regression|fails|failing|crash\w*|incorrectly|uncomment"
    r"|does(?:n't| not) work|actual (?:results?|behaviou?r)|error:))|\b[A-Z]\w+(?:Error|Exception)\b"
    r"|(?m:^\s*(?:>>> |from [\w.]+ import |import \w+$|class \w+.*:$|def \w+\())"
)
_HEADING = re.compile(r"(?m)^[ \t]*(?:#{1,6}[ \t]+\S|\*\*[^*\n]{1,90}\*\*:?[ \t]*$)")
_LEAD = re.compile(
    r"^(?:\W|\d+[.)]|\b[a-z]\))*(?:(?:then|next|finally|also|first|second|third|lastly|now|and|after that|additionally"
    r"|afterwards|once done|if so|otherwise),? )*"
)
_CLAUSE = re.compile(r"[,;:] (?:then |and |please )*")
_WORD = re.compile(r"\w*")
_LEAD_CHARS = 150
_SHORT_CHARS = 700


class Requests:
    """Tells the requests of one prompt from its statements.

    A prompt that says what is wrong is a report unless it begins by asking. All sentences of a short prompt that
    begins by asking belong to its request.
    """

    def __init__(self, document: Document, lexicon: Lexicon) -> None:
        self._document = document
        self._verbs = lexicon.words["verb_ask"]
        text = document.text
        is_report = bool(_REPORTS.search(text)) and not self._is_imperative(0)
        self._is_open = not is_report and not _HEADING.search(text)
        self._is_short = len(text) <= _SHORT_CHARS and "\n\n" not in text and self._asks(0)

    def has(self, place: int) -> bool:
        """Return whether the sentence around an offset asks for something, or belongs to a short request."""
        return self._is_open and (self._is_short or self._asks(place))

    def _asks(self, place: int) -> bool:
        return bool(_ASKS.search(self._document.text, *self._document.sentence(place))) or self._is_imperative(place)

    def _is_imperative(self, place: int) -> bool:
        """Return whether a sentence, or a clause behind an early comma, begins with a verb that asks for something."""
        first, last = self._document.sentence(place)
        opening = _LEAD.sub("", self._document.lower[first:last], count=1)
        clauses = [opening, *(opening[match.end() :] for match in _CLAUSE.finditer(opening, 0, _LEAD_CHARS))]
        return any(_WORD.findall(each)[0] in self._verbs for each in clauses)
