"""Actions: one tool call, or one assistant turn without a tool call; counted from 1."""

from typing import Literal

from recorder.events._base import Event

ActionKind = Literal["tool", "text", "malformed"]


class ActionStarted(Event, frozen=True, tag="action_started"):
    """An action is about to be executed; durable before it is.

    Behind a gateway the agent executes what it was served: there the action is known, and durable, when a later request
    holds it. ``arguments_json`` is canonical JSON for kind ``tool``, the raw text for ``malformed``, ``{}`` for
    ``text``. ``model_call_id`` None: no model call is known.
    """

    action_index: int
    kind: ActionKind
    name: str
    arguments_json: str
    model_call_id: str | None
    call_id: str | None = None


class ActionFinished(Event, frozen=True, tag="action_finished"):
    """What an action gave back to the agent; ``server`` and ``server_pid`` where an MCP server ran it.

    None where a source does not tell what came back, whether it was an error, or how long it took.

    Where the task comes with a recorded reference of the same call, ``reference_result_sha256`` names the result
    recorded there and ``is_same_as_reference`` says whether the live text is byte-identical: other bytes are no error.
    """

    action_index: int
    is_error: bool | None
    result: str | None
    duration_ms: float | None
    server: str | None = None
    server_pid: int | None = None
    reference_result_sha256: str | None = None
    is_same_as_reference: bool | None = None
