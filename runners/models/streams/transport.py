"""Converts litellm's unstreamed requests to streaming ones, and returns the joined reply to litellm.

If a whole reply does not arrive in time, the server may be unresponsive or the model may be generating without end; a
stream shows which. litellm's own streams lose parts of a reply (signatures, order, provider-specific fields). Therefore
litellm's finished request is converted at the HTTP transport, and litellm parses a whole reply.
"""

import time
from collections.abc import Callable
from typing import Any

import anyio
import msgspec

from lhaw_record.runners.base.clock import beside_loop
from lhaw_record.runners.models.exchanges import Handle, whole_response
from lhaw_record.runners.models.protocol import ModelError
from lhaw_record.runners.models.streams.chat import ChatStream
from lhaw_record.runners.models.streams.gemini import GeminiStream
from lhaw_record.runners.models.streams.joining import (
    USAGE_OPTION,
    Body,
    ReplyStream,
    StreamedEvent,
    StreamStep,
    fields,
    is_generating,
    joined_reply,
)
from lhaw_record.runners.models.streams.messages import MessagesStream
from lhaw_record.runners.models.streams.responses import ResponsesStream

_STREAMS: dict[str, Callable[[], ReplyStream]] = {
    "/chat/completions": ChatStream,
    "/messages": MessagesStream,
    "/responses": ResponsesStream,
    ":generateContent": GeminiStream,
}
_REFUSED = frozenset({400, 404, 405, 415, 422, 501})  # the server may reject only streaming


class StreamedCall:
    """One litellm call whose requests use streaming.

    Args:
        model: The model's name, for messages.
    """

    def __init__(self, model: str) -> None:
        self.failure: ModelError | None = None
        """Why a stream gave no reply; litellm sees only a connection error."""
        self._model = model
        self._last_token_ns: int | None = None

    def is_generating(self, timeout_s: float) -> bool:
        """Return whether the model was still generating when the request timed out."""
        return is_generating(self._last_token_ns, time.monotonic_ns(), timeout_s)

    async def send(self, handle: Handle, request: Any) -> Any:
        """Send a request as a streaming one, and return a response with the whole reply.

        A request of unknown form is sent unchanged, and so is one that the server rejects as a stream. The server may
        also answer with a whole reply.
        """
        opened = _opened(request, await request.aread())
        if opened is None:
            return await handle(request)
        as_stream, stream = opened
        response = await handle(as_stream)
        if response.status_code in _REFUSED:
            await response.aclose()
            return await handle(request)
        if response.status_code >= 400 or not _is_stream(response):
            return response
        try:
            body = await self._joined(response, stream)
        except ModelError as error:
            self.failure = error
            raise
        joined, exchange = msgspec.json.encode(body), response.extensions["exchange"]
        exchange.joined, exchange.calls_split_by = joined, stream.calls_split_by
        return await beside_loop(len(joined), whole_response, response, joined)

    async def _joined(self, response: Any, stream: ReplyStream) -> Body:
        try:
            return await joined_reply(response.aiter_bytes(), stream, self._note, model=self._model)
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    def _note(self, _: StreamedEvent, step: StreamStep) -> None:
        if step.has_token:
            self._last_token_ns = time.monotonic_ns()


def _opened(request: Any, raw: bytes) -> tuple[Any, ReplyStream] | None:
    """Return the request as a streaming one, with a parser for the stream, or None if its wire is unknown."""
    import httpx

    path = request.url.path
    ending = next((ending for ending in _STREAMS if path.endswith(ending)), None)
    try:
        body = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.MsgspecError:
        return None
    if ending is None or body.get("stream"):
        return None
    url = request.url
    if ending == ":generateContent":
        path = path.removesuffix(ending) + ":streamGenerateContent"
        url = url.copy_with(path=path).copy_merge_params({"alt": "sse"})
    else:
        body = {**body, "stream": True}
    if ending == "/chat/completions":
        body["stream_options"] = {**fields(body.get("stream_options")), **USAGE_OPTION}
    headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"content-length"]
    content = msgspec.json.encode(body)
    opened = httpx.Request(request.method, url, headers=headers, content=content, extensions=request.extensions)
    return opened, _STREAMS[ending]()


def _is_stream(response: Any) -> bool:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip() == "text/event-stream"
