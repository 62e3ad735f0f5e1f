"""What an agent's entry or a request declares about threads. A declaration overrides what the gateway would infer.

An entry has the table ``[threads]``. A program that can set headers of its requests may name the thread there instead.
"""

import re
from collections.abc import Iterable

import msgspec

from lhaw_record.runners.experiment.values import ThreadRules
from lhaw_record.runners.models.gateway.wires.protocol import WireRequest

THREAD_HEADER = "x-lhaw-thread"
"""The header in which a program names the thread of a request: ``main``, ``side``, or a sub-agent's name of its own."""

STEP_HEADER = "x-lhaw-step"
"""The header in which a program numbers its steps. The same number again is another attempt of that step."""


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What is declared about one request.

    ``thread`` names its thread. ``is_main`` is None if nothing says whether the request is the main thread's. ``how``
    says where that was declared. ``step`` names the agent's step, and ``is_step`` is true if the request shows that the
    reply before it was carried out.
    """

    thread: str | None = None
    is_main: bool | None = None
    is_side: bool = False
    how: str = ""
    step: str | None = None
    is_step: bool = False


def declared_in(rules: ThreadRules, request: WireRequest, headers: Iterable[tuple[str, str]]) -> Declared:
    """Return what the rules and the headers declare about a request."""
    values = {name.lower(): value.strip() for name, value in headers}
    step = values.get(STEP_HEADER) or None
    is_step = step is not None or rules.step == "request"
    named = values.get(THREAD_HEADER)
    if named:
        return Declared(
            thread=None if named == "side" else named,
            is_main=named == "main",
            is_side=named == "side",
            how=f"header {THREAD_HEADER} says {named!r}",
            step=step,
            is_step=is_step,
        )
    last = request.turns[-1].message.content if request.turns else ""
    if rules.side and re.search(rules.side, last):
        how = "its last message has what the entry says of side calls"
        return Declared(is_main=False, is_side=True, how=how, step=step)
    is_main: bool | None = None
    how = ""
    if rules.main:
        is_main = re.search(rules.main, _opening_text(request)) is not None
        how = f"its opening {'has' if is_main else 'does not have'} what the entry says of the main thread"
    thread = values.get(rules.thread.lower()) or None if rules.thread else None
    if thread is not None:
        how = how or f"header {rules.thread} names its thread"
    return Declared(thread=thread, is_main=is_main, how=how, step=step, is_step=is_step)


def _opening_text(request: WireRequest) -> str:
    texts: list[str] = []
    for turn in request.turns:
        if turn.message.role == "system":
            texts.append(turn.message.content)
        elif turn.message.role == "user":
            texts.append(turn.message.content)
            break
    return "\n".join(texts)
