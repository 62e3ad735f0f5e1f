"""Normalizes case, spacing and number formats for matching, and maps each character back to its original position."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec

# Scripts without spaces between words: a character of theirs ends no word and begins none.
UNSPACED = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_DASHES = str.maketrans({"\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\u2019": "'"})
_CLUSTER = re.compile(r"[^\x00-\x7f]|[\x00-\x7f](?=[^\x00-\x7f])")
_UNITS = r"ms|s|min|h|kg|g|km|cm|mm|m|kb|mb|gb|tb|eur|usd|gbp|chf|%|€|\$|£"
_Step = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]
_GROUPED: _Step = (re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?!\w|,\d)"), lambda match: match.group().replace(",", ""))
_UNIT: _Step = (re.compile(rf"(?<=\d)(?=(?:{_UNITS})(?!\w))"), lambda _: " ")
_FRACTION: _Step = (
    re.compile(r"(?<![\w.])(\d+)\.(\d+)(?!\w|\.\d)"),
    lambda match: f"{match[1]}.{match[2]}".rstrip("0").rstrip("."),
)
_CLOSING = re.compile(r"</([\w-]+)>")
_SPACE: _Step = (re.compile(r"\s+"), lambda _: " ")


class NormalizedText(msgspec.Struct, frozen=True):
    """A normalized text with the original position of each character.

    Character i comes from characters ``starts[i]`` to ``ends[i]`` of the original text.
    """

    text: str
    starts: list[int]
    ends: list[int]

    def places(self, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each match, as positions in the original text."""
        for match in pattern.finditer(self.text):
            if match.end() > match.start():
                yield self.starts[match.start()], self.ends[match.end() - 1]

    def replaced(self, pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str]) -> "NormalizedText":
        """Return the text with every match replaced. The remaining characters keep their original positions."""
        parts: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        position = 0
        for match in pattern.finditer(self.text):
            new = replacement(match)
            begin, end = match.span()
            if new == match.group():
                continue
            parts += [self.text[position:begin], new]
            first = self.starts[begin] if begin < len(self.starts) else self.ends[-1]
            last = self.ends[end - 1] if end > begin else first
            starts += self.starts[position:begin] + [first] * len(new)
            ends += self.ends[position:begin] + [last] * len(new)
            position = end
        if not parts:
            return self
        parts.append(self.text[position:])
        return NormalizedText("".join(parts), starts + self.starts[position:], ends + self.ends[position:])


@lru_cache(maxsize=1024)
def whole(text: str) -> re.Pattern[str]:
    """Return the pattern that finds a text outside of longer words and numbers: no ten in sentence, no 5 in Q5 or 1.5.

    A number and its unit are two words: 20 and mm are in 20mm.
    """
    first, last = text[:1], text[-1:]
    word, letter = rf"[^\W{UNSPACED}]", rf"[^\W\d{UNSPACED}]"
    before = rf"(?<!{word})(?<!\d[.,])" if first.isdigit() else rf"(?<!{letter})" if re.match(letter, first) else ""
    after = r"(?!\d|[.,]\d)" if last.isdigit() else rf"(?!{word})" if re.match(letter, last) else ""
    return re.compile(before + re.escape(text) + after)


def normalize(text: str, *, keep_zeros: bool = False) -> str:
    """Return a text with uniform case, spacing and numbers, so that ``1,000.50 EUR`` and ``1000.5eur`` are equal."""
    normalized = "".join(_normal(each) for each in _clusters(text))
    for pattern, replacement in _steps(keep_zeros=keep_zeros):
        normalized = pattern.sub(replacement, normalized)
    return normalized.strip()


def normalize_with_places(text: str, *, keep_zeros: bool = False) -> NormalizedText:
    """Normalize a text like :func:`normalize`, and keep every character's position. Spaces at both ends are kept."""
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    position = 0
    for cluster in _clusters(text):
        normal = _normal(cluster)
        end = position + len(cluster)
        if len(normal) == len(cluster):
            starts.extend(range(position, end))
            ends.extend(range(position + 1, end + 1))
        else:
            starts.extend([position] * len(normal))
            ends.extend([end] * len(normal))
        parts.append(normal)
        position = end
    normalized = NormalizedText("".join(parts), starts, ends)
    for pattern, replacement in _steps(keep_zeros=keep_zeros):
        normalized = normalized.replaced(pattern, replacement)
    return normalized


def elements(text: str, opening: re.Pattern[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the elements ``<name>…</name>``, one after another: where each begins, its text begins and ends, it ends.

    Only openings that are closed somewhere are looked at, so that the time is linear. Their first group is the name.
    """
    last = {closing[1]: closing.start() for closing in _CLOSING.finditer(text)}
    done = 0
    for opened in opening.finditer(text):
        if opened.start() >= done and last.get(opened[1], -1) >= opened.end():
            end = text.find(f"</{opened[1]}>", opened.end())
            done = end + len(opened[1]) + 3
            yield opened.start(), opened.end(), end, done


def _steps(*, keep_zeros: bool) -> tuple[_Step, ...]:
    return (_GROUPED, _UNIT, _SPACE) if keep_zeros else (_GROUPED, _UNIT, _FRACTION, _SPACE)


def _normal(cluster: str) -> str:
    if cluster.isascii():
        return cluster.lower()
    normalized = unicodedata.normalize("NFKC", cluster).casefold()
    return unicodedata.normalize("NFKC", normalized).translate(_DASHES)


def _clusters(text: str) -> Iterator[str]:
    """Yield the pieces of a text that normalize independently: runs of ASCII, and characters with their marks."""
    position = 0
    while position < len(text):
        match = _CLUSTER.search(text, position)
        start = match.start() if match else len(text)
        if start > position:
            yield text[position:start]
        end = start + 1
        while end < len(text) and unicodedata.combining(text[end]):
            end += 1
        if start < len(text):
            yield text[start:end]
        position = end
