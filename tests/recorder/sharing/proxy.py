"""A way to a server that can be cut: a small TCP proxy in threads of this process."""

import socket
import threading
from contextlib import suppress


class Proxy:
    """Forwards connections to a port of this host until it is cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open: list[socket.socket] = []
        self._is_cut = False
        self._bytes_left: int | None = None
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break every connection, and refuse new ones until :meth:`restore`."""
        with self._lock:
            self._is_cut = True
            self._break_all()

    def cut_after(self, sent: int) -> None:
        """Break every connection once more when the clients have sent so many bytes from now on."""
        with self._lock:
            self._bytes_left = sent

    def restore(self) -> None:
        """Let connections through again."""
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        """End."""
        self.cut()
        self._listener.close()

    def _break_all(self) -> None:
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open.clear()
        self.cuts += 1

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._is_cut:
                    client.close()
                    continue
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                self._open += [client, server]
            threading.Thread(target=self._pump, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, False), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, is_upload: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1024):
                with self._lock:
                    if is_upload and self._bytes_left is not None:
                        self._bytes_left -= len(data)
                        if self._bytes_left < 0:
                            self._bytes_left = None
                            self._break_all()
                            return
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
