"""What a model notices about a value in the files that it has seen: it is not there, or there is a newer one beside it.

Nothing is noticed where the look gave nothing of the kind: a failed listing is no evidence.
"""

import re
from pathlib import PurePosixPath

from runners.models.scripted.recipe import Memory, Parameter


def is_missing(parameter: Parameter, value: str, memory: Memory) -> bool:
    """Return whether the step that shows what there is shows others of this kind, and not this one."""
    shown = memory.get(parameter.shown_by or "")
    if shown is None or not re.search(parameter.shape, shown):
        return False
    return re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w.-])", shown) is None


def is_outdated(parameter: Parameter, value: str, memory: Memory) -> bool:
    """Return whether a file is shown whose name goes on where this one ends: ``data_v2.csv`` after ``data.csv``."""
    shown = memory.get(parameter.shown_by or "")
    path = PurePosixPath(value)
    if shown is None or not path.suffix or is_missing(parameter, value, memory):
        return False
    stem = re.escape(str(path.with_suffix("")))
    return re.search(rf"(?<![\w.-]){stem}[_-][\w-]+{re.escape(path.suffix)}(?![\w.-])", shown) is not None
