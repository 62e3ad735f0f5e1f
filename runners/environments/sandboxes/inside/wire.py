"""The messages between host and driver: a length, then fields with a length each. Both sides use this file."""

import os

FRAME_LIMIT_BYTES = 32 << 20
CHUNK_BYTES = 1 << 20


def pack(*fields: bytes) -> bytes:
    """Encode the fields as one length-prefixed message."""
    body = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return len(body).to_bytes(4, "big") + body


def unpack(body: bytes) -> list[bytes]:
    """Return the fields of a frame's body."""
    fields = []
    at = 0
    while at < len(body):
        start = at + 4
        at = start + int.from_bytes(body[at:start], "big")
        fields.append(body[start:at])
    if at != len(body):
        raise ValueError("a frame ends inside a field")
    return fields


def read_exactly(descriptor: int, size: int) -> bytes:
    """Return the next bytes of a blocking descriptor."""
    data = b""
    while len(data) < size:
        try:
            more = os.read(descriptor, size - len(data))
        except ConnectionResetError:
            more = b""
        if not more:
            raise EOFError
        data += more
    return data


def read_message(descriptor: int) -> list[bytes]:
    """Return the fields of the next message of a blocking descriptor."""
    return unpack(read_exactly(descriptor, int.from_bytes(read_exactly(descriptor, 4), "big")))


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
