"""Connect a sandbox without network to the host: a loopback port that forwards connections to one unix socket."""

import _signal  # type: ignore[import-not-found]
import os
import select
import socket

PORT = 8318
"""The loopback port; nothing else listens in the sandbox's own network."""

_HELD_BYTES = 1 << 20


def forward_until_input_ends(socket_path: str) -> None:
    """Open the port, print a line, and serve until standard input ends."""
    listener = socket.create_server(("127.0.0.1", PORT), backlog=128)
    os.write(1, b"open\n")
    _serve(listener, socket_path, until=0)


def start_forwarder(socket_path: str) -> int:
    """Open the port, serve it in a child process, and return the child's process id."""
    listener = socket.create_server(("127.0.0.1", PORT), backlog=128)
    process_id = os.fork()
    if process_id == 0:
        try:
            _signal.set_wakeup_fd(-1)
            os.closerange(3, listener.fileno())
            os.closerange(listener.fileno() + 1, 1024)  # none of our pipes may stay open here
            _serve(listener, socket_path)
        finally:
            os._exit(1)
    listener.close()
    return process_id


class _Half:
    """One direction of a connection: bytes read from one side and not yet written to the other."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source, self.target = source, target
        self.held = bytearray()
        self.has_end = self.is_over = False

    def read(self) -> None:
        """Read the available bytes from the source."""
        try:
            data = self.source.recv(65536)
        except BlockingIOError:
            return
        self.held += data
        self.has_end = not data

    def write(self) -> None:
        """Write as much as the target accepts, and close its stream after the last byte."""
        if self.held:
            try:
                del self.held[: self.target.send(self.held)]
            except BlockingIOError:
                return
        if self.has_end and not self.held and not self.is_over:
            self.is_over = True
            self.target.shutdown(socket.SHUT_WR)


def _serve(listener: socket.socket, socket_path: str, until: int = -1) -> None:
    """Forward connections until the given descriptor, if any, is readable; a broken connection affects no other."""
    halves: dict[int, tuple[_Half, _Half]] = {}  # by descriptor: (read from it, written to it)
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    if until >= 0:
        poller.register(until, select.POLLIN)
    while True:
        for descriptor, _ in poller.poll():
            if descriptor == until:
                return
            if descriptor == listener.fileno():
                _accept(listener, socket_path, halves, poller)
            elif descriptor in halves:
                _move(descriptor, halves, poller)


def _accept(
    listener: socket.socket, socket_path: str, halves: dict[int, tuple[_Half, _Half]], poller: "select.poll"
) -> None:
    try:
        client, _ = listener.accept()
    except OSError:
        return
    upstream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        upstream.connect(socket_path)
    except OSError:
        client.close()
        upstream.close()
        return
    out, back = _Half(client, upstream), _Half(upstream, client)
    halves[client.fileno()], halves[upstream.fileno()] = (out, back), (back, out)
    for side in (client, upstream):
        side.setblocking(False)
        poller.register(side, select.POLLIN)


def _move(descriptor: int, halves: dict[int, tuple[_Half, _Half]], poller: "select.poll") -> None:
    """Move bytes through a descriptor in both directions, then register the events that its connection waits for."""
    read, written = halves[descriptor]
    try:
        if not read.has_end and len(read.held) < _HELD_BYTES:
            read.read()
        read.write()
        written.write()
        is_over = read.is_over and written.is_over
    except OSError:
        is_over = True
    if is_over:
        for side in (read.source, read.target):
            _wait_for(poller, side, 0)
            del halves[side.fileno()]
            side.close()
        return
    for one, other in ((read, written), (written, read)):
        wants_more = not one.has_end and len(one.held) < _HELD_BYTES
        has_more = bool(other.held)  # for the source of ``one``
        _wait_for(poller, one.source, (select.POLLIN if wants_more else 0) | (select.POLLOUT if has_more else 0))


def _wait_for(poller: "select.poll", side: socket.socket, events: int) -> None:
    """Wait for events; a side that waits for none is unregistered, because its end would wake us forever."""
    if events:
        poller.register(side, events)
        return
    try:
        poller.unregister(side)
    except KeyError:
        return
