"""The three protocols between agents and models."""

from runners.gateway.wires import (
    chat_replies,
    chat_requests,
    messages_replies,
    messages_requests,
    responses_replies,
    responses_requests,
)
from runners.gateway.wires.protocol import Wire

CHAT = Wire(name="chat", path="chat/completions", requests=chat_requests, replies=chat_replies)
RESPONSES = Wire(name="responses", path="responses", requests=responses_requests, replies=responses_replies)
MESSAGES = Wire(name="messages", path="messages", requests=messages_requests, replies=messages_replies)

WIRES = (CHAT, RESPONSES, MESSAGES)

__all__ = ["CHAT", "MESSAGES", "RESPONSES", "WIRES", "Wire"]
