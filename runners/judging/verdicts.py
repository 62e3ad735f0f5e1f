"""Verdicts read from a judge's reply: strict about what is said, forgiving about what stands around the JSON."""

import json
import re
from typing import Any, Literal

import msgspec

from recorder.events import JudgedFlag
from recorder.events.judging import FlagVerdict
from runners.errors import RunnerError
from runners.judging.flags import JUDGED

_WORDS: dict[str, FlagVerdict] = {
    "yes": "yes",
    "no": "no",
    "na": "not_applicable",
    "n/a": "not_applicable",
    "not_applicable": "not_applicable",
}
_PREFIX = "flag_"


class MalformedVerdict(RunnerError):
    """A judge's reply holds no verdict; the message says what is wrong with it, in words that the judge can use."""


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
        MalformedVerdict: The reply is no such object, or a flag is missing or has no known verdict.
    """
    said = _object(reply).get("flags")
    if not isinstance(said, dict):
        raise MalformedVerdict('there is no object under the key "flags"')
    by_name = {str(name).strip().lower().removeprefix(_PREFIX): value for name, value in said.items()}
    missing = [name for name in JUDGED if name not in by_name]
    if missing:
        raise MalformedVerdict(f"these flags are missing: {', '.join(missing)}")
    return tuple(_flag(name, by_name[name]) for name in JUDGED)


def read_new_task(reply: str) -> NewTaskVerdict:
    """Return what a judge says of the trials of a variant.

    Raises:
        MalformedVerdict: The reply is no such object.
    """
    try:
        return msgspec.convert(_object(reply), NewTaskVerdict)
    except msgspec.ValidationError as error:
        raise MalformedVerdict(_plain(error)) from error


def _flag(name: str, value: Any) -> JudgedFlag:
    try:
        flag = msgspec.convert(value, _Flag)
    except msgspec.ValidationError as error:
        raise MalformedVerdict(f"{name}: {_plain(error)}") from error
    word = re.sub(r"[\s-]+", "_", flag.verdict.strip().lower())
    if word not in _WORDS:
        raise MalformedVerdict(f'{name}: the verdict must be "YES", "NO" or "N/A", not {flag.verdict!r}')
    return JudgedFlag(flag=name, verdict=_WORDS[word], reason=flag.reason)


def _object(reply: str) -> dict[str, Any]:
    """The JSON object of a reply; prose and code fences around it are forgiven."""
    first, last = reply.find("{"), reply.rfind("}")
    try:
        found = json.loads(reply[first : last + 1]) if first >= 0 else None
    except ValueError as error:
        raise MalformedVerdict(f"it is not valid JSON ({error})") from error
    if not isinstance(found, dict):
        raise MalformedVerdict("it holds no JSON object")
    return found


def _plain(error: msgspec.ValidationError) -> str:
    return str(error).replace("`", "'")
