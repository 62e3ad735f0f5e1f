"""Does an answer give away a removed value? A pure search with case, spacing and number format folded."""

import re
import unicodedata

from recorder.values import Segment

_GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?!\w|,\d)")
_FRACTION = re.compile(r"(?<![\w.])(\d+)\.(\d+)(?!\w|\.\d)")
_UNIT = re.compile(r"(?<=\d)(?=(?:ms|s|min|h|kg|g|km|cm|mm|m|kb|mb|gb|tb|eur|usd|gbp|chf|%|€|\$|£)(?!\w))")
_ARTICLE = re.compile(r"^(?:the|an?) ")
_DASHES = str.maketrans({"\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\u2019": "'"})


def reveals(answer: str, segment: Segment) -> bool:
    """Return whether the answer holds the segment's value as whole words.

    1,000 equals 1000 and 1000.0, ``500ms`` equals ``500 ms``; but 3.10 is not 3.1 where the value is a version, and
    ``report.xlsx`` is not found in ``old_report.xlsx``.
    """
    is_version = segment.subdimension.lower() == "version"
    value = _ARTICLE.sub("", fold(segment.value, keep_zeros=is_version).strip(" .,;:!?\"'`"))
    if not value:
        return False
    whole = rf"(?<!\w)(?<!\w[./_@-]){re.escape(value)}(?!\w)(?![./_@-]\w)"
    return re.search(whole, fold(answer, keep_zeros=is_version)) is not None


def fold(text: str, *, keep_zeros: bool = False) -> str:
    """Return the text in one case, spacing and number format.

    Args:
        text: Any text.
        keep_zeros: Whether zeros at the end of a fraction mean something, as in a version.
    """
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_DASHES)
    folded = _GROUPED.sub(lambda match: match.group().replace(",", ""), folded)
    folded = _UNIT.sub(" ", folded)
    if not keep_zeros:
        folded = _FRACTION.sub(lambda match: f"{match[1]}.{match[2]}".rstrip("0").rstrip("."), folded)
    return " ".join(folded.split())
