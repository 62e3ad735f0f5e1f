"""Edits of a text: put together where they overlap, applied, and what they do to places behind them."""

from collections.abc import Sequence

import msgspec


class Edit(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """The text from ``start`` to ``end`` becomes ``new``."""

    start: int
    end: int
    new: str


def merged(edits: Sequence[Edit]) -> list[Edit]:
    """Return edits in order that do not overlap: of two that do, their union with the new text of one."""
    result: list[Edit] = []
    for edit in sorted(edits, key=lambda each: (each.start, -each.end)):
        if result and edit.start < result[-1].end:
            last = result[-1]
            if edit.end > last.end:
                result[-1] = Edit(start=last.start, end=edit.end, new=last.new or edit.new)
            continue
        result.append(edit)
    return result


def applied(text: str, edits: Sequence[Edit]) -> str:
    """Return the text with edits that are in order and apart."""
    parts: list[str] = []
    position = 0
    for edit in edits:
        parts += [text[position : edit.start], edit.new]
        position = edit.end
    return "".join([*parts, text[position:]])


def shifted(place: tuple[int, int], edits: Sequence[Edit]) -> tuple[int, int] | None:
    """Return where a place lies after edits; None if one of them took a part of it."""
    start, end = place
    shift = 0
    for edit in edits:
        if edit.end <= start:
            shift += len(edit.new) - (edit.end - edit.start)
        elif edit.start < end:
            return None
    return start + shift, end + shift
