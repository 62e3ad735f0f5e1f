"""The conversation of a synthetic attempt as the deltas that its requests record.

The canonical form of a message and the digest of a list are those of docs/log-format.md, ``model_called``; a test
rebuilds every request with the code that reads real ones.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from lhaw_record.recorder.events import RepliedToolCall
from lhaw_record.recorder.events.canonical_json import canonical_json


class Conversation:
    """One thread: what is said is new in the next request, a reply is shared with it."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"[")
        self._added: list[bytes] = []
        self._count = 0
        self._shared_count = 0
        self.characters = 0

    def say(self, role: str, content: str) -> None:
        """Add a message to the next request."""
        self._added.append(self._append({"content": content, "role": role}))

    def give(self, result: str, action_index: int, tool_call_id: str) -> None:
        """Add the result of an action to the next request, which records only whose it is."""
        whose = {"role": "tool", "tool_call_id": tool_call_id}
        self._append({"content": result, **whose})
        self._added.append(canonical_json({"result_of_action": action_index, **whose}))

    def reply(self, text: str, calls: Sequence[RepliedToolCall]) -> None:
        """Add the model's turn."""
        wire: dict[str, Any] = {"content": text, "role": "assistant"}
        if calls:
            wire["tool_calls"] = [
                {
                    "function": {"arguments": call.arguments_json, "name": call.name},
                    "id": call.call_id,
                    "type": "function",
                }
                for call in calls
            ]
        self._append(wire)
        self._shared_count = self._count

    def request(self) -> dict[str, Any]:
        """Return the fields of ``model_called`` that say what is sent now."""
        closed = self._hash.copy()
        closed.update(b"]")
        added, self._added = self._added, []
        return {
            "request_digest": closed.hexdigest()[:32],
            "shared_count": self._shared_count,
            "message_count": self._count,
            "new_messages_json": f"[{b','.join(added).decode()}]",
        }

    def _append(self, wire: dict[str, Any]) -> bytes:
        message = canonical_json(wire)
        self._hash.update(b"," + message if self._count else message)
        self._count += 1
        self.characters += len(message)
        return message
