"""The text ``checkpoints.md`` of a published task: headings with points in many spellings, or a numbered list.

Seen in published folders: ``## Checkpoint 1 (1pt)``, ``(2pts)``, ``(1 point)``, ``[2pts]``, ``## Checkpoing 1``,
``## Checkpint 3``, ``## Final Checkpoint (3pt)``, and ``1. [2pts] …`` under no heading.
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
    """One checkpoint as the text has it; ``points`` is None where it names none, ``body`` all that stands below."""

    title: str
    points: float | None
    body: str

    @property
    def label(self) -> str:
        """The first paragraph of the body on one line, else the title."""
        paragraph = re.split(r"\n\s*\n", self.body.strip())[0]
        return " ".join(paragraph.split()) or self.title


class Checkpoints(msgspec.Struct, frozen=True, kw_only=True):
    """What a text says: its checkpoints in order, and the totals that it states, None where it states none."""

    items: tuple[CheckpointText, ...]
    stated_points: int | None = None
    stated_count: int | None = None


def read_checkpoints(text: str) -> Checkpoints:
    """Return what a ``checkpoints.md`` says; line ends of any kind. A text of another form has no checkpoints."""
    lines = text.removeprefix("\ufeff").splitlines()
    items = tuple(_below_headings(lines)) or tuple(_in_list(lines))
    total, count = _TOTAL.search(text), _COUNT.search(text)
    return Checkpoints(
        items=items,
        stated_points=int(total[1] or total[2]) if total else None,
        stated_count=int(count[1]) if count else None,
    )


def _below_headings(lines: Sequence[str]) -> Iterator[CheckpointText]:
    """The sections whose heading names a checkpoint; a heading of anything else ends a section."""
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
    """The numbered lines that begin with points."""
    for line in lines:
        item = _ITEM.match(line)
        if item:
            yield CheckpointText(title=item["text"], points=float(item["points"]), body=item["text"])
