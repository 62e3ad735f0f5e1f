"""A stand-in of the published container: the same interface over HTTP, with three small servers. Runs in containers.

Written from ``services/agent-environment`` of MCP-Atlas: what each address answers, how errors are worded, that a lone
server's tools are listed without its name, that a success of some servers is answered again from memory, and that a
server that has died is not online.
"""

import json
import os
import pathlib
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = {
    "calculator": ["calculate"],
    "filesystem": ["read_file", "write_file"],
    "memory": ["die", "slow", "eat", "empty", "two", "picture"],
    "git": ["git_log"],
}
CACHED = ("calculator", "memory")


class World(BaseHTTPRequestHandler):
    """Answers as the published server does."""

    enabled = os.environ.get("ENABLED_SERVERS", "calculator,filesystem,memory").split(",")
    dead: ClassVar = set()
    cache: ClassVar = {}

    def names(self):
        """Return the listed tools by name: server and tool."""
        online = [name for name in self.enabled if name in TOOLS and name not in self.dead]
        prefix = "{}_" if len(self.enabled) > 1 else ""
        return {prefix.format(name) + tool: (name, tool) for name in online for tool in TOOLS[name]}

    def do_GET(self):
        """Answer a request for the state."""
        if self.path == "/":
            self.answer({"message": "MCP Agent Environment API"})
        elif self.path == "/enabled-servers":
            online = {name.split("_")[0] for name in self.names() if "_" in name}
            states = [[name, "OK" if name in online else "ERROR_NOT_ONLINE"] for name in sorted(self.enabled)]
            counts = {"total": len(states), "online": len(online), "offline": len(states) - len(online)}
            self.answer({"servers": states, **counts})
        elif self.path == "/environment":  # of ours: what the container was given
            self.answer(dict(os.environ))
        else:
            self.answer({"detail": "Not Found"}, 404)

    def do_POST(self):
        """Answer a request for tools."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/list-tools":
            about = {"title": None, "description": "", "inputSchema": TEXT, "annotations": None, "_meta": None}
            self.answer([{"name": name, **about, "outputSchema": {"type": "string"}} for name in self.names()])
        elif self.path == "/call-tool":
            self.call(json.loads(body))
        else:
            self.answer({"detail": "Not Found"}, 404)

    def call(self, asked):
        """Call a tool."""
        name, arguments = asked["tool_name"], asked["tool_args"]
        key = json.dumps([name, arguments], sort_keys=True)
        if key in self.cache:
            self.answer(self.cache[key])
            return
        server, tool = self.names().get(name, ("", "unknown"))
        try:
            content = getattr(self, "tool_" + tool)(server, **arguments)
        except (ValueError, OSError, TypeError) as error:
            self.answer({"detail": f"Failed to call tool '{name}': {error}"}, 500)
            return
        if server in CACHED:
            self.cache[key] = content
        self.answer(content)

    def tool_unknown(self, *_, **__):
        """Refuse."""
        raise ValueError("Unknown tool")

    def tool_calculate(self, _, expression):
        """Multiply or divide two numbers."""
        sign = "*" if "*" in expression else "/"
        left, right = (float(number) for number in expression.split(sign))
        if sign == "/" and not right:
            raise ValueError("Error executing tool calculate: division by zero")
        return text(f"{left * right if sign == '*' else left / right:g}")

    def tool_read_file(self, _, path):
        """Return a file's text."""
        return text(pathlib.Path(path).read_text())

    def tool_write_file(self, _, path, content):
        """Write a file."""
        pathlib.Path(path).write_text(content)
        return text(f"Successfully wrote to {path}")

    def tool_die(self, server):
        """End the server."""
        self.dead.add(server)
        raise ValueError("Connection closed")

    def tool_slow(self, _):
        """Give no answer."""
        time.sleep(3600)

    def tool_eat(self, _):
        """Take all memory."""
        return text(str(len(bytearray(1 << 34))))

    def tool_empty(self, _):
        """Return nothing."""
        return text("")

    def tool_two(self, _):
        """Return two texts."""
        return text("a") + text("b")

    def tool_picture(self, _):
        """Return no text."""
        return [{"type": "image", "data": "", "mimeType": "image/png", "annotations": None, "_meta": None}]

    def tool_git_log(self, _):
        """Return a log."""
        return text("Commit 1")

    def answer(self, content, status=200):
        """Send JSON."""
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Stay silent."""


def text(words):
    """Return a content block."""
    return [{"type": "text", "text": words, "annotations": None, "_meta": None}]


if __name__ == "__main__":
    port, how = int(sys.argv[1]), sys.argv[2:]
    if how == ["hangs"]:
        time.sleep(3600)
    if how == ["ends"]:
        sys.exit("no server could be started")
    World.dead.update(how)  # these have never started
    pathlib.Path("/data").mkdir(exist_ok=True)
    ThreadingHTTPServer(("0.0.0.0", port), World).serve_forever()
