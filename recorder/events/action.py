"""Events about an agent's actions, counted from 1: one tool call, or one assistant turn without a tool call."""

from typing import Literal

from lhaw_record.recorder.events.values import Event

ActionKind = Literal["tool", "text", "malformed"]
SandboxLimit = Literal["command_seconds", "memory_mb", "processes", "file_mb"]


class ActionStarted(Event, frozen=True, tag="action_started"):
    """An action is about to be executed. This event is durable before the action runs.

    Behind a gateway, the agent executes its actions itself, and an action is recorded when a later request contains
    it. ``arguments_json`` is canonical JSON for kind ``tool``, the raw text for ``malformed`` and ``{}`` for ``text``.
    ``model_call_id`` is None if the model call that asked for the action is unknown.
    """

    action_index: int
    kind: ActionKind
    name: str
    arguments_json: str
    model_call_id: str | None
    call_id: str | None = None


class ActionFinished(Event, frozen=True, tag="action_finished"):
    """An action ended with a result. ``server`` and ``server_pid`` are set if an MCP server ran the action.

    The result, the error flag and the duration are None if the source of an imported trial lacks them.

    ``reference_result_sha256`` is the digest of the result that a recorded reference of the task has for the same call,
    and ``is_same_as_reference`` whether the live one is byte-identical; a difference is no error. ``limit_met`` is the
    key under ``[limits]`` that stopped the action, and ``limits_watched`` the keys that would have been noticed: any
    other may have been met unseen. None is nobody watched (programs, imports, older events).
    """

    action_index: int
    is_error: bool | None
    result: str | None
    duration_ms: float | None
    server: str | None = None
    server_pid: int | None = None
    reference_result_sha256: str | None = None
    is_same_as_reference: bool | None = None
    limit_met: SandboxLimit | None = None
    limits_watched: tuple[SandboxLimit, ...] | None = None
