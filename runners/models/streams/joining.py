"""Reads a provider's stream to the end of its reply, and returns the whole reply that it amounts to."""

from collections.abc import AsyncIterator, Callable

import anyio

from lhaw_record.runners.models.failures import endless_reply
from lhaw_record.runners.models.streams.bodies import Body
from lhaw_record.runners.models.streams.protocol import (
    MOST_REPLY_BYTES,
    ReplyStream,
    StreamedEvent,
    StreamStep,
    add_to,
    body_of,
    ended_early,
)
from lhaw_record.runners.models.streams.sse import EventReader

LONGEST_REST_S = 10.0
"""How long a whole reply waits for what may follow it: its usage, a mark, and the end of the HTTP response.

A choice: the usage follows at once where there is any, and asking again would be paid for again."""
LEFT_S = 1.0
"""A whole reply waits no longer than until this much of the request's time is left: a choice, to return in time."""


async def joined_reply(
    pieces: AsyncIterator[bytes], stream: ReplyStream, note: Callable[[StreamedEvent, StreamStep], None], *, model: str
) -> Body:
    """Read a stream, and return the reply as an unstreamed one has it.

    Once the reply is whole, a connection that breaks or falls silent takes nothing from it; asking again would be paid
    for again.
    """
    import aiohttp
    import httpx

    reader, size = EventReader(), 0
    latest = anyio.current_effective_deadline() - LEFT_S
    try:
        with anyio.CancelScope() as reading:
            async for piece in pieces:
                size += len(piece)
                if size > MOST_REPLY_BYTES:
                    raise endless_reply(f"it is longer than {MOST_REPLY_BYTES:,} bytes", model=model)
                for event in reader.feed(piece):
                    note(event, add_to(stream, event))
                if stream.is_whole:
                    reading.deadline = min(reading.deadline, anyio.current_time() + LONGEST_REST_S, latest)
    except (OSError, aiohttp.ClientError, httpx.TransportError):
        if not stream.is_whole:
            raise
    if not stream.is_whole:
        raise ended_early(model)
    return body_of(stream)
