"""Finds what a removed value left behind: a comma for an "and", a bare label, a phrase in a quotation."""

import re
from collections.abc import Iterator

from lhaw_record.generators.prompts.diff import hunks
from lhaw_record.generators.spans import Spans

INLINE_FIELD = re.compile(
    r"(?m)(?:^|(?<=[,;.] ))(?=((?P<label>[A-Za-z][\w ]{1,24}\.?): [^,;:\n]+?(?:[,;]|\.?$|\.(?=\s))))"
)
"""A field in a line of text, such as ", phone number: 555-0100,"; group 1 is all of it."""
_LAST_JOINT = re.compile(r"(?:^|\s)(and|or|but)\s*$")
_VERBATIM = re.compile(r"\bfollowing \w+:\s*[\"'\u201c]?$")


def left_over(before: str, after: str, values: Spans, removed: Spans) -> Iterator[tuple[str, str]]:
    """Yield a finding for each thing that has lost the one that it belongs to."""
    for hunk in hunks(before, after):
        joint, lead = _LAST_JOINT.search(before[hunk.start : hunk.end]), before[: hunk.start]
        is_lost = joint is not None and not removed.has(hunk.start + joint.start(1))
        if joint and is_lost and not _LAST_JOINT.search(hunk.new) and (lead + hunk.new).rstrip().endswith(","):
            yield "nothing_else_changed", f"{joint[1]!r} is gone before {before[hunk.end :][:30]!r}; keep it"
        if hunk.new.strip() and values.touches(hunk.start, hunk.end) and _VERBATIM.search(lead):
            yield "reads_well", f"{hunk.new.strip()[:80]!r} is read as the text itself; say it before the colon"
    for field in INLINE_FIELD.finditer(before):
        label = rf"(?<!\w){re.escape(field['label'])}\s*[,;.]"
        if values.touches(*field.span(1)) and re.search(label, after) and not re.search(label, before):
            yield "reads_well", f"{field['label']!r} has no value; remove it, too"
