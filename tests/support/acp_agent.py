"""A small agent that speaks ACP on stdio: its turn is a program of the test's own, in which ``ask`` asks the client.

``python3 acp_agent.py BASE_URL TOKEN SOURCE``: the source sees ``work``, ``think`` and ``act`` (the model over chat
completions), ``elicit``, ``permit`` and ``say`` (the client), and ``MCP`` (the servers of its session).
"""

# ruff: noqa: T201 - it prints, and its model is our gateway

import json
import sys
import threading
import urllib.request

BASE_URL, TOKEN, SOURCE = sys.argv[1:4]
OWN_TOOL = {
    "type": "function",
    "function": {
        "name": "AskUserQuestion",
        "description": "Ask your user.",
        "parameters": {"type": "object", "properties": {"questions": {"type": "array"}}, "required": ["questions"]},
    },
}
SHELL = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


class Agent:
    """The agent's side of one session."""

    def __init__(self):
        self.prompt, self.session, self.mode, self.mcp, self.has_forms = "", "s1", "default", [], False
        self.history, self.count, self.replies = [], 100, {}

    def serve(self):
        """Answer the client until it closes our standard input."""
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                got, arrived = self.replies.pop(message["id"])
                got.append(message)
                arrived.set()
                continue
            method, params = message["method"], message["params"]
            if method == "session/prompt":
                threading.Thread(target=self.turn, args=(message["id"], params), daemon=True).start()
                continue
            if method == "initialize":
                self.has_forms = "form" in params["clientCapabilities"].get("elicitation", {})
            if method == "session/new":
                self.mcp = params["mcpServers"]
            if method == "session/set_mode":
                self.mode = params["modeId"]
            self.send(id=message["id"], result={"sessionId": self.session, "protocolVersion": 1})

    def turn(self, message_id, params):
        """Run the test's source as the turn."""
        self.prompt = params["prompt"][0]["text"]
        self.history.append({"role": "user", "content": self.prompt})
        names = {name: getattr(self, name) for name in ("think", "work", "elicit", "permit", "say", "act")}
        exec(SOURCE, {**names, "AGENT": self, "MCP": self.mcp})
        self.send(id=message_id, result={"stopReason": "end_turn"})

    def think(self):
        """Ask the model for its next turn, and return its calls by name."""
        tools = [SHELL, *([OWN_TOOL] if self.has_forms else [])]
        body = {"model": "m", "messages": self.history, "tools": tools}
        headers = {"content-type": "application/json", "authorization": "Bearer " + TOKEN}
        request = urllib.request.Request(BASE_URL + "/v1/chat/completions", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=600) as response:
            message = json.loads(response.read())["choices"][0]["message"]
        self.history.append(message)
        return [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]

    def act(self, call_id, text):
        """Give the model the result of a call."""
        self.history.append({"role": "tool", "tool_call_id": call_id, "content": text})

    def work(self, turns):
        """Let the model act so often; what it asks is elicited."""
        for _ in range(turns):
            for call_id, function in self.think():
                is_question = function["name"] == "AskUserQuestion"
                arguments = json.loads(function["arguments"])
                self.act(call_id, json.dumps(self.elicit(arguments["questions"], call_id)) if is_question else "done")

    def elicit(self, questions, call_id=None):
        """Show a form as Claude's adapter does, and return the client's answer."""
        properties = {}
        for index, each in enumerate(questions):
            options = [{"const": option["label"], "title": option["label"]} for option in each["options"]]
            text = each["question"] if len(questions) > 1 else None
            properties[f"question_{index}"] = {
                "type": "string",
                "title": "Detail",
                "description": text,
                "oneOf": options,
            }
            properties[f"question_{index}_custom"] = {"type": "string", "title": "Other"}
        message = questions[0]["question"] if len(questions) == 1 else "Please answer the following questions."
        schema = {"type": "object", "properties": properties}
        form = {"mode": "form", "sessionId": self.session, "message": message, "requestedSchema": schema}
        return self.ask("elicitation/create", {**form, **({"toolCallId": call_id} if call_id else {})})

    def permit(self, title):
        """Ask for leave, and return the chosen option."""
        options = [
            {"optionId": f"o-{kind}", "name": kind, "kind": kind}
            for kind in ("reject_once", "allow_always", "allow_once")
        ]
        tool = {"toolCallId": "c1", "title": title}
        params = {"sessionId": self.session, "toolCall": tool, "options": options}
        return self.ask("session/request_permission", params)["result"]["outcome"]

    def say(self, text):
        """Say something to the user."""
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        self.send(method="session/update", params={"sessionId": self.session, "update": update})

    def ask(self, method, params):
        """Send a request to the client and return its answer."""
        self.count += 1
        got, arrived = self.replies[self.count] = [], threading.Event()
        self.send(id=self.count, method=method, params=params)
        arrived.wait()
        return got[0]

    def send(self, **message):
        """Write one message."""
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    Agent().serve()
