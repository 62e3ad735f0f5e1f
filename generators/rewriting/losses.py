"""Is anything lost with a removed value? Not where the rest of the prompt still says every word of it."""

import re
from itertools import pairwise

from generators.rewriting.english import English
from recorder.values import Segment
from runners.users.wording import stem

_PART = re.compile(r"[^\W\d_]+|\d+")
_ADDRESS = re.compile(r"[/\\@]|\.\w{1,5}$")
_SAYS_MORE = re.compile(r"(?i)\d|\b(?:each|every|per|by|only|all|not|no)\b")
_FEWEST_WORDS = 2
_LONG_NUMBER_CHARS = 3


def is_still_said(segment: Segment, rewritten: str, english: English) -> bool:
    """Return whether the rest of a prompt says what a value says.

    It does where the words that begin a noun phrase stand beside each other once more, and its other words somewhere:
    "shortened version of the paper", where "the shortened version" and "the paper" stay; the column Unit_Price,
    where the file is called unit_price.xlsx; and a year, where a file name holds it. A number in it, or a word that
    distributes ("each"), says more than the words do, and the names of files and folders are no words.
    """
    value = segment.value
    own = [part for part in _parts(value) if part not in english.function_words]
    if len(own) == 1 and own[0].isdigit():
        return len(own[0]) >= _LONG_NUMBER_CHARS and own[0] in _parts(rewritten)
    if _ADDRESS.search(value) or _SAYS_MORE.search(value) or len(own) < _FEWEST_WORDS:
        return False
    said = [stem(part) for part in _parts(rewritten)]
    parts = _parts(value)[1:] if _parts(value)[0] in english.determiners else _parts(value)
    if parts[:_FEWEST_WORDS] != own[:_FEWEST_WORDS]:
        return False
    are_together = (stem(own[0]), stem(own[1])) in pairwise(said)
    return are_together and {stem(part) for part in own} <= set(said)


def _parts(text: str) -> list[str]:
    return _PART.findall(text.lower())
