"""Reads condition names in the Ask Early format, in every known spelling, and injection points."""

import re
from typing import Any

from lhaw_record.recorder.events.values import CONDITIONS, INJECT_PERCENTAGES
from lhaw_record.runners.base.text.fields import as_number, as_text, shown

_NAMES = {
    "oracle": "full",
    "no_clarification": "underspecified",
    "no_inject": "underspecified",
    "nc": "underspecified",
    "natural_ask": "ask_user",
    "natural": "ask_user",
}
_INJECT = re.compile(
    r"inj(?:ect(?:ion|ed)?)?(?:_at)?_?(0?\.\d+|\d+)?(?:_?(?:percent|pct|%))?|(\d+)(?:_?(?:percent|pct|%))"
)


def condition_of_trial(condition: Any, point: Any) -> tuple[str, float | None]:
    """Return the condition, and the injection point as a number, or None if it only repeats the percentage."""
    name = re.sub(r"[\s-]+", "_", as_text(condition, "condition").strip().lower())
    name = _NAMES.get(name, name)
    number = None if point in (None, "") else as_number(str(point).rstrip("% "), "injection_point")
    match = _INJECT.fullmatch(name)
    if name in CONDITIONS and not name.startswith("inject_"):
        return name, None
    if match is None:
        raise ValueError(f"unknown condition {shown(condition)}")
    stated = match[1] or match[2]
    percent = _percent(float(stated)) if stated else None
    said = _percent(number) if number is not None else None
    if percent is None:
        percent, said = said, None
    elif number is not None and said in INJECT_PERCENTAGES and 0 < number < 1 and said != percent:
        raise ValueError(f"condition {shown(condition)} contradicts injection_point {shown(point)}")
    if percent not in INJECT_PERCENTAGES:
        raise ValueError(f"condition {shown(condition)} at {shown(point)} is none of {INJECT_PERCENTAGES} percent")
    is_repeated = number is None or 0 < number < 1 or _percent(number) == percent
    return f"inject_{percent}", None if is_repeated else number


def _percent(number: float) -> int:
    """Convert a fraction below 1, or a percentage, to a whole percentage."""
    return round(number * 100) if 0 < number < 1 else round(number)
