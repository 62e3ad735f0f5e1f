"""Agents of half a page that know nothing of us, one for each wire: they keep their own history and run tools."""

import json
from typing import Any


class TinyAgent:
    """What all have in common: ask, run the calls, go on until ``submit`` or a text.

    Args:
        client: An httpx client whose base URL is a trial's.
        tools: Definitions of the tools it offers.
        run: Executes a call: (name, arguments) to text.
        prompt: The task.
        system: The system prompt, if any.
        is_streamed: Ask for streams.
        fields: Further fields of every request.
        headers: Headers of every request.
    """

    path = ""

    def __init__(self, client, tools, run, prompt, *, system="", is_streamed=False, fields=None, headers=None):
        self.client = client
        self.tools = tools
        self.run_tool = run
        self.system = system
        self.is_streamed = is_streamed
        self.fields = fields or {}
        self.headers = headers or {}
        self.history: list[Any] = self.opening(prompt)
        self.bodies: list[dict[str, Any]] = []
        self.replies: list[Any] = []

    async def work(self, max_turns=40):
        """Work until the end and return the last text, or the answer that was submitted."""
        for _ in range(max_turns):
            reply = await self.ask()
            calls = self.take(reply)
            if not calls:
                return self.text(reply)
            for call_id, name, arguments in calls:
                if name == "submit":
                    return arguments["answer"]
                self.add_result(call_id, await self.run_tool(name, arguments))
        raise AssertionError("the agent never came to an end")

    async def ask(self):
        """Send the history and return the reply's body, put together from its events where it was streamed."""
        body = {**self.body(), **self.fields, "model": "some-model", "stream": self.is_streamed}
        self.bodies.append(json.loads(json.dumps(body)))
        response = await self.client.post(self.path, json=body, headers=self.headers)
        assert response.status_code == 200, response.text
        reply = self.joined(events_of(response.text)) if self.is_streamed else response.json()
        self.replies.append(reply)
        return reply


class ChatAgent(TinyAgent):
    """Speaks chat completions."""

    path = "v1/chat/completions"

    def opening(self, prompt):
        """The first messages."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": prompt}]

    def body(self):
        """The conversation as a request."""
        tools = [
            {"type": "function", "function": {"name": each.name, "parameters": each.input_schema}}
            for each in self.tools
        ]
        return {"messages": self.history, **({"tools": tools} if tools else {})}

    def take(self, reply):
        """Put the reply into the history and return its calls."""
        message = reply["choices"][0]["message"]
        self.history.append(message)
        calls = message.get("tool_calls") or ()
        return [(each["id"], each["function"]["name"], json.loads(each["function"]["arguments"])) for each in calls]

    def add_result(self, call_id, text):
        """Put a result into the history."""
        self.history.append({"role": "tool", "tool_call_id": call_id, "content": text})

    def add_user(self, text):
        """Put a user's message into the history."""
        self.history.append({"role": "user", "content": text})

    def text(self, reply):
        """The text of a reply."""
        return reply["choices"][0]["message"]["content"] or ""

    def joined(self, events):
        """Put a reply together from chunks."""
        message, reason = {"role": "assistant", "content": None}, None
        for data in (json.loads(data) for _, data in events if data != "[DONE]"):
            for choice in data["choices"]:
                delta = choice["delta"]
                for name in {*delta} & {"content", "reasoning_content"}:
                    message[name] = (message.get(name) or "") + (delta[name] or "")
                for call in delta.get("tool_calls") or ():
                    known = message.setdefault("tool_calls", [])
                    if call["index"] == len(known):
                        known.append({"id": call["id"], "type": "function", "function": {"name": "", "arguments": ""}})
                    for name, text in call["function"].items():
                        known[call["index"]]["function"][name] += text
                message["content"] = message["content"] or None
                reason = choice["finish_reason"] or reason
        assert events[-1][1] == "[DONE]"
        return {"choices": [{"message": message, "finish_reason": reason}]}


class ResponsesAgent(TinyAgent):
    """Speaks Responses; with ``uses_memory`` it sends new items only and names the response before them."""

    path = "v1/responses"
    uses_memory = False

    def opening(self, prompt):
        """The first items."""
        self.previous_id = None
        return [{"role": "user", "content": prompt}]

    def body(self):
        """The conversation as a request."""
        tools = [{"type": "function", "name": each.name, "parameters": each.input_schema} for each in self.tools]
        body = {"input": self.history, **({"tools": tools} if tools else {})}
        if self.system:
            body["instructions"] = self.system
        if self.previous_id is not None:
            body["previous_response_id"] = self.previous_id
        return body

    def take(self, reply):
        """Put the reply into the history, or only its id, and return its calls."""
        if self.uses_memory:
            self.previous_id, self.history = reply["id"], []
        else:
            self.history.extend(reply["output"])
        calls = [item for item in reply["output"] if item["type"] == "function_call"]
        return [(each["call_id"], each["name"], json.loads(each["arguments"])) for each in calls]

    def add_result(self, call_id, text):
        """Put a result into the history."""
        self.history.append({"type": "function_call_output", "call_id": call_id, "output": text})

    def add_user(self, text):
        """Put a user's message into the history."""
        self.history.append({"role": "user", "content": [{"type": "input_text", "text": text}]})

    def text(self, reply):
        """The text of a reply."""
        parts = [part for item in reply["output"] if item["type"] == "message" for part in item["content"]]
        return "".join(part["text"] for part in parts)

    def joined(self, events):
        """Take the reply from the last event, and check that the items came one by one as well."""
        data = [json.loads(data) for _, data in events]
        assert [each["type"] for each in data] == [name for name, _ in events]
        assert [each["sequence_number"] for each in data] == list(range(len(data)))
        final = data[-1]["response"]
        done = [each["item"] for each in data if each["type"] == "response.output_item.done"]
        assert done == final["output"]
        deltas = [each["delta"] for each in data if each["type"] == "response.function_call_arguments.delta"]
        assert "".join(deltas) == "".join(item["arguments"] for item in done if item["type"] == "function_call")
        return final


