"""Reads the ids of threads, sessions and agents that clients send, in metadata or in headers of any spelling."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

_UNSET = frozenset({"", "0", "false", "none", "null"})
_FAMILIES = {"thread-id": "thread", "conversation-id": "thread", "session-id": "session", "agent-id": "agent"}
_RETRY_HEADER = "x-stainless-retry-count"


class ClientIds(msgspec.Struct, frozen=True, kw_only=True):
    """The ids in one request.

    Ids that the client did not send are None. Only sub-agents send ``parent`` and ``sub_agent``.
    """

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
