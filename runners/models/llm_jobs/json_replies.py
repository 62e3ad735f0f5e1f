"""Reads JSON objects from a model's reply. Text around them is ignored, and nearly valid JSON is repaired."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from lhaw_record.runners.base.errors import UnusableReply

_DECODER = json.JSONDecoder(strict=False)  # several models write line breaks inside strings
_MOST_STARTS = 200  # a choice: far more than an answer has; bounds the time spent on brackets in prose
_DEEPEST = 50  # deeper nesting is not an answer, and its repair takes minutes
_STRUCTURE = re.compile(r'\\.|["{}\[\]]', re.DOTALL)


class ReadObject(msgspec.Struct, frozen=True):
    """An object that was read from a reply, and how complete it is.

    ``open_depth`` is the number of objects, lists and texts that are still open at the end of the reply, or 0 if the
    object is complete. The last item of the innermost open one may be incomplete. Wrong quotes can make the number too
    high.
    """

    value: dict[str, Any]
    open_depth: int = 0


def json_object(reply: str, key: str) -> dict[str, Any]:
    """Return the JSON object in a reply that has a given key. Only prose and code fences may surround it."""
    for found in _decoded(reply):
        if isinstance(found, dict) and key in found:
            return found
    raise UnusableReply(_problem(reply, key))


def repaired_object(reply: str, key: str, *, is_list: bool = False) -> ReadObject:
    """Return the JSON object in a reply that has a given key, even if the JSON is not quite valid.

    Quotes, commas, comments, escapes and missing ends are repaired. A repair is a guess, so the caller must check the
    result against other data.
    """
    for found in _decoded(reply):
        if isinstance(found, dict) and key in found:
            return ReadObject(found)
        if is_list and isinstance(found, list) and found and all(isinstance(item, dict) for item in found):
            return ReadObject({key: found})
        if isinstance(found, str):  # JSON in a JSON string
            return repaired_object(found, key, is_list=is_list)
    start = reply.rfind("{", 0, max(reply.find(key), 0))
    open_depth, deepest = _depths(reply[max(start, 0) :])
    if start < 0 or deepest > _DEEPEST:
        raise UnusableReply(_problem(reply, key))
    import json_repair

    repaired = json_repair.loads(reply[start:], skip_json_loads=True)
    for each in repaired if isinstance(repaired, list) else [repaired]:
        if isinstance(each, dict) and key in each:
            return ReadObject(each, open_depth)
    raise UnusableReply(_problem(reply, key))


def _decoded(reply: str) -> Iterator[Any]:
    """Yield every outermost object, list or text that is valid JSON."""
    if reply.lstrip().startswith('"'):
        starts = [len(reply) - len(reply.lstrip())]
    else:
        starts = [match.start() for match in re.finditer(r"[\[{]", reply)][:_MOST_STARTS]
    end = 0
    for start in starts:
        if start >= end:
            try:
                found, end = _DECODER.raw_decode(reply, start)
            except (ValueError, RecursionError):
                continue
            yield found


def _depths(text: str) -> tuple[int, int]:
    """Return how many objects, lists and texts are open at the end of a text, and the greatest depth."""
    depth = deepest = 0
    is_in_text = False
    for match in _STRUCTURE.finditer(text):
        mark = match.group()
        if mark == '"':
            is_in_text = not is_in_text
        elif not is_in_text and mark in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif not is_in_text and mark in "}]":
            depth = max(0, depth - 1)
            if depth == 0:
                break
    return depth + is_in_text, deepest


def _problem(reply: str, key: str) -> str:
    """Explain why the object was not found, in words that help the model."""
    if f'"{key}"' not in reply or "{" not in reply:
        return f'it has no JSON object with the key "{key}"'
    try:
        _DECODER.raw_decode(reply, reply.find("{"))
    except (ValueError, RecursionError) as error:
        return f"it is not valid JSON ({error})"
    return f'it has no JSON object with the key "{key}"'
