"""Reads server-sent events from a provider's bytes (html.spec.whatwg.org, section 9.2)."""

import codecs
from collections.abc import Iterator

from lhaw_record.runners.models.streams.bodies import decoded, malformed
from lhaw_record.runners.models.streams.protocol import DONE, MOST_REPLY_BYTES, StreamedEvent


class EventReader:
    """Splits a stream of bytes into events. Bytes may be cut anywhere."""

    def __init__(self) -> None:
        self._buffer = b""
        self._has_begun = False
        self._is_after_return = False

    def feed(self, received: bytes) -> Iterator[StreamedEvent]:
        """Yield the events that are complete with these bytes."""
        if self._is_after_return and received:  # the other half of a line's end
            received = received.removeprefix(b"\n")
            self._is_after_return = False
        if b"\r" in received:
            self._is_after_return = received.endswith(b"\r")
            received = received.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *blocks, self._buffer = (self._buffer + received).split(b"\n\n")
        if blocks and not self._has_begun:
            self._has_begun = True
            blocks[0] = blocks[0].removeprefix(codecs.BOM_UTF8)
        if len(self._buffer) > MOST_REPLY_BYTES:  # of one event
            raise malformed("an event of its stream does not end")
        for block in blocks:
            if lines := block.strip(b"\n"):
                yield _event(lines)


def _event(block: bytes) -> StreamedEvent:
    name, data = "", []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    raw = block + b"\n\n"
    if not data:
        return StreamedEvent(raw, name, None)
    joined = data[0] if len(data) == 1 else b"\n".join(data)
    if joined.strip() == DONE.encode():
        return StreamedEvent(raw, DONE, None)
    return StreamedEvent(raw, name, decoded(joined, "an event of its stream"))
