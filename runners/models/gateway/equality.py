"""Compares histories that agents resend: messages that may differ in formatting, and replies quoted in free text.

Agents rewrite their history between calls. The wires already ignore cache marks, item ids, and whether content is a
string or parts. This module also ignores whitespace around texts, the formatting of arguments, and a first system text
that changes with every call.

Some agents send their whole history as one growing message, and others restart from a summary written by the model.
Then no assistant turn contains the reply; a text quotes it. Such texts are compared by letters and digits only, because
agents escape, indent and wrap quotations.
"""

import re
from collections.abc import Iterable, Sequence

from lhaw_record.runners.base.conversation.actions import decoded_arguments, tool_action
from lhaw_record.runners.base.conversation.messages import Message, ToolCall
from lhaw_record.runners.base.text.normalization import elements


def is_same(left: Message, right: Message) -> bool:
    """Return whether two messages are equal apart from formatting."""
    if left is right:
        return True
    if left.role != right.role or left.tool_call_id != right.tool_call_id:
        return False
    if len(left.tool_calls) != len(right.tool_calls) or left.content.strip() != right.content.strip():
        return False
    return all(_is_same_call(one, other) for one, other in zip(left.tool_calls, right.tool_calls, strict=True))


def is_prefix(before: Sequence[Message], after: Sequence[Message]) -> bool:
    """Return whether the second conversation begins with the entire first one."""
    return len(before) <= len(after) and all(map(is_same, before, after))


def steady_system(messages: Sequence[Message], before: Sequence[Message]) -> tuple[list[Message], str | None]:
    """Restore the first system text of the previous call if it is the only one of several that has changed.

    Some agents put a hash of the request into this text. Without this step, no two of their calls would share a prefix.
    """
    systems = _leading_systems(messages)
    has_changed = (
        systems > 1
        and systems == _leading_systems(before)
        and not is_same(messages[0], before[0])
        and all(map(is_same, messages[1:systems], before[1:systems]))
    )
    if not has_changed:
        return list(messages), None
    return [before[0], *messages[1:]], messages[0].content


def _leading_systems(messages: Sequence[Message]) -> int:
    return next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))


def _is_same_call(left: ToolCall, right: ToolCall) -> bool:
    if (left.call_id, left.name) != (right.call_id, right.name):
        return False
    if left.arguments_json == right.arguments_json:
        return True
    one, other = tool_action(left), tool_action(right)
    return one.kind == "tool" and other.kind == "tool" and one.arguments_json == other.arguments_json


_LONG_LINE = 40  # characters; a choice: shorter lines are headings, which unrelated texts share
SHORTEST_SUMMARY = 48
"""Minimum length, in letters, of a summary or of a meaningful common prefix. A choice: longer than titles."""
_ESCAPES = ("\\n", "\\r", "\\t")
_NOT_WORD = re.compile(r"[\W_]+")
_ASCII = bytes(range(128)).decode()
_LOWER = bytes(range(256)).lower()
_NO_LETTERS = "".join(each for each in _ASCII if not each.isalnum()).encode()
_TAG = re.compile(r"<(\w+)>")
_FENCED = re.compile(r"```[\w-]*\n(.*?)```", re.DOTALL)


def told_text(messages: Iterable[Message]) -> str:
    """Join the texts of a request other than system texts and the model's own turns."""
    return "\n".join(message.content for message in messages if message.role in ("user", "tool"))


def is_folded_sequel(before: Sequence[Message], reply: Message, after: Sequence[Message]) -> bool:
    """Return whether a request continues another one in folded form.

    It has the same system texts, keeps at least half of the other request's text, and quotes the reply more often than
    that request did.
    """
    systems = [[each for each in messages if each.role == "system"] for messages in (before, after)]
    if len(systems[0]) != len(systems[1]) or not all(map(is_same, *systems)):
        return False
    old, new = told_text(before), told_text(after)
    if not new or old == new or not keeps_half(old, new):
        return False
    words, old_words = _words(new), _words(old)
    return all(words.count(each) > old_words.count(each) for each in _marks(reply)) and bool(_marks(reply))


def folded_result(reply: Message, text: str) -> str | None:
    """Return the text after a reply's last quotation in a folded history, or None if it is not quoted verbatim."""
    quoted = _last_words(reply)
    at = text.rfind(quoted) if quoted else -1
    return text[at + len(quoted) :].strip() or None if at >= 0 else None


def holds_summary(texts: Sequence[str], summary: str) -> bool:
    """Return whether the texts contain a summary: all of its words, or half of its long lines.

    Agents keep only the tagged part of a summary, wrap it, and add text of their own. A text of fewer than 48 letters
    may be a title.
    """
    parts = [summary, *(summary[begin:end] for _, begin, end, _ in elements(summary, _TAG))]
    words = [_words(text) for text in texts]
    for part in parts:
        whole = _words(part)
        if len(whole) >= SHORTEST_SUMMARY and any(whole in each for each in words):
            return True
        lines = [_words(line) for line in part.splitlines() if len(line.strip()) >= _LONG_LINE]
        if lines and 2 * sum(any(line in each for each in words) for line in lines) >= len(lines):
            return True
    return False


def quotes_text(texts: Iterable[str], wanted: str) -> bool:
    """Return whether any of the texts contains another text, ignoring escapes and spaces."""
    words = _words(wanted)
    return bool(words) and any(words in _words(text) for text in texts)


def keeps_half(old: str, new: str) -> bool:
    """Return whether a text keeps at least half of another one: its beginning, or its lines."""
    letters = _words(old)
    if 2 * _shared(letters, _words(new)) >= len(letters):
        return True
    kept = {_words(line) for line in new.splitlines()}
    lines = [words for line in old.splitlines() if (words := _words(line))]
    return 2 * sum(line in kept for line in lines) >= len(lines)


def shared_letters(left: str, right: str) -> int:
    """Return the length of two texts' common prefix, in letters and digits."""
    return _shared(_words(left), _words(right))


def _shared(left: str, right: str) -> int:
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _words(text: str) -> str:
    """Return letters and digits in lower case. A client may send megabytes, so bytes are mapped, not searched."""
    for escape in _ESCAPES:
        text = text.replace(escape, " ")
    words = text.encode("utf-8", "surrogatepass").translate(_LOWER, _NO_LETTERS).decode("utf-8", "surrogatepass")
    return words if words.isascii() else _NOT_WORD.sub("", words).lower()


def _marks(reply: Message) -> list[str]:
    """Return the strings that identify a reply in a folded history: its calls' arguments or names, or its text."""
    if reply.tool_calls:
        return [mark for call in reply.tool_calls for mark in _argument_words(call) or [_words(call.name)]]
    fenced = [_words(code) for code in _FENCED.findall(reply.content)]
    return [mark for mark in fenced if mark] or [mark for mark in [_words(reply.content)] if mark]


def _argument_words(call: ToolCall) -> list[str]:
    arguments = decoded_arguments(call.arguments_json)
    values = [call.arguments_json] if arguments is None else list(arguments.values())
    return [words for value in values if isinstance(value, str) and (words := _words(value))]


def _last_words(reply: Message) -> str:
    if not reply.tool_calls:
        return reply.content.strip()
    arguments = decoded_arguments(reply.tool_calls[-1].arguments_json) or {}
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return texts[-1].strip() if texts else reply.tool_calls[-1].name
