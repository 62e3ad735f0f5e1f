"""Serve a model to evaluators, by passing each request on as a line. Runs in containers (Python 3.9 or newer).

``KEY`` is the argument: requests without it as their bearer token are refused. The first line printed is the port, on
loopback. Then every request is a line ``{"id": N, "body": {…}}`` on standard output, and its answer a line ``{"id": N,
"status": 200, "body": {…}}`` on standard input. A request that is too large has no body there. The program ends with
its input.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import secrets
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

_MAX_BODY_BYTES = 4 << 20  # the container has 128 MB, for several copies of each


class Route(BaseHTTPRequestHandler):
    """Answers ``POST …/chat/completions``, as OpenAI's API does."""

    protocol_version = "HTTP/1.1"
    key: ClassVar[str] = ""
    numbers: ClassVar[Any] = itertools.count(1)
    waiting: ClassVar[dict[int, queue.Queue[dict[str, Any]]]] = {}
    turn: ClassVar[threading.Lock] = threading.Lock()

    def do_POST(self) -> None:
        """Pass a request on, and wait for its answer."""
        length = int(self.headers.get("Content-Length") or 0)
        self.close_connection = length > _MAX_BODY_BYTES
        body = b"null" if self.close_connection else self.rfile.read(length)
        if not secrets.compare_digest(self.headers.get("Authorization", ""), "Bearer " + self.key):
            self._answer(401, {"error": {"message": "the key is not this trial's"}})
        elif not self.path.endswith("/chat/completions"):
            self._answer(404, {"error": {"message": "only /chat/completions is served here"}})
        else:
            try:
                asked = json.loads(body)
            except ValueError:
                self._answer(400, {"error": {"message": "the request is not JSON"}})
                return
            answers: queue.Queue[dict[str, Any]] = queue.Queue()
            number = next(self.numbers)
            self.waiting[number] = answers
            with self.turn:
                sys.stdout.write(json.dumps({"id": number, "body": asked}) + "\n")
                sys.stdout.flush()
            answer = answers.get()
            self._answer(answer["status"], answer["body"])

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


if __name__ == "__main__":
    Route.key = sys.argv[1]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Route)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        given = json.loads(line)
        Route.waiting.pop(given["id"]).put(given)
    os._exit(0)
