"""Runs an agent that speaks ACP, in its sandbox: ``python3 acp_host.py SESSION.json COMMAND…``.

It opens one session, sends a prompt, and prints what the agent says. When a turn has ended, our server says whether
the user goes on. What the agent asks its client goes to our server, which decides. It needs only Python in the sandbox.
That the turn has ended is told to the server, too: a host that ends without it was killed.

OpenCode does not put its questions into ACP, but lists them over HTTP. An argument ``@PORT`` of the command becomes a
free port, and what the agent lists there goes to our server as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Any

METHOD_NOT_FOUND = -32601
SECONDS_TO_LEAVE = 2.0
SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_TO_LIST = 5.0
PORT = "@PORT"


class AgentError(Exception):
    """The agent answered one of our requests with an error, or ended without an answer."""


class Host:
    """One agent, and the requests that are open on either side.

    ``session`` has the URL and token of our server, and what the agent is told: the capabilities of its client, the
    work directory, the MCP servers, the mode and the prompt.
    """

    def __init__(self, session: dict[str, Any], command: list[str]) -> None:
        """Start the agent in a process group of its own, because some adapters outlive their launcher."""
        self.session = session
        self.lock = threading.Lock()
        self.count = 0
        self.questions = ""
        if PORT in command:
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = str(free.getsockname()[1])
            self.questions = "http://127.0.0.1:" + port + "/question"
            command = [port if each == PORT else each for each in command]
        self.agent = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, cwd=session["cwd"]
        )

    def run(self) -> int:
        """Return the exit code: 0 if the agent ended its turn."""
        problem = None
        try:
            self.prompt()
        except (AgentError, OSError) as error:
            problem = str(error)
        code = self.leave() if problem else 0
        self.serve({"method": "host/ended", "params": {"problem": problem}})
        if problem is None:
            self.leave()
            return 0
        sys.stderr.write("the agent failed: " + problem + "\n")
        return code or 1

    def prompt(self) -> None:
        """Open a session and send the prompt, and then what the user says at the end of each turn."""
        client = {"name": "lhaw-record", "version": "1"}
        capabilities = self.session["capabilities"]
        self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": client})
        opened = self.ask("session/new", {"cwd": self.session["cwd"], "mcpServers": self.session["mcp_servers"]})
        session = {"sessionId": opened["sessionId"]}
        if self.questions:  # one that is asked before its session is open may never answer
            threading.Thread(target=self.look, daemon=True).start()
        if self.session["mode"]:
            self.ask("session/set_mode", {**session, "modeId": self.session["mode"]})
        text = self.session["prompt"]
        while text:
            ended = self.ask("session/prompt", {**session, "prompt": [{"type": "text", "text": text}]})
            is_done = ended.get("stopReason", "end_turn") != "end_turn"
            said = {} if is_done else self.serve({"method": "host/turn_ended", "params": {}})
            text = (said.get("result") or {}).get("prompt")

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result. Messages that arrive before it are handled."""
        self.count += 1
        self.send({"id": self.count, "method": method, "params": params})
        assert self.agent.stdout is not None
        for line in self.agent.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                sys.stderr.write(line.decode("utf-8", "replace"))  # adapters log where they must not
                continue
            if not isinstance(message, dict):
                continue
            if "method" in message and "id" in message:  # it may take long, and further messages come meanwhile
                reply = partial(self.reply, message["id"])
                threading.Thread(target=self.answer, args=(message, reply), daemon=True).start()
            elif "method" in message:
                self.show(message.get("params") or {})
            elif message.get("id") == self.count:
                if "error" in message:
                    raise AgentError(method + ": " + json.dumps(message["error"]))
                return message.get("result") or {}
        raise AgentError("it ended during " + method)

    def look(self) -> None:
        """Pass on what the agent lists as open questions."""
        query, seen = "?" + urllib.parse.urlencode({"directory": self.session["cwd"]}), set()
        while True:
            with contextlib.suppress(OSError, ValueError):  # it has ended, which its output says
                for each in self.fetch(self.questions + query, timeout_s=SECONDS_TO_LIST):
                    if each["id"] not in seen:
                        seen.add(each["id"])
                        message = {"method": "host/question", "params": each}
                        reply = partial(self.reply_listed, self.questions + "/" + each["id"], query)
                        threading.Thread(target=self.answer, args=(message, reply), daemon=True).start()
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def reply_listed(self, url: str, query: str, answer: dict[str, Any]) -> None:
        """Answer a listed question, or reject it."""
        answers = (answer.get("result") or {}).get("answers")
        self.fetch(url + ("/reject" if answers is None else "/reply") + query, {"answers": answers})

    def reply(self, request_id: Any, answer: dict[str, Any]) -> None:
        """Answer a request of ACP."""
        self.send({"id": request_id, **answer})

    def answer(self, message: dict[str, Any], reply: Callable[[dict[str, Any]], None]) -> None:
        """Answer a request of the agent with what our server says. Without the server, the trial is over."""
        try:
            answer = self.serve({"method": message["method"], "params": message.get("params") or {}})
        except (OSError, ValueError) as error:
            sys.stderr.write("our server cannot be reached: " + str(error) + "\n")
            sys.stderr.flush()
            os.killpg(self.agent.pid, signal.SIGKILL)
            os._exit(70)
        with contextlib.suppress(OSError):  # the agent has ended, which its output says
            reply(answer)

    def serve(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return what our server answers to a message: a result or an error."""
        answer: dict[str, Any] = self.fetch(self.session["url"], message, "Bearer " + self.session["token"])
        return answer

    def fetch(self, url: str, body: Any = None, authorization: str = "", timeout_s: float | None = None) -> Any:
        """Get what a server in our network says, or post a body to it."""
        headers = {"Content-Type": "application/json", "Authorization": authorization}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {key: headers[key] for key in headers if headers[key]})  # noqa: S310
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=timeout_s) as response:
            return json.loads(response.read())

    def send(self, message: dict[str, Any]) -> None:
        """Write one message to the agent."""
        assert self.agent.stdin is not None
        with self.lock:
            self.agent.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self.agent.stdin.flush()

    def show(self, params: dict[str, Any]) -> None:
        """Print the agent's own words."""
        update = params.get("update") or {}
        if update.get("sessionUpdate") == "agent_message_chunk" and isinstance(update.get("content"), dict):
            sys.stdout.write(str(update["content"].get("text") or ""))
            sys.stdout.flush()

    def leave(self) -> int:
        """End the agent, and return the exit code that it had by itself, or 0."""
        assert self.agent.stdin is not None
        try:
            self.agent.stdin.close()
            code = self.agent.wait(SECONDS_TO_LEAVE)
        except (OSError, subprocess.TimeoutExpired):
            code = 0
        with contextlib.suppress(OSError):  # nothing of it is left
            os.killpg(self.agent.pid, signal.SIGKILL)
        return code if code >= 0 else 128 - code


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123 - it imports as little as it can
        SESSION = json.load(file)
    sys.exit(Host(SESSION, sys.argv[2:]).run())
