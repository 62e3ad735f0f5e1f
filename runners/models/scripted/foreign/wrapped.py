"""What agents put around texts: envelopes around the output of a tool, reminders around the words of the user."""

import json
import re

_REMINDER = re.compile(r"<([a-z]+(?:[_-][a-z]+)+)(?:\s[^>]*)?>.*?</\1>", re.DOTALL)
_TAGGED = re.compile(r"<(?:output|stdout)>\n?(.*?)\n?</(?:output|stdout)>", re.DOTALL)
_HEADED = re.compile(r"(?im)^(?:final )?(?:output|stdout):[ \t]*\n?")
_FIELDS = ("output", "stdout", "stderr")
_MOST_HEADER_LINES = 15
_FENCED = "```{fence}\n{command}\n```"


def without_reminders(text: str) -> str:
    """Return a text without the blocks that agents put into it for the model: ``<some-reminder>…</some-reminder>``."""
    return _REMINDER.sub("", text).strip()


def unwrapped(result: str) -> str:
    """Return what a command printed, without the envelope that the agent put around it."""
    fields = _json_object(result)
    texts = [str(fields[name]) for name in _FIELDS if fields.get(name)]
    if "output" in fields or "stdout" in fields:
        return "\n".join(texts)
    tagged = _TAGGED.search(result)
    if tagged:
        return tagged[1]
    headed = _HEADED.search(result)
    if headed and result.count("\n", 0, headed.start()) <= _MOST_HEADER_LINES:
        return result[headed.end() :]
    return without_reminders(result) if _REMINDER.search(result) else result


def fenced(fence: str, command: str) -> str:
    """Return a command as a block of code."""
    return _FENCED.format(fence=fence, command=command)


def from_fence(fence: str, text: str) -> str | None:
    """Return the command of a text's block of code, None if it has none."""
    found = re.search(rf"```{re.escape(fence)}[ \t]*\n(.*?)\n```", text, re.DOTALL)
    return found[1] if found else None


def _json_object(text: str) -> dict[str, object]:
    if not text.lstrip().startswith("{"):
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
