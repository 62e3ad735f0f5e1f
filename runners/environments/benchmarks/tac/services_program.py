"""Wait until services are healthy, or serve as their control server. Runs in containers (Python 3.9 or newer).

``wait SECONDS URL...`` exits with 1 and prints a line about the first service that is not healthy in time. ``serve
{"NAME": "URL"} {"PORT": ["HOST", PORT]}`` answers the requests that task images send to the company's control server,
and passes on the connections to the company's other ports. The real server resets services. Here every service was just
started for one trial, so there is nothing to reset.
"""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

PORT = 2999
_ANSWER_S = 10.0
_PAUSE_S = 0.2


def problem_of(url: str) -> str | None:
    """Return the problem with a service, or None if it answers with HTTP 2xx."""
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=_ANSWER_S):
            return None
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}"
    except Exception as error:  # noqa: BLE001  anything other than HTTP means that it is not healthy yet
        return str(getattr(error, "reason", error)) or type(error).__name__


def wait(limit_s: float, urls: list[str]) -> str | None:
    """Poll each address in turn until it is healthy. Return the first problem that lasts beyond the limit, or None."""
    deadline = time.monotonic() + limit_s
    for url in urls:
        while (problem := problem_of(url)) is not None:
            if time.monotonic() >= deadline:
                return f"{url}: {problem}"
            time.sleep(_PAUSE_S)
    return None


class ControlHandler(BaseHTTPRequestHandler):
    """Answers ``POST /api/reset-NAME``, and ``GET`` and ``HEAD /api/healthcheck/NAME``.

    The published reset script polls with HEAD (``curl -I``).
    """

    health: ClassVar[dict[str, str]] = {}

    def do_POST(self) -> None:
        """Accept the reset of a known service."""
        self._answer(202 if self.path.partition("/api/reset-")[2] in self.health else 404)

    def do_GET(self) -> None:
        """Report the health of a service."""
        url = self.health.get(self.path.partition("/api/healthcheck/")[2])
        if url is None:
            self._answer(404)
        else:
            self._answer(200 if problem_of(url) is None else 500)

    def do_HEAD(self) -> None:
        """Report the health of a service. A reply to HEAD or GET has no body."""
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


class PortRelay(socketserver.BaseRequestHandler):
    """Passes one connection on to a container, both ways, until both sides have ended."""

    server: Relays

    def handle(self) -> None:
        """Pass the connection on. A container that is not there is a closed connection."""
        try:
            target = socket.create_connection(self.server.target, timeout=_ANSWER_S)
        except OSError:
            return
        with target:
            target.settimeout(None)
            back = threading.Thread(target=_copy, args=(target, self.request), daemon=True)
            back.start()
            _copy(self.request, target)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Relays(socketserver.ThreadingTCPServer):
    """Listens at one of the company's ports."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, target: tuple[str, int]) -> None:
        super().__init__(("", port), PortRelay)
        self.target = target


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        ControlHandler.health = json.loads(sys.argv[2])
        for port, (host, inside) in json.loads(sys.argv[3]).items():
            threading.Thread(target=Relays(int(port), (host, inside)).serve_forever, daemon=True).start()
        ThreadingHTTPServer(("", PORT), ControlHandler).serve_forever()
    found = wait(float(sys.argv[2]), sys.argv[3:])
    sys.stdout.write(found or "")
    sys.exit(1 if found else 0)
