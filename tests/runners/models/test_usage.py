"""What a provider reports is recorded, and what it does not report is unknown."""

import pytest

from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.models.gateway.wires import CHAT, GEMINI, MESSAGES, RESPONSES

TEXT = {"role": "assistant", "content": "hi"}
CHAT_REPLY = {"choices": [{"index": 0, "message": TEXT, "finish_reason": "stop"}]}
MESSAGES_REPLY = {"content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"}
RESPONSES_REPLY = {
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}]
}
GEMINI_REPLY = {"candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}


@pytest.mark.parametrize(
    ("wire", "reply", "usage", "wanted"),
    [
        (CHAT, CHAT_REPLY, {"prompt_tokens": 9, "completion_tokens": 2}, (9, 2, None, None, None, None)),
        (
            CHAT,
            CHAT_REPLY,
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "cost": 0.25,
                "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 3},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
            (9, 2, 0, 3, 1, 0.25),
        ),
        (
            CHAT,
            CHAT_REPLY,
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4},
            (9, 2, 4, None, None, None),
        ),
        (MESSAGES, MESSAGES_REPLY, {"input_tokens": 9, "output_tokens": 2}, (9, 2, None, None, None, None)),
        (
            MESSAGES,
            MESSAGES_REPLY,
            {"input_tokens": 9, "output_tokens": 2, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 5},
            (14, 2, 0, 5, None, None),
        ),
        (
            RESPONSES,
            RESPONSES_REPLY,
            {
                "input_tokens": 9,
                "output_tokens": 2,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens_details": {"reasoning_tokens": 1},
            },
            (9, 2, 4, None, 1, None),
        ),
        (
            GEMINI,
            GEMINI_REPLY,
            {"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 3},
            (9, 5, None, None, 3, None),
        ),
        (CHAT, CHAT_REPLY, None, (None, None, None, None, None, None)),
    ],
)
def test_usage_is_as_reported(wire, reply, usage, wanted):
    """Reads, writes, reasoning and the provider's own cost by the names of each wire; missing is None and 0 is 0."""
    body = {**reply, "usageMetadata" if wire is GEMINI else "usage": usage}
    read = wire.replies.read(body)
    assert read.message == Message(role="assistant", content="hi")
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "reasoning_tokens")
    assert read.usage == Usage(**dict(zip((*names, "provider_cost_usd"), wanted, strict=True)))
