"""Does an answer give away a removed value? A pure search with case, spacing and number format folded."""

import re

from recorder.values import Segment
from runners.folding import fold

_ARTICLE = re.compile(r"^(?:the|an?) ")


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
