"""Plays the part of a real program from kept bytes: ``python3 replayed_program.py CASE BASE_URL TOKEN [PORT]``.

It sends what the program sent, in that order, to the gateway, to the MCP server and to its ACP client, and waits for
each answer before it goes on. It runs the commands that the model now says. A program that is resumed goes on where it
ended. ``{prompt}`` in a case is the trial's prompt.
"""

# ruff: noqa: T201 - it prints

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

CASE, BASE_URL, TOKEN = sys.argv[1:4]
CONVERSATION = {"/v1/chat/completions": "messages", "/v1/responses": "input", "/v1/messages": "messages"}
STATE = Path(os.environ["HOME"], "replayed.json")


class Host:
    """The messages of an ACP client, by what they answer, and its requests in order."""

    def __init__(self):
        self.requests, self.answers, self.changed = [], {}, threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in sys.stdin:
            message = json.loads(line)
            with self.changed:
                if "method" in message:
                    self.requests.append(message)
                else:
                    self.answers[message["id"]] = message
                self.changed.notify_all()

    def wait(self, is_there):
        with self.changed:
            self.changed.wait_for(is_there)


class Program:
    """A case that is being played."""

    def __init__(self, steps):
        self.steps, self.bodies, self.session, self.answered = steps, {}, {}, 0
        self.host = Host() if any("says" in step for step in steps) else None
        self.begin, self.prompt = json.loads(STATE.read_text()) if STATE.exists() else (0, "")
        if self.host is None and not self.begin:
            self.prompt = sys.stdin.read()

    def play(self):
        """Take the steps up to the next end of the program."""
        for at, step in enumerate(self.steps):
            if "post" in step and step["post"] in CONVERSATION:
                self.bodies[at] = self.body(step)
            if at < self.begin:
                continue
            if "ends" in step:
                STATE.write_text(json.dumps([at + 1, self.prompt]))
                return
            if self.host is not None and any("result" in later.get("says", ()) for later in self.steps[at:]):
                self.host.wait(lambda: len(self.host.requests) > self.answered)
                self.prompt = self.prompt or self.host.requests[-1]["params"].get("prompt", [{"text": ""}])[0]["text"]
            self.take(at, step)

    def take(self, at, step):
        """Take one step."""
        if "lists" in step:
            listed(step["lists"], int(sys.argv[-1]))
        elif "says" in step:
            self.say(step["says"])
        elif step["post"] in CONVERSATION:
            for arguments in called(self.post(step, self.bodies[at])):
                given = json.loads(arguments or "{}")
                if command := given.get("command") or given.get("cmd"):
                    subprocess.run(["bash", "-c", command], check=False, capture_output=True)
        else:
            self.post(step, step["body"])

    def body(self, step):
        """Return the whole body of a model call, of which a case has what is new."""
        name = CONVERSATION[step["post"]]
        before = self.bodies.get(step.get("like"), {name: []})
        return {**before, **step.get("body", {}), name: [*before[name][: step.get("kept")], *step[name]]}

    def post(self, step, body):
        """Send a request and return what comes back."""
        text = json.dumps(body).replace("{prompt}", json.dumps(self.prompt)[1:-1])
        headers = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}", **step.get("headers", {})}
        url = BASE_URL + step["post"] + ("?" + step["query"] if "query" in step else "")
        with urllib.request.urlopen(urllib.request.Request(url, text.encode(), headers | self.session)) as response:
            if session := response.headers.get("mcp-session-id"):
                self.session = {"mcp-session-id": session}
            return response.read().decode()

    def say(self, message):
        """Write a message, a result as that of the client's request, and wait for the answer to a request."""
        if "result" in message:
            message = {**message, "id": self.host.requests[self.answered]["id"]}
            self.answered += 1
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
        if "method" in message and "id" in message:
            self.host.wait(lambda: message["id"] in self.host.answers)


def called(stream):
    """Return the arguments of the calls in a streamed reply, whatever its wire."""
    pieces = defaultdict(str)
    for event in (json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")):
        for choice in event.get("choices") or ():
            for call in choice["delta"].get("tool_calls") or ():
                pieces[call["index"]] += call["function"].get("arguments") or ""
        if event.get("type") == "content_block_delta":
            pieces[event["index"]] += event["delta"].get("partial_json", "")
        if event.get("type") == "response.completed":
            pieces.update({item["id"]: item.get("arguments", "") for item in event["response"]["output"]})
    return pieces.values()


def listed(question, port):
    """List an open question at a port until it is answered there."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.respond([question])

        def do_POST(self):
            self.respond(True)
            server.is_answered = True

        def respond(self, value):
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", port), Handler)
    server.is_answered = False
    while not server.is_answered:
        server.handle_request()


if __name__ == "__main__":
    program = Program([json.loads(line) for line in Path(CASE).read_text().splitlines()[1:]])
    program.play()
    if program.host is not None:
        program.host.reader.join()  # until its client ends it
