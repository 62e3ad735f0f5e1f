"""Parse the ``checkpoints.md`` of a published task: headings with points in many spellings, or a numbered list.

Published folders contain ``## Checkpoint 1 (1pt)``, ``(2pts)``, ``(1 point)``, ``[2pts]``, ``## Checkpoing 1``, ``##
Checkpint 3``, ``## Final Checkpoint (3pt)``, and ``1. [2pts] …`` without a heading.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

_POINTS = r"[(\[]\s*(?P<points>\d+(?:\.\d+)?)\s*(?:pts?|points?)\.?\s*[)\]]"
_HEADING = re.compile(r"^#{1,6}\s+(?P<title>.*?)\s*#*$")
_CHECKPOINT = re.compile(r"^(?:final\s+check\w*|check\w*\s+(?:\d+|final))\b", re.IGNORECASE)
_ITEM = re.compile(rf"^\s*\d+[.)]\s+{_POINTS}\s*(?P<text>\S.*)$", re.IGNORECASE)
_TOTAL = re.compile(r"(\d+)\s+points?\s+in\s+total|total\s+of\s+(\d+)\s+points?", re.IGNORECASE)
_COUNT = re.compile(r"\b(\d+)\s+checkpoints\b", re.IGNORECASE)
_FENCE = re.compile(r"^\s*(?:```|~~~)")


class CheckpointText(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint in the text.

    ``points`` is None if the text does not state them, and ``body`` is the text below the heading.
    """

    title: str
    points: float | None
    body: str

    @property
    def label(self) -> str:
        """The first paragraph of the body as one line, or the title if the body is empty."""
        paragraph = re.split(r"\n\s*\n", self.body.strip())[0]
        return " ".join(paragraph.split()) or self.title


class Checkpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoints of a text in order, and the totals that it states.

    A total is None if the text does not state it.
    """

    items: tuple[CheckpointText, ...]
    stated_points: int | None = None
    stated_count: int | None = None


def read_checkpoints(text: str) -> Checkpoints:
    """Parse the text of a ``checkpoints.md``. A text in an unknown form gives no checkpoints."""
    lines = text.removeprefix("\ufeff").splitlines()
    items = tuple(_below_headings(lines)) or tuple(_in_list(lines))
    total, count = _TOTAL.search(text), _COUNT.search(text)
    return Checkpoints(
        items=items,
        stated_points=int(total[1] or total[2]) if total else None,
        stated_count=int(count[1]) if count else None,
    )


def _below_headings(lines: Sequence[str]) -> Iterator[CheckpointText]:
    """Yield the sections whose heading names a checkpoint. Any other heading ends the section."""
    title: str | None = None
    body: list[str] = []
    is_fenced = False
    for line in lines:
        is_fenced ^= bool(_FENCE.match(line))
        heading = None if is_fenced else _HEADING.match(line)
        if heading is None:
            body.append(line)
            continue
        if title is not None:
            yield _section(title, body)
        title, body = (heading["title"] if _CHECKPOINT.match(heading["title"]) else None), []
    if title is not None:
        yield _section(title, body)


def _section(title: str, body: Sequence[str]) -> CheckpointText:
    points = re.search(_POINTS, title, re.IGNORECASE)
    return CheckpointText(
        title=title, points=float(points["points"]) if points else None, body="\n".join(body).strip("\n")
    )


def _in_list(lines: Sequence[str]) -> Iterator[CheckpointText]:
    """Yield one checkpoint for each numbered line that begins with points."""
    for line in lines:
        item = _ITEM.match(line)
        if item:
            yield CheckpointText(title=item["text"], points=float(item["points"]), body=item["text"])
