"""An agent of two pages that knows nothing of us and needs nothing but Python: three wires, a few tools, MCP over HTTP.

``python3 tiny_agent.py --wire chat --base-url http://HOST/t/KEY --token TOKEN <prompt`` works on the files of the
current directory until its model calls ``submit`` or says something without calling a tool, and prints that answer.
"""

# ruff: noqa: BLE001, PTH103, PTH120, PTH123, SIM115, T201 - it prints, and imports as little as it can

import argparse
import ast
import contextlib
import io
import json
import os
import subprocess
import sys
import traceback
import urllib.request

TOOLS = {
    "bash": {"command": "a command"},
    "python": {"code": "some code"},
    "read_file": {"path": "a path"},
    "write_file": {"path": "a path", "content": "the content"},
    "submit": {"answer": "the answer"},
}


class Chat:
    """Speaks chat completions."""

    path = "/v1/chat/completions"

    def __init__(self, prompt):
        self.history = [{"role": "user", "content": prompt}]

    def body(self, tools):
        """The next request."""
        return {"messages": self.history, "tools": [{"type": "function", "function": tool} for tool in tools]}

    def take(self, reply):
        """Remember a reply; its text and its calls."""
        message = reply["choices"][0]["message"]
        self.history.append(message)
        calls = [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
        return message.get("content") or "", [(i, each["name"], json.loads(each["arguments"])) for i, each in calls]

    def add(self, call_id, text):
        """Remember a result."""
        self.history.append({"role": "tool", "tool_call_id": call_id, "content": text})


class Responses:
    """Speaks Responses."""

    path = "/v1/responses"

    def __init__(self, prompt):
        self.history = [{"role": "user", "content": prompt}]

    def body(self, tools):
        """The next request."""
        return {"input": self.history, "tools": [{"type": "function", **tool} for tool in tools]}

    def take(self, reply):
        """Remember a reply; its text and its calls."""
        self.history.extend(reply["output"])
        calls = [item for item in reply["output"] if item["type"] == "function_call"]
        parts = [part for item in reply["output"] if item["type"] == "message" for part in item["content"]]
        text = "".join(part["text"] for part in parts)
        return text, [(call["call_id"], call["name"], json.loads(call["arguments"])) for call in calls]

    def add(self, call_id, text):
        """Remember a result."""
        self.history.append({"type": "function_call_output", "call_id": call_id, "output": text})


class Messages:
    """Speaks Anthropic's Messages."""

    path = "/v1/messages"

    def __init__(self, prompt):
        self.history = [{"role": "user", "content": prompt}]

    def body(self, tools):
        """The next request."""
        offered = [{"name": t["name"], "description": t["description"], "input_schema": t["parameters"]} for t in tools]
        return {"messages": self.history, "max_tokens": 4096, "tools": offered}

    def take(self, reply):
        """Remember a reply; its text and its calls."""
        self.history.append({"role": "assistant", "content": reply["content"]})
        text = "".join(block["text"] for block in reply["content"] if block["type"] == "text")
        return text, [(b["id"], b["name"], b["input"]) for b in reply["content"] if b["type"] == "tool_use"]

    def add(self, call_id, text):
        """Remember a result."""
        if self.history[-1]["role"] == "assistant":
            self.history.append({"role": "user", "content": []})
        self.history[-1]["content"].append({"type": "tool_result", "tool_use_id": call_id, "content": text})


WIRES = {"chat": Chat, "responses": Responses, "messages": Messages}


class Mcp:
    """A client of one MCP server over HTTP."""

    def __init__(self, url, headers):
        self.url, self.headers, self.count = url, dict(headers), 0
        client = {"name": "tiny", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self.ask("notifications/initialized", {}, is_notification=True)

    def ask(self, method, params, *, is_notification=False):
        """Send a request and return its result."""
        self.count += 1
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if not is_notification:
            message["id"] = self.count
        accept = {"accept": "application/json, text/event-stream"}
        response, text = post(self.url, message, {**self.headers, **accept})
        session = response.headers.get("mcp-session-id")
        if session:
            self.headers["mcp-session-id"] = session
        lines = [line[5:] for line in text.splitlines() if line.startswith("data:")] or [text]
        found = [json.loads(line) for line in lines if line.strip()]
        return next((each["result"] for each in found if "result" in each), None)

    def tools(self):
        """The tools it offers, as functions."""
        listed = self.ask("tools/list", {})["tools"]
        return [{"name": t["name"], "description": t["description"], "parameters": t["inputSchema"]} for t in listed]

    def call(self, name, arguments):
        """Call a tool and return its text."""
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        return "\n".join(part["text"] for part in result["content"])


class Hands:
    """Executes tools in the current directory."""

    def __init__(self, mcp):
        self.mcp, self.names = mcp, {"__name__": "cell"}

    def do(self, name, arguments):
        """Execute a tool."""
        method = getattr(self, name, None)
        return method(**arguments) if method else self.mcp.call(name, arguments)

    def bash(self, command):
        """Run a command."""
        done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return (done.stdout + done.stderr).decode() + (f"[exit code {done.returncode}]" if done.returncode else "")

    def python(self, code):
        """Run code; a last expression is printed."""
        out = io.StringIO()
        tree = ast.parse(code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(out):
            try:
                exec(compile(tree, "<cell>", "exec"), self.names)
                value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), self.names) if last else None
                if value is not None:
                    print(repr(value))
            except Exception:
                print(traceback.format_exc(limit=-1))
        return out.getvalue()

    def read_file(self, path):
        """Return a file."""
        with open(path) as file:
            return file.read()

    def write_file(self, path, content):
        """Write a file."""
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w") as file:
            file.write(content)
        return f"Wrote {len(content.encode())} bytes to {path}."


def post(url, body, headers):
    """Send JSON and return the answer and its text."""
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json", **headers}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        return response, response.read().decode()


def tool(name, properties):
    """A function as models are told it."""
    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "description": text} for key, text in properties.items()},
    }
    return {"name": name, "description": name, "parameters": {**schema, "required": list(properties)}}


def main():
    """Work until the end and print the answer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--wire", choices=WIRES, required=True)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--token", default=os.environ.get("TINY_TOKEN", ""))
    parser.add_argument("--mcp-config")
    parser.add_argument("--prompt-file")
    options = parser.parse_args()
    prompt = open(options.prompt_file).read() if options.prompt_file else sys.stdin.read()
    servers = json.load(open(options.mcp_config))["mcpServers"] if options.mcp_config else {}
    mcp = Mcp(servers["user"]["url"], servers["user"]["headers"]) if servers else None
    wire, hands = WIRES[options.wire](prompt), Hands(mcp)
    tools = [tool(name, properties) for name, properties in TOOLS.items()] + (mcp.tools() if mcp else [])
    headers = {"authorization": f"Bearer {options.token}"}
    while True:
        body = {"model": "some-model", **wire.body(tools)}
        text, calls = wire.take(json.loads(post(options.base_url + wire.path, body, headers)[1]))
        if not calls:
            print(text)
            return
        for call_id, name, arguments in calls:
            if name == "submit":
                print(arguments["answer"])
                return
            wire.add(call_id, hands.do(name, arguments))


if __name__ == "__main__":
    main()
