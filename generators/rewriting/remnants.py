"""What a cut can leave of a phrase: half a comparison, a number without its unit, the ending of a word."""

import re
from collections.abc import Iterator, Sequence

from generators.rewriting.english import English
from generators.rewriting.sentences import Change

_POINTING_BACK = re.compile(r"(?i)^\s*,?\s*and\s+(?:their|its|his|her)\b")
_COMPARED = re.compile(r"(?i)\b(?:compar\w+|differ\w*|gap|versus|vs)\b")
_VERSUS = re.compile(r"(?i)\b(?:versus|vs)\b")
_SHARED_UNIT = re.compile(r"(?<![\w-])(\d+) (?:and|or|to) \d+-[A-Za-z]+")
_NAMED = re.compile(r"(?i)\b(?:in|under|to|into|as|from) (\w+) (?:named|called)\b")
_COUNTED = re.compile(r"(?i)\bcount\s+(?:the )?(?:details|information)\b")
_QUOTES = tuple("`\"'\u2019\u201d")
_ENDS = frozenset(".,;:!?)]")


def loose_words(words: Sequence[str]) -> Iterator[str]:
    """Yield words of a sentence that are nothing alone; a quoted word is one word, a mark another."""
    for number, word in enumerate(words):
        before = words[number - 1] if number else ""
        after = words[number + 1] if number + 1 < len(words) else "."
        if word == "s" and not before.endswith(_QUOTES):
            yield "'s' stands alone"
        if word.lower() == "format" and before.lower() == "the" and after in _ENDS:
            yield "'the format' names none"
        if word.lower() in ("least", "most") and before.lower() == "at" and after in _ENDS:
            yield f"'at {word}' bounds nothing"


def lost_halves(change: Change, english: English) -> Iterator[str]:
    """Yield what a sentence still announces or shares although the other half of it is gone."""
    if any(_POINTING_BACK.match(each) for each in change.following):
        yield "what follows points back to what is gone"
    if _COMPARED.search(change.after) and len(_VERSUS.findall(change.after)) < len(_VERSUS.findall(change.before)):
        yield "a comparison has lost one of its sides"
    if _COUNTED.search(change.after):
        yield "nothing that can be counted is to be counted"
    for pair in _SHARED_UNIT.finditer(change.before):
        if re.search(rf"(?<![\w-]){pair[1]}(?![\w-])(?! (?:and|or|to) \d)", change.after):
            yield f"{pair[1]} has lost the unit that it shared"
    for named in _NAMED.finditer(change.before):
        is_bare = re.search(
            rf"(?i)\b{re.escape(named[0].rpartition(' ')[0])}\b(?! (?:named|called|with)\b)", change.after
        )
        if named[1].lower() in english.kind_nouns and is_bare:
            yield f"{named[1]!r} has neither name nor article"
