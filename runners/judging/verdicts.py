"""Verdicts read from a judge's reply: strict about what is said, forgiving about what stands around the JSON."""

import re
from typing import Any, Literal

import msgspec

from recorder.events import JudgedFlag
from recorder.events.judging import FlagVerdict
from runners.errors import UnusableReply
from runners.json_replies import json_object
from runners.judging.flags import JUDGED

_WORDS: dict[str, FlagVerdict] = {
    "yes": "yes",
    "no": "no",
    "na": "not_applicable",
    "n/a": "not_applicable",
    "not_applicable": "not_applicable",
}
_PREFIX = "flag_"


class NewTaskVerdict(msgspec.Struct, frozen=True):
    """What a judge says of the trials of a variant."""

    same_answer: bool
    completes_task: bool
    reason: str

    @property
    def verdict(self) -> Literal["confirmed", "rejected"]:
        """Confirmed only where every trial gave one answer and that answer completes the prompt as given."""
        return "confirmed" if self.same_answer and self.completes_task else "rejected"


class _Flag(msgspec.Struct, frozen=True):
    verdict: str
    reason: str


def read_flags(reply: str) -> tuple[JudgedFlag, ...]:
    """Return the verdict of each judged flag, in the order of the catalogue; other flags are passed over.

    Raises:
        UnusableReply: The reply is no such object, or a flag is missing or has no known verdict.
    """
    said = json_object(reply, "flags")["flags"]
    if not isinstance(said, dict):
        raise UnusableReply('there is no object under the key "flags"')
    by_name = {str(name).strip().lower().removeprefix(_PREFIX): value for name, value in said.items()}
    missing = [name for name in JUDGED if name not in by_name]
    if missing:
        raise UnusableReply(f"these flags are missing: {', '.join(missing)}")
    return tuple(_flag(name, by_name[name]) for name in JUDGED)


def read_new_task(reply: str) -> NewTaskVerdict:
    """Return what a judge says of the trials of a variant.

    Raises:
        UnusableReply: The reply is no such object.
    """
    try:
        return msgspec.convert(json_object(reply, "same_answer"), NewTaskVerdict)
    except msgspec.ValidationError as error:
        raise UnusableReply(_plain(error)) from error


def _flag(name: str, value: Any) -> JudgedFlag:
    try:
        flag = msgspec.convert(value, _Flag)
    except msgspec.ValidationError as error:
        raise UnusableReply(f"{name}: {_plain(error)}") from error
    word = re.sub(r"[\s-]+", "_", flag.verdict.strip().lower())
    if word not in _WORDS:
        raise UnusableReply(f'{name}: the verdict must be "YES", "NO" or "N/A", not {flag.verdict!r}')
    return JudgedFlag(flag=name, verdict=_WORDS[word], reason=flag.reason)


def _plain(error: msgspec.ValidationError) -> str:
    return str(error).replace("`", "'")
