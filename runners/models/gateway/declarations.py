"""What a request says about its thread: declarations, and ids that clients send in metadata and headers.

Declarations override the gateway's inference. They come from the table ``[threads]`` of the agent's entry, or from
headers set by programs that can.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from lhaw_record.runners.experiment.values import ThreadRules
from lhaw_record.runners.models.gateway.wires.protocol import WireRequest

_UNSET = frozenset({"", "0", "false", "none", "null"})
_FAMILIES = {"thread-id": "thread", "conversation-id": "thread", "session-id": "session", "agent-id": "agent"}
_RETRY_HEADER = "x-stainless-retry-count"


class ClientIds(msgspec.Struct, frozen=True, kw_only=True):
    """The client ids in one request; None if not sent. Only sub-agents send ``parent`` and ``sub_agent``."""

    thread: str | None = None
    session: str | None = None
    agent: str | None = None
    parent: str | None = None
    sub_agent: str | None = None
    is_retry: bool = False

    @property
    def names_sub_agent(self) -> bool:
        """Whether a header says that a sub-agent sent the request."""
        return self.parent is not None or self.sub_agent is not None

    def key_beside(self, main: "ClientIds") -> str | None:
        """Return the id that distinguishes this thread from the main one, or None if it has no id of its own."""
        own = ((self.agent, main.agent), (self.thread, main.thread), (self.session, main.session))
        return next((mine for mine, of_main in own if mine is not None and mine != of_main), None)


def client_ids_of(headers: Iterable[tuple[str, str]], body: Mapping[str, Any]) -> ClientIds:
    """Extract the ids from a request."""
    metadata = body.get("client_metadata")
    fields = [*headers, *(metadata.items() if isinstance(metadata, dict) else ())]
    found: dict[str, Any] = {}
    parents: dict[str, str] = {}
    for name, value in fields:
        if not isinstance(value, str) or value.strip().lower() in _UNSET:
            continue
        lowered = str(name).lower().replace("_", "-")
        if lowered == _RETRY_HEADER:
            found["is_retry"] = True
        elif lowered.endswith(("subagent", "sub-agent")):
            found.setdefault("sub_agent", value)
        elif (family := _family(lowered)) is not None:
            (parents if "parent" in lowered else found).setdefault(family, value)
    foreign = [value for family, value in parents.items() if found.get(family) != value]  # excludes itself
    return ClientIds(**found, parent=foreign[0] if foreign else None)


def _family(name: str) -> str | None:
    return next((family for ending, family in _FAMILIES.items() if name.endswith(ending)), None)


THREAD_HEADER = "x-lhaw-thread"
"""Header that names the request's thread: ``main``, ``side``, or a name for a sub-agent."""

STEP_HEADER = "x-lhaw-step"
"""Header with the agent's step number. A repeated number means a retry of that step."""


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """The declarations about one request.

    ``thread`` names its thread. ``is_main`` is None if it is undeclared whether this is the main thread. ``how`` says
    where the declaration was made. ``step`` names the agent's step, and ``is_step`` is true if the request shows that
    the previous reply was executed.
    """

    thread: str | None = None
    is_main: bool | None = None
    is_side: bool = False
    how: str = ""
    step: str | None = None
    is_step: bool = False


def declared_in(rules: ThreadRules, request: WireRequest, headers: Iterable[tuple[str, str]]) -> Declared:
    """Return what the rules and headers declare about a request."""
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
