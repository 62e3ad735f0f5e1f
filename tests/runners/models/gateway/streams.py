"""What providers stream, written by hand from their documentation, and a provider that sends it piece by piece."""

import asyncio
import json

from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

PATHS = {
    "chat": "v1/chat/completions",
    "responses": "v1/responses",
    "messages": "v1/messages",
    "gemini": "v1beta/models/m:streamGenerateContent?alt=sse",
}
BASES = {
    "chat": ("openai/real", "/v1"),
    "responses": ("openai/real", "/v1"),
    "messages": ("anthropic/real", ""),
    "gemini": ("gemini/real", ""),
}


def sse(data, name=None):
    """One event as a provider writes it, with spaces that our own writer would not put there."""
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


def chat_stream(text, call_id="call_up", arguments='{"n":1}'):
    """platform.openai.com/docs/api-reference/chat-streaming: a text, a call, its end and the usage.

    The reasoning before the text is that of api-docs.deepseek.com/guides/thinking_mode.
    """

    def chunk(delta, reason=None, **more):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        head = {"id": "chatcmpl-up", "object": "chat.completion.chunk", "created": 1, "model": "real-1"}
        return sse({**head, "choices": [choice], "usage": None, **more})

    begin = {"index": 0, "id": call_id, "type": "function", "function": {"name": "work", "arguments": ""}}
    details = {"completion_tokens_details": {"reasoning_tokens": 2}}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, **details}
    first = [chunk({"role": "assistant", "content": ""})]
    first += [*(chunk({"reasoning_content": letter}) for letter in "hm"), *(chunk({"content": word}) for word in text)]
    call = [chunk({"tool_calls": [begin]})]
    call += [chunk({"tool_calls": [{"index": 0, "function": {"arguments": one}}]}) for one in arguments]
    return first, call, [chunk({}, "tool_calls"), chunk({}, usage=usage, choices=[]), "data: [DONE]\n\n"]


def messages_stream(text, call_id="toolu_up", arguments='{"n":1}'):
    """docs.anthropic.com/en/docs/build-with-claude/streaming: signed thinking, a text and a call."""

    def event(kind, **data):
        return sse({"type": kind, **data}, kind)

    usage = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    message = {"id": "msg_up", "type": "message", "role": "assistant", "model": "real-1", "content": []}
    first = [
        event("message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage}),
        event("content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""}),
        event("ping"),
        event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "hm"}),
        event("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "c2ln"}),
        event("content_block_stop", index=0),
        event("content_block_start", index=1, content_block={"type": "text", "text": ""}),
        *(event("content_block_delta", index=1, delta={"type": "text_delta", "text": word}) for word in text),
        event("content_block_stop", index=1),
    ]
    block = {"type": "tool_use", "id": call_id, "name": "work", "input": {}}
    call = [event("content_block_start", index=2, content_block=block)]
    call += [
        event("content_block_delta", index=2, delta={"type": "input_json_delta", "partial_json": one})
        for one in arguments
    ]
    ending = {"stop_reason": "tool_use", "stop_sequence": None}
    last = [event("content_block_stop", index=2), event("message_delta", delta=ending, usage={"output_tokens": 5})]
    return first, call, [*last, event("message_stop")]


def responses_stream(text, call_id="call_up", arguments='{"n":1}'):
    """platform.openai.com/docs/api-reference/responses-streaming: reasoning with its summary, a text and a call."""
    number = 0

    def event(kind, **data):
        nonlocal number
        number += 1
        return sse({"type": kind, "sequence_number": number - 1, **data}, kind)

    def response(status, output, usage):
        head = {"id": "resp_up", "object": "response", "created_at": 1, "status": status, "model": "real-1"}
        return {**head, "output": output, "usage": usage, "error": None, "incomplete_details": None}

    summary = [{"type": "summary_text", "text": "hm"}]
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "enc"}
    part = {"type": "output_text", "text": "".join(text), "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    call_item = {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": "work", "status": "completed"}
    whole_call = {**call_item, "arguments": arguments}
    where = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    first = [
        event("response.created", response=response("in_progress", [], None)),
        event("response.output_item.added", output_index=0, item={**reasoning, "summary": []}),
        event("response.output_item.done", output_index=0, item=reasoning),
        event("response.output_item.added", output_index=1, item={**said, "content": [], "status": "in_progress"}),
        event("response.content_part.added", **where, part={**part, "text": ""}),
        *(event("response.output_text.delta", **where, delta=word, logprobs=[]) for word in text),
        event("response.output_text.done", **where, text="".join(text), logprobs=[]),
        event("response.content_part.done", **where, part=part),
        event("response.output_item.done", output_index=1, item=said),
    ]
    begun = {**call_item, "arguments": "", "status": "in_progress"}
    call = [event("response.output_item.added", output_index=2, item=begun)]
    call += [
        event("response.function_call_arguments.delta", item_id="fc_1", output_index=2, delta=one) for one in arguments
    ]
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "input_tokens_details": {"cached_tokens": 0}}
    usage["output_tokens_details"] = {"reasoning_tokens": 2}
    last = [
        event("response.function_call_arguments.done", item_id="fc_1", output_index=2, arguments=arguments),
        event("response.output_item.done", output_index=2, item=whole_call),
        event("response.completed", response=response("completed", [reasoning, said, whole_call], usage)),
    ]
    return first, call, last


def gemini_stream(text, call_id="call_up", arguments='{"n":1}'):
    """ai.google.dev/api/generate-content: a thought, a text, and a call that comes whole, with its signature."""

    def chunk(*parts, **more):
        candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "totalTokenCount": 15}
        return sse({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "real-1", "responseId": "r"})

    first = [chunk({"text": "hm", "thought": True}), *(chunk({"text": word}) for word in text)]
    call = {"name": "work", "args": json.loads(arguments), "id": call_id}
    return (
        first,
        [],
        [chunk({"functionCall": call, "thoughtSignature": "c2ln"}), chunk({"text": ""}, finishReason="STOP")],
    )


STREAMS = {
    "chat": chat_stream,
    "messages": messages_stream,
    "responses": responses_stream,
    "gemini": gemini_stream,
}


class StreamingProvider:
    """Streams prepared replies, one a request; before each piece that is an event, it waits for that event."""

    def __init__(self, *replies, cut=False):
        self.requests, self.headers, self.raw = [], [], []

        async def answer(request):
            self.raw.append(await request.body())
            self.requests.append(json.loads(self.raw[-1]))
            self.headers.append(dict(request.headers))
            pieces = replies[min(len(self.requests), len(replies)) - 1]

            async def body():
                for piece in pieces:
                    if isinstance(piece, asyncio.Event):
                        await piece.wait()
                    else:
                        yield piece
                if cut:
                    raise ConnectionResetError

            headers = {"x-ratelimit-remaining": "7", "request-id": "req_1", "retry-after": "2", "x-secret": "s"}
            return StreamingResponse(body(), media_type="text/event-stream", headers=headers)

        self.app = Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])
