"""The events that the recorder is measured with: those of one action of one trial, of usual sizes."""

from collections.abc import Callable

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    AnyEvent,
    ModelCalled,
    ModelResponded,
    RepliedToolCall,
    Usage,
)

_ARGUMENTS = '{"command":"python report.py --month 2026-03 --format csv"}'
_RESULT = "region,total\nnorth,1204.50\nsouth,988.10\nwest,1730.00\n" * 3
_DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def called(index: int) -> AnyEvent:
    """A request with one new message."""
    return ModelCalled(
        call_id=f"main.{index}",
        role="agent",
        thread_id="main",
        call_kind="main",
        model="scripted/balanced",
        parameters_json='{"max_tokens":4096,"seed":0,"temperature":0}',
        request_digest=_DIGEST,
        shared_count=2 * index,
        message_count=2 * index + 1,
        new_messages_json=f'[{{"content":"{_RESULT}","role":"tool","tool_call_id":"call_{index}"}}]',
        parent_call_id=f"main.{index - 1}",
    )


def responded(index: int) -> AnyEvent:
    """Its reply, with one tool call."""
    return ModelResponded(
        call_id=f"main.{index}",
        role="agent",
        text="I look at the totals by region next.",
        finish_reason="tool_calls",
        latency_ms=812.25,
        tool_calls=(RepliedToolCall(call_id=f"call_{index}", name="bash", arguments_json=_ARGUMENTS),),
        usage=Usage(input_tokens=1830, output_tokens=62, cost_usd=0.00642),
    )


def started(index: int) -> AnyEvent:
    """The action."""
    return ActionStarted(
        action_index=index,
        kind="tool",
        name="bash",
        arguments_json=_ARGUMENTS,
        model_call_id=f"main.{index}",
        call_id=f"call_{index}",
    )


def finished(index: int) -> AnyEvent:
    """What the action gave back."""
    return ActionFinished(action_index=index, is_error=False, result=_RESULT, duration_ms=41.5)


ACTION: tuple[Callable[[int], AnyEvent], ...] = (called, responded, started, finished)
"""What is recorded for one action, in order."""
