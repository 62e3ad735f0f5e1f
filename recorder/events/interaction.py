"""Events about an agent's actions, its questions, and the clarification injected into its conversation.

An action is one tool call, or one assistant turn without a tool call; actions are counted from 1. Questions are counted
at the ask_user server, so the name that a client gives the tool does not matter.
"""

from typing import Literal

from lhaw_record.recorder.events.judging import ExchangeReading
from lhaw_record.recorder.events.values import Event, Value

ActionKind = Literal["tool", "text", "malformed"]
Medium = Literal["mcp", "built_in", "elicitation", "command", "prose"]
ResponseState = Literal["answered", "declined", "dismissed", "timed_out", "late", "unavailable"]
SandboxLimit = Literal["command_seconds", "memory_mb", "processes", "file_mb"]


class ActionStarted(Event, frozen=True, tag="action_started"):
    """An action is about to be executed. This event is durable before the action runs.

    Behind a gateway, the agent executes its own actions, and each is recorded when a later request contains it.
    ``arguments_json`` is canonical JSON for kind ``tool``, the raw text for ``malformed`` and ``{}`` for ``text``.
    ``model_call_id`` is None if the model call that requested the action is unknown.
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

    ``reference_result_sha256`` is the digest of the result for the same call in the task's recorded reference.
    ``is_same_as_reference`` says whether the live result is byte-identical; a difference is not an error. ``limit_met``
    is the key under ``[limits]`` that stopped the action. ``limits_watched`` are the keys that were monitored, None if
    there was no monitoring (programs, imports, older events); any other limit may have been reached unnoticed.
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


class RevealedSegment(Value, frozen=True):
    """A removed segment that an answer revealed, and whether the agent had asked for it."""

    segment_id: str
    is_requested: bool


class RejectedAnswer(Value, frozen=True):
    """A reply from the simulated user's model that was not passed to the agent.

    ``problem`` is ``empty``, ``cut``, ``echo`` (it repeats the question), ``unstructured`` (it is not in the requested
    form), ``withheld``, ``volunteered`` or ``leaked``.
    """

    text: str
    problem: str


class QuestionOption(Value, frozen=True):
    """An answer that the agent offers. ``holds`` are the removed segments whose values it says, by rules."""

    label: str
    description: str = ""
    holds: tuple[str, ...] = ()


class QuestionAsked(Event, frozen=True, tag="question_asked"):
    """The agent asked its user. The question is recorded before it is answered.

    ``medium`` is how it asked: by calling our ``ask_user`` (``mcp``) or its own asking tool (``built_in``), through an
    ``elicitation`` of a tool server, by a shell ``command`` that asks, or by ending its turn with the question
    (``prose``).

    ``context`` is all that the user sees beside the question, the header and the options too. ``recommended`` is the
    label of the option that the agent recommends. The questions of one call have the same ``batch_id``, the id of the
    first of them; it is None where a call has one question.
    """

    question_id: str
    question: str
    context: str = ""
    call_id: str | None = None
    action_index: int | None = None
    medium: Medium = "mcp"
    header: str = ""
    options: tuple[QuestionOption, ...] = ()
    recommended: str | None = None
    batch_id: str | None = None


class QuestionAnswered(Event, frozen=True, tag="question_answered"):
    """The simulated user answered a question, or ``response_state`` says why there is no prompt answer.

    Without an answer, ``answer`` is None, and what the agent was told instead is in the experiment's wording.
    ``after_action`` is the number of actions after which the agent was told as a message of its own, None if the result
    of its question said it, or if its trial ended first.

    ``revealed`` is ``()`` if nothing was revealed, None if unknown. ``answer`` and ``latency_ms`` are None if the
    source of an imported trial lacks them. ``withheld`` holds the ids of the removed segments that the question asks
    for and the answer omits, None if unknown. ``rejected`` holds the replies that failed the checks of the
    ``llm`` simulator.

    ``readings`` has one entry per judge, the simulator's own first; ``revealed`` and ``withheld`` say what that one
    says. Events without readings were judged by ``rules/1``. ``picked`` are the labels of the options that the user
    picked, ``()`` if the answer is in their own words. ``answered_by`` is the name of the person who answered or
    declined, and ``saw_values`` whether they had the full prompt before them; both are None of a simulated user.
    """

    question_id: str
    answer: str | None
    simulator: str
    latency_ms: float | None
    revealed: tuple[RevealedSegment, ...] | None = ()
    withheld: tuple[str, ...] | None = None
    rejected: tuple[RejectedAnswer, ...] = ()
    response_state: ResponseState = "answered"
    readings: tuple[ExchangeReading, ...] = ()
    after_action: int | None = None
    picked: tuple[str, ...] = ()
    answered_by: str | None = None
    saw_values: bool | None = None


class ApprovalAnswered(Event, frozen=True, tag="approval_answered"):
    """An agent asked for leave to act, and its entry's policy answered. This is no question.

    ``options`` are the kinds of answers that it offered, and ``answer`` is the one it got, or ``cancelled`` if none
    fits the policy.
    """

    title: str
    options: tuple[str, ...]
    answer: str
    call_id: str | None = None


class ClarificationInjected(Event, frozen=True, tag="clarification_injected"):
    """The clarification was inserted into the conversation, or skipped.

    It is inserted after action ``after_action``, at the first clean turn boundary at or after ``target_action``. Status
    ``skipped`` means that the trial ended first, and ``reason`` says why. The target, the message and the segments are
    None if the source of an imported trial lacks them. Source: Ask Early, section 4.
    """

    status: Literal["injected", "skipped"]
    inject_percent: int
    target_action: int | None
    message: str | None
    segment_ids: tuple[str, ...] | None
    after_action: int | None = None
    reason: str | None = None


class AnchorLost(Event, frozen=True, tag="anchor_lost"):
    """A request on the main thread no longer contains the anchor, the reply that the injected message followed.

    This happens only behind a gateway, when the agent restarts its conversation, with a summary or from the beginning.
    ``model_call_id`` is the first call whose request lacks the reply to ``anchor_call_id``. ``reason`` says how that
    request was recognised as part of the main thread.
    """

    model_call_id: str
    thread_id: str
    anchor_call_id: str
    reason: str


class InjectionReapplied(Event, frozen=True, tag="injection_reapplied"):
    """From this call on, the gateway inserts the injected message at a different position, because its anchor was lost.

    Until then, the gateway inserts the message at its first position in every request, because the agent's own history
    does not contain it. These insertions are not recorded individually.
    """

    model_call_id: str
    thread_id: str
    place: Literal["top"]
