"""The four wire protocols between agents and models."""

from lhaw_record.runners.models.gateway.wires import (
    chat_replies,
    chat_requests,
    gemini_replies,
    gemini_requests,
    messages_replies,
    messages_requests,
    responses_replies,
    responses_requests,
)
from lhaw_record.runners.models.gateway.wires.common import event
from lhaw_record.runners.models.gateway.wires.protocol import WireFormat
from lhaw_record.runners.models.streams.chat import ChatStream
from lhaw_record.runners.models.streams.gemini import GeminiStream
from lhaw_record.runners.models.streams.messages import MessagesStream
from lhaw_record.runners.models.streams.responses import ResponsesStream

CHAT = WireFormat(name="chat", path="chat/completions", requests=chat_requests, replies=chat_replies, stream=ChatStream)
RESPONSES = WireFormat(
    name="responses",
    path="responses",
    requests=responses_requests,
    replies=responses_replies,
    stream=ResponsesStream,
    ping=event({"type": "keepalive", "sequence_number": 0}, "keepalive"),  # as sent by OpenAI's servers
)
MESSAGES = WireFormat(
    name="messages",
    path="messages",
    requests=messages_requests,
    replies=messages_replies,
    stream=MessagesStream,
    ping=event({"type": "ping"}, "ping"),
)
GEMINI = WireFormat(
    name="gemini",
    path="generateContent",
    requests=gemini_requests,
    replies=gemini_replies,
    stream=GeminiStream,
)

WIRES = (CHAT, RESPONSES, MESSAGES, GEMINI)

__all__ = ["CHAT", "GEMINI", "MESSAGES", "RESPONSES", "WIRES", "WireFormat"]
