"""A way to a server of S3 on which every request fails twice: refused undone, and done but answered with an error."""

import http.client
import http.server
import threading
from collections import Counter

_NOT_HANDED_ON = ("content-length", "transfer-encoding", "connection", "server", "date")
_REFUSED = b"<Error><Code>SlowDown</Code><Message>slow</Message></Error>"
_LOST = b"<Error><Code>InternalError</Code><Message>lost</Message></Error>"


class FailingWay(http.server.ThreadingHTTPServer):
    """Listens on ``server_port`` of this host, hands on to another one, and counts the ``answers`` by their status."""

    daemon_threads = True

    def __init__(self, target):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.asked, self.answers = Counter(), Counter()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Stay silent."""

    def answer(self):
        """Refuse the first request of its kind, lose the answer of the second, and answer the third."""
        body = self._body()
        self.server.asked[self.command, self.path] += 1
        turn = self.server.asked[self.command, self.path] % 3
        if turn == 1:
            self._reply(503, {}, _REFUSED)
            return
        status, headers, content = self._done(body)
        if turn == 2:
            self._reply(500, {}, _LOST)
        else:
            self._reply(status, headers, content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815

    def _body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _done(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.target)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _NOT_HANDED_ON:
                connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        done = connection.getresponse()
        content = done.read()
        connection.close()
        headers = {name: value for name, value in done.getheaders() if name.lower() not in _NOT_HANDED_ON}
        if self.command == "HEAD":
            headers["Content-Length"] = done.getheader("content-length") or "0"
        return done.status, headers, content

    def _reply(self, status, headers, body):
        self.server.answers[status] += 1
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