class MemoryAgent(ResponsesAgent):
    """Speaks Responses with ``previous_response_id``."""

    uses_memory = True


class MessagesAgent(TinyAgent):
    """Speaks Anthropic's Messages."""

    path = "v1/messages?beta=true"

    def opening(self, prompt):
        """The first messages."""
        return [{"role": "user", "content": prompt}]

    def body(self):
        """The conversation as a request."""
        tools = [{"name": each.name, "input_schema": each.input_schema} for each in self.tools]
        system = {"system": self.system} if self.system else {}
        return {"messages": self.history, "max_tokens": 1000, **system, **({"tools": tools} if tools else {})}

    def take(self, reply):
        """Put the reply into the history and return its calls."""
        self.history.append({"role": "assistant", "content": reply["content"]})
        return [(each["id"], each["name"], each["input"]) for each in reply["content"] if each["type"] == "tool_use"]

    def add_result(self, call_id, text):
        """Put a result into the history, all results of a batch into one message."""
        block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        if self.history[-1]["role"] == "assistant":
            self.history.append({"role": "user", "content": []})
        self.history[-1]["content"].append(block)

    def add_user(self, text):
        """Put a user's message into the history."""
        self.history.append({"role": "user", "content": text})

    def text(self, reply):
        """The text of a reply."""
        return "".join(block["text"] for block in reply["content"] if block["type"] == "text")

    def joined(self, events):
        """Put a reply together from deltas."""
        blocks, partial, ending = [], {}, {}
        for name, data in ((name, json.loads(data)) for name, data in events):
            assert data["type"] == name
            if name == "content_block_start":
                blocks.append(data["content_block"])
            elif name == "content_block_delta":
                ((field, piece),) = ((field, value) for field, value in data["delta"].items() if field != "type")
                if field == "partial_json":
                    partial[data["index"]] = partial.get(data["index"], "") + piece
                else:
                    blocks[data["index"]][field] += piece
            elif name == "message_delta":
                ending = data["delta"]
        for index, text in partial.items():
            blocks[index]["input"] = json.loads(text)
        assert events[-1][0] == "message_stop"
        return {"content": blocks, **ending}


class GeminiAgent(TinyAgent):
    """Speaks Gemini's generateContent."""

    @property
    def path(self):
        """The address, which says whether the reply is streamed."""
        return f"v1beta/models/some-model:{'streamGenerateContent?alt=sse' if self.is_streamed else 'generateContent'}"

    def opening(self, prompt):
        """The first contents."""
        return [{"role": "user", "parts": [{"text": prompt}]}]

    def body(self):
        """The conversation as a request."""
        declared = [{"name": each.name, "parameters": each.input_schema} for each in self.tools]
        system = {"systemInstruction": {"parts": [{"text": self.system}]}} if self.system else {}
        return {"contents": self.history, **system, "tools": [{"functionDeclarations": declared}]}

    def take(self, reply):
        """Put the reply into the history and return its calls, which need no ids."""
        content = reply["candidates"][0]["content"]
        self.history.append(content)
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        return [(call["name"], call["name"], call["args"]) for call in calls]

    def add_result(self, call_id, text):
        """Put a result into the history, all results of a batch into one content."""
        if self.history[-1]["role"] == "model":
            self.history.append({"role": "user", "parts": []})
        self.history[-1]["parts"].append({"functionResponse": {"name": call_id, "response": {"result": text}}})

    def text(self, reply):
        """The text of a reply."""
        parts = reply["candidates"][0]["content"]["parts"]
        return "".join(part.get("text", "") for part in parts if not part.get("thought"))

    def joined(self, events):
        """Put the parts of all chunks behind each other, each as it came."""
        candidates = [json.loads(data)["candidates"][0] for _, data in events]
        parts = [part for candidate in candidates for part in candidate["content"]["parts"]]
        assert candidates[-1]["finishReason"] == "STOP"
        return {"candidates": [{"content": {"role": "model", "parts": parts}}]}


AGENTS = {
    "chat": ChatAgent,
    "responses": ResponsesAgent,
    "memory": MemoryAgent,
    "messages": MessagesAgent,
    "gemini": GeminiAgent,
}


def events_of(text):
    """The events of a stream: name and data, without comments and signs of life."""
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields and fields.get("event") not in ("ping", "keepalive"):
            events.append((fields.get("event"), fields["data"]))
    return events
