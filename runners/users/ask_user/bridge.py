"""A stdio MCP server that forwards to an MCP server over HTTP: ``python3 bridge.py URL [TOKEN [ATTEMPTS]]``.

It is for clients that only speak stdio, and needs only Python in the sandbox. If a connection breaks, the bridge sends
the request again. Our server recognises the repeated request by its id, so the user is not asked twice. For other
servers, set ATTEMPTS to 1.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit

ATTEMPTS = 4
PAUSE_S = 0.5
SECONDS_FOR_THE_LAST = 2.0
_VERSION = "io.modelcontextprotocol/protocolVersion"


class Rejected(Exception):
    """The server rejects a message, and a retry would not help."""


class Bridge:
    """Connects one stdio client to one session of the HTTP server."""

    def __init__(self, url: str, token: str, attempts: int = ATTEMPTS) -> None:
        """Prepare a bridge without connecting yet."""
        self._attempts = attempts
        self._url = urlsplit(url)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if token:
            self._headers["Authorization"] = "Bearer " + token
        self._lock = threading.Lock()
        self._open: dict[str, http.client.HTTPConnection] = {}
        self._given_up: set[str] = set()

    def run(self) -> None:
        """Forward messages until standard input ends, then wait up to two seconds for pending requests."""
        threads: list[threading.Thread] = []
        for line in sys.stdin.buffer:
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except ValueError:
                self._tell({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "this is not JSON"}})
                continue
            if self._must_wait(message):  # later messages need the session that this one opens, or must come after it
                self._pass_on(message)
            else:
                thread = threading.Thread(target=self._pass_on, args=(message,), daemon=True)
                thread.start()
                threads = [each for each in threads if each.is_alive()] + [thread]
        until = time.monotonic() + SECONDS_FOR_THE_LAST
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._leave()

    def _must_wait(self, message: Any) -> bool:
        return not isinstance(message, dict) or "id" not in message or message.get("method") == "initialize"

    def _pass_on(self, message: Any) -> None:
        """Send one message and write the response. Every uncancelled request gets a response or an error."""
        single = message if isinstance(message, dict) else {}
        request = json.dumps(single.get("id")) if "id" in single and "method" in single else None
        if single.get("method") == "notifications/cancelled" and self._cancelled(single):
            return
        problem = ""
        for attempt in range(self._attempts):
            if attempt:
                time.sleep(PAUSE_S * attempt)
            try:
                if request is not None and request in self._given_up:
                    return
                if self._sent(message, single, request):
                    return
                problem = "the connection ended before the answer"
            except Rejected as refusal:
                problem = str(refusal)
                break
            except (OSError, http.client.HTTPException) as broken:
                problem = type(broken).__name__ + ": " + str(broken)
        if request is not None and request not in self._given_up:
            error = {"code": -32603, "message": "the MCP server cannot be reached: " + problem}
            self._tell({"jsonrpc": "2.0", "id": single["id"], "error": error})

    def _sent(self, message: Any, single: dict[str, Any], request: str | None) -> bool:
        """Send a message once. Return whether it was answered or accepted, so that no retry is needed."""
        connection = self._connection()
        try:
            if request is not None:
                self._open[request] = connection
            connection.request("POST", self._target(), json.dumps(message).encode(), self._headers_of(single))
            response = connection.getresponse()
            session = response.getheader("Mcp-Session-Id")
            if session:
                self._headers["Mcp-Session-Id"] = session
            if (response.getheader("Content-Type") or "").startswith("text/event-stream"):
                is_told = request is None
                for data in _events(response):
                    is_told = self._told(data, request) or is_told
                return is_told
            body = response.read()
            if response.status >= 400 and not _is_reply(body, request):
                may_pass = response.status >= 500
                raise (http.client.HTTPException if may_pass else Rejected)("HTTP status " + str(response.status))
            if body.strip():
                self._told(body, request)
            return True
        finally:
            self._open.pop(request or "", None)
            connection.close()

    def _told(self, data: bytes, request: str | None) -> bool:
        """Write a message from the server. Return whether the message is the reply to this request."""
        message = json.loads(data)
        for each in message if isinstance(message, list) else [message]:
            result = each.get("result")
            if isinstance(result, dict) and "protocolVersion" in result:
                self._headers["Mcp-Protocol-Version"] = result["protocolVersion"]
        if request is None or request not in self._given_up:
            self._tell(message)
        return isinstance(message, dict) and "method" not in message and json.dumps(message.get("id")) == request

    def _tell(self, message: Any) -> None:
        with self._lock:
            sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
            sys.stdout.buffer.flush()

    def _cancelled(self, notification: dict[str, Any]) -> bool:
        """Abandon a request. Return whether the notification can be dropped because no session is open."""
        request = json.dumps((notification.get("params") or {}).get("requestId"))
        self._given_up.add(request)
        connection = self._open.get(request)
        if connection is not None and connection.sock is not None:
            connection.sock.close()
        return "Mcp-Session-Id" not in self._headers

    def _headers_of(self, single: dict[str, Any]) -> dict[str, str]:
        """Return the headers for a message, which repeat fields of the message since protocol version 2026-07-28."""
        headers = dict(self._headers)
        params = single.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        version = meta.get(_VERSION) if isinstance(meta, dict) else None
        if isinstance(version, str) and isinstance(params, dict):
            headers["Mcp-Protocol-Version"] = version
            headers["Mcp-Method"] = str(single.get("method"))
            name = params.get("name") or params.get("uri")
            if isinstance(name, str) and name.isascii() and name.isprintable():
                headers["Mcp-Name"] = name
        return headers

    def _connection(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        return kind(self._url.hostname or "", self._url.port)

    def _target(self) -> str:
        return (self._url.path or "/") + ("?" + self._url.query if self._url.query else "")

    def _leave(self) -> None:
        if "Mcp-Session-Id" not in self._headers:
            return
        connection = self._connection()
        connection.timeout = 1.0
        try:
            connection.request("DELETE", self._target(), headers=self._headers)
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            pass  # the session is over in any case
        finally:
            connection.close()


def _events(response: http.client.HTTPResponse) -> Any:
    """Yield the data of each event in a response stream as it arrives."""
    data = b""
    while True:
        line = response.readline()
        if not line:
            return
        line = line.rstrip(b"\r\n")
        if line.startswith(b"data:"):
            data += line[5:].lstrip(b" ")
        elif not line and data:
            yield data
            data = b""


def _is_reply(body: bytes, request: str | None) -> bool:
    """Return whether the body of an error response is the JSON-RPC reply to a request."""
    try:
        message = json.loads(body)
    except ValueError:
        return False
    return isinstance(message, dict) and "error" in message and json.dumps(message.get("id")) == request


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit("usage: python3 bridge.py URL [TOKEN [ATTEMPTS]]")
    Bridge(sys.argv[1], "".join(sys.argv[2:3]), int("".join(sys.argv[3:]) or ATTEMPTS)).run()
