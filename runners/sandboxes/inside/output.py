"""Keep the beginning and the end of what a command prints, in bounded memory."""


class Output:
    """The first and the last half of ``limit_bytes``, and how many bytes there were in all."""

    def __init__(self, limit_bytes: int) -> None:
        self._head_bytes = limit_bytes // 2
        self._tail_bytes = limit_bytes - self._head_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self._total += len(data)
        room = self._head_bytes - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > self._tail_bytes + (1 << 20):
            del self._tail[: -self._tail_bytes]

    def fields(self) -> tuple[bytes, bytes, bytes]:
        """Return the total in decimal, the head and the tail; nothing is missing if both are as long as the total."""
        tail = self._tail[max(0, len(self._tail) - self._tail_bytes) :]
        return b"%d" % self._total, bytes(self._head), bytes(tail)
