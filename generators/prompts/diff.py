"""Compares two prompts word by word, as marked spans for people and as a compact unified diff for the record."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

import msgspec

from lhaw_record.runners.base.text.normalization import UNSPACED

_Kind = Literal["same", "removed", "added"]
_TOKEN = re.compile(rf"\s+|[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]")
_MOST_COMPARISONS = 1_000_000
_CONTEXT_CHARS = 40


class DiffSpan(msgspec.Struct, frozen=True):
    """A piece of text from one or both prompts. A ``same`` span is in both."""

    kind: _Kind
    text: str


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between two prompts: the original text at ``start:end`` became ``new``."""

    start: int
    end: int
    new: str


def hunks(original: str, rewritten: str) -> tuple[Hunk, ...]:
    """Return the differences between two prompts in order. Consecutive ones are at least one equal word apart."""
    left, right = _TOKEN.findall(original), _TOKEN.findall(rewritten)
    left_at, right_at = _offsets(left), _offsets(right)
    found: list[Hunk] = []
    i = j = 0
    for start_i, start_j, size in [*_blocks(left, right), (len(left), len(right), 0)]:
        if start_i > i or start_j > j:
            new = rewritten[right_at[j] : right_at[start_j]]
            found.append(Hunk(start=left_at[i], end=left_at[start_i], new=new))
        i, j = start_i + size, start_j + size
    return tuple(found)


def marked(original: str, rewritten: str) -> tuple[DiffSpan, ...]:
    """Merge two prompts into spans that are marked as same, removed or added."""
    spans: list[DiffSpan] = []
    position = 0
    for hunk in hunks(original, rewritten):
        for kind, text in (
            ("same", original[position : hunk.start]),
            ("removed", original[hunk.start : hunk.end]),
            ("added", hunk.new),
        ):
            if text:
                spans.append(DiffSpan(kind, text))  # type: ignore[arg-type]
        position = hunk.end
    if original[position:]:
        spans.append(DiffSpan("same", original[position:]))
    return tuple(spans)


def plain_marks(spans: Sequence[DiffSpan]) -> str:
    """Format spans as text, with changes written as ``[-removed-]`` and ``{+added+}``."""
    forms = {"same": "{}", "removed": "[-{}-]", "added": "{{+{}+}}"}
    return "".join(forms[span.kind].format(span.text) for span in spans)


def prompt_diff(original: str, rewritten: str) -> str:
    """Return a word-level unified diff that leaves out text far from any change.

    A hunk has a header ``@@ -START,LENGTH +START,LENGTH @@``, counted in characters, and up to four lines: the text
    before, the removed text, the added text and the text after. Line ends and backslashes are escaped as in Python.
    """
    lines: list[str] = []
    shift = 0
    for hunk in hunks(original, rewritten):
        length = hunk.end - hunk.start
        lines.append(f"@@ -{hunk.start},{length} +{hunk.start + shift},{len(hunk.new)} @@")
        shift += len(hunk.new) - length
        before = original[max(0, hunk.start - _CONTEXT_CHARS) : hunk.start]
        after = original[hunk.end : hunk.end + _CONTEXT_CHARS]
        parts = ((" ", before), ("-", original[hunk.start : hunk.end]), ("+", hunk.new), (" ", after))
        lines += [sign + _escaped(text) for sign, text in parts if text]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")


def _offsets(tokens: Sequence[str]) -> list[int]:
    offsets = [0]
    for token in tokens:
        offsets.append(offsets[-1] + len(token))
    return offsets


def _blocks(left: list[str], right: list[str]) -> list[tuple[int, int, int]]:
    """Return the equal runs of tokens as (start in left, start in right, length), except runs of pure white space."""
    found: list[tuple[int, int, int]] = []
    for i, j, size in sorted(_matches(left, right)):
        if found and found[-1][0] + found[-1][2] == i and found[-1][1] + found[-1][2] == j:
            found[-1] = (found[-1][0], found[-1][1], found[-1][2] + size)
        elif size:
            found.append((i, j, size))
    last = len(left), len(right)
    return [
        (i, j, size)
        for i, j, size in found
        if i == j == 0 or (i + size, j + size) == last or any(not token.isspace() for token in left[i : i + size])
    ]


def _matches(left: list[str], right: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield equal runs of tokens by a patience diff.

    It first aligns the tokens that occur exactly once on both sides, then compares the text between them. It compares
    prompts of 100 kB in milliseconds and reports a change where it was made. Long text that only repeats itself may
    count as changed altogether.
    """
    pending = [(0, len(left), 0, len(right))]
    while pending:
        low, high, first, last = pending.pop()
        prefix = 0
        while low + prefix < high and first + prefix < last and left[low + prefix] == right[first + prefix]:
            prefix += 1
        if prefix:
            yield low, first, prefix
        low, first = low + prefix, first + prefix
        suffix = 0
        while low < high - suffix and first < last - suffix and left[high - suffix - 1] == right[last - suffix - 1]:
            suffix += 1
        if suffix:
            yield high - suffix, last - suffix, suffix
        high, last = high - suffix, last - suffix
        if low == high or first == last:
            continue
        anchors = _anchors(left, right, low, high, first, last)
        if anchors:
            edges = [(low, first), *((i + 1, j + 1) for i, j in anchors)]
            for (i, j), (next_i, next_j) in zip(edges, [*anchors, (high, last)], strict=True):
                pending.append((i, next_i, j, next_j))
            yield from ((i, j, 1) for i, j in anchors)
        else:
            is_long = (high - low) * (last - first) > _MOST_COMPARISONS
            matcher = SequenceMatcher(None, left[low:high], right[first:last], autojunk=is_long)
            yield from ((low + i, first + j, size) for i, j, size in matcher.get_matching_blocks() if size)


def _anchors(left: list[str], right: list[str], low: int, high: int, first: int, last: int) -> list[tuple[int, int]]:
    """Return the longest sequence of tokens that occur once in both ranges and in the same order."""
    counts_left, counts_right = Counter(left[low:high]), Counter(right[first:last])
    places = {right[j]: j for j in range(first, last) if counts_right[right[j]] == 1}
    pairs = [(i, places[left[i]]) for i in range(low, high) if counts_left[left[i]] == 1 and left[i] in places]
    tails: list[int] = []
    indices: list[int] = []
    previous: list[int] = []
    for index, (_, j) in enumerate(pairs):
        at = bisect_left(tails, j)
        tails[at : at + 1] = [j]
        indices[at : at + 1] = [index]
        previous.append(indices[at - 1] if at else -1)
    chain: list[tuple[int, int]] = []
    index = indices[-1] if indices else -1
    while index >= 0:
        chain.append(pairs[index])
        index = previous[index]
    return chain[::-1]
