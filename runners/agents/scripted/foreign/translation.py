"""Translates calls of the desk's tools to shell commands and back, and unwraps the texts that agents wrap.

A foreign shell keeps no interpreter open between calls. Therefore the code of a Python step is preceded by the code of
all earlier steps, which runs silently. The conversation is the only memory, so a call can be read back from its
command.
"""

import json
import os
import re
import shlex
from collections.abc import Sequence

_BEGIN, _END = "python3 - <<'END_OF_PYTHON'\n", "\nEND_OF_PYTHON"
_STEP_MARK = "# the next step"
_REPLAY = """\
import contextlib, io
for code in [
{codes}]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
        exec(code)
{mark}
"""
_READ = re.compile(r"cat < (?P<path>\S.*)")
_REMINDER = re.compile(r"<([a-z]+(?:[_-][a-z]+)+)(?:\s[^>]*)?>.*?</\1>", re.DOTALL)
_TAGGED = re.compile(r"<(?:output|stdout)>\n?(.*?)\n?</(?:output|stdout)>", re.DOTALL)
_HEADED = re.compile(r"(?im)^(?:final )?(?:output|stdout):[ \t]*\n?")
_FIELDS = ("output", "stdout", "stderr")
_MOST_HEADER_LINES = 15


def to_command(tool: str, arguments: dict[str, str], earlier_codes: Sequence[str] = ()) -> str:
    """Return a shell command that does what a call of one of the desk's tools does."""
    if tool == "python":
        codes = "".join(f"    {code!r},\n" for code in earlier_codes)
        before = _REPLAY.format(codes=codes, mark=_STEP_MARK) if codes else ""
        return f"{_BEGIN}{before}{arguments['code'].strip()}{_END}"
    if tool == "read_file":
        return f"cat < {shlex.quote(arguments['path'])}"
    if tool == "write_file":
        path = arguments["path"]
        folder = f"mkdir -p {shlex.quote(os.path.dirname(path))} && " if "/" in path else ""  # noqa: PTH120  text only
        return f"{folder}printf %s {shlex.quote(arguments['content'])} > {shlex.quote(path)}"
    return {"bash": arguments.get("command", "")}[tool]


def from_command(command: str) -> tuple[str, dict[str, str]]:
    """Return the tool and arguments of the call that a shell command was made from."""
    text = command.strip()
    if text.startswith(_BEGIN) and text.endswith(_END):
        code = text[len(_BEGIN) : -len(_END)]
        return "python", {"code": code.rpartition(f"{_STEP_MARK}\n")[2].strip() + "\n"}
    if text.startswith(("printf %s ", "mkdir -p ")) or _READ.fullmatch(text):
        try:
            words = shlex.split(text)
        except ValueError:
            words = []
        if words[:1] == ["mkdir"] and words[3:4] == ["&&"]:
            words = words[4:]
        if len(words) == 5 and words[3] == ">":
            return "write_file", {"path": words[4], "content": words[2]}
        if len(words) == 3 and words[:2] == ["cat", "<"]:
            return "read_file", {"path": words[2]}
    return "bash", {"command": text}


def without_reminders(text: str) -> str:
    """Return a text without the reminders that agents add for the model, ``<some-reminder>…</some-reminder>``."""
    return _REMINDER.sub("", text).strip()


def unwrapped(result: str) -> str:
    """Return what a command printed, without the report that an agent wrapped around it."""
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
    """Return a command as a fenced block of code."""
    return f"```{fence}\n{command}\n```"


def from_fence(fence: str, text: str) -> str | None:
    """Return the command in a text's first block of code in this language, or None."""
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
