"""Communication over descriptors: messages between host and driver, which both use, and the output of processes."""

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


_PIPE_BYTES = 1 << 20  # the agent's pipes hold at most this, so draining this much reaches the end of its output


class Output:
    """Keeps the first and the last half of ``limit_bytes``, and counts all bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._head_bytes = limit_bytes // 2
        self._tail_bytes = limit_bytes - self._head_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def take(self, descriptor: int) -> int:
        """Read once from a pipe; return the number of bytes, 0 at its end or if it is empty."""
        data = read_some(descriptor)
        self._total += len(data)
        room = self._head_bytes - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > self._tail_bytes + (1 << 20):
            del self._tail[: -self._tail_bytes]
        return len(data)

    def drain(self, descriptor: int) -> None:
        """Read the output written before now; a background job that keeps writing must not delay us."""
        taken = 0
        while taken < _PIPE_BYTES:
            size = self.take(descriptor)
            if not size:
                return
            taken += size

    def fields(self) -> tuple[bytes, bytes, bytes]:
        """Return the decimal total, the head and the tail; nothing was cut if the sizes add up to the total."""
        tail = self._tail[max(0, len(self._tail) - self._tail_bytes) :]
        return b"%d" % self._total, bytes(self._head), bytes(tail)


def read_some(descriptor: int) -> bytes:
    """Return the available bytes of a non-blocking descriptor, empty if none are available or it has ended."""
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return b""
