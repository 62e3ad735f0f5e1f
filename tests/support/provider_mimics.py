"""Servers that speak a provider's wire and enforce its documented rules on reasoning between tool calls.

Each mimic reasons, calls the tool ``echo`` for a number of turns, then calls ``submit``. It refuses a request, in the
provider's own words, whose history lacks what it demands back. ``lost`` lists what a request did not bring back at all.

The rules are those of the providers' pages: Anthropic "Extended thinking", OpenAI "Reasoning models" (keeping reasoning
items in context), Gemini "Thought signatures", DeepSeek "Thinking mode", OpenRouter "Reasoning tokens", vLLM "Reasoning
outputs". The replies are what the packages anthropic 2.12, openai 3.54 and google-genai 3.4 parse; only
``reasoning_content`` and ``usage.cost`` of chat completions are unknown there.
"""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PATTERNS = (
    ("think", "call"),
    ("think", "text", "call"),
    ("redacted", "call"),
    ("think", "redacted", "text", "call", "call"),
    ("think", "text", "think", "call"),
    ("think", "call", "think", "call"),
)


class Refusal(Exception):
    """The provider refuses a request with HTTP 400 and this message."""


class Mimic:
    """The policy that all wires share.

    Args:
        turns: The number of replies that call ``echo`` before the one that calls ``submit``.
    """

    def __init__(self, turns=40):
        self.turns = turns
        self.issued = []
        self.lost = []
        self.requests = []
        self.sent_sha256, self.received_sha256 = [], []

    def answer(self, path, body):
        """Return the status and the body of the answer to a request."""
        self.requests.append(body)
        try:
            self.check(path, body)
        except Refusal as refusal:
            return 400, self.error(str(refusal))
        turn = len(self.issued)
        pattern = _PATTERNS[turn % len(_PATTERNS)] if turn < self.turns else ("think", "call")
        parts = [self.part(kind, f"{turn}.{index}", is_last=turn >= self.turns) for index, kind in enumerate(pattern)]
        self.issued.append([part for part in parts if part is not None])
        return 200, self.reply(self.issued[-1], turn)

    def compare(self, brought):
        """Note the turns whose parts a request did not bring back as they were issued."""
        for turn, (issued, back) in enumerate(zip(self.issued, brought, strict=False)):
            if issued != back:
                self.lost.append((turn, issued, back))
        if len(brought) != len(self.issued):
            self.lost.append((len(brought), "turns", len(self.issued)))

    def part(self, kind, mark, *, is_last):
        """Return a part of a reply, or None if the wire has no such part."""
        return getattr(self, kind)(mark, *(("submit" if is_last else "echo",) if kind == "call" else ()))


def _arguments(mark, name):
    return {"answer": mark} if name == "submit" else {"text": f"é {mark}"}


def _signature(mark):
    return base64.b64encode(f"signed {mark}".encode()).decode()


class AnthropicMimic(Mimic):
    """Anthropic's Messages with extended thinking."""

    def check(self, path, body):
        """Enforce the rules of thinking: its parameters, and its blocks before tool use."""
        assert path.endswith("/v1/messages"), path
        thinking = body.get("thinking") or {}
        self._check_parameters(body, thinking)
        turns = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
        self._check_blocks(turns, thinking)
        self.compare(turns)

    def _check_parameters(self, body, thinking):
        if "max_tokens" not in body:
            raise Refusal("max_tokens: Field required")
        if thinking.get("type") in ("enabled", "adaptive"):
            if body.get("temperature", 1) != 1:
                raise Refusal("`temperature` may only be set to 1 when thinking is enabled.")
            if "top_k" in body:
                raise Refusal("`top_k` must be unset when thinking is enabled.")
        if thinking.get("type") == "enabled":
            if thinking.get("budget_tokens", 0) < 1024:
                raise Refusal("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
            if thinking["budget_tokens"] >= body["max_tokens"]:
                raise Refusal("`max_tokens` must be greater than `thinking.budget_tokens`.")

    def _check_blocks(self, turns, thinking):
        for index, content in enumerate(turns):
            kinds = [block["type"] for block in content]
            if thinking and "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking"):
                raise Refusal(
                    f"messages.{2 * index + 1}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
                    f"`{kinds[0]}`. When `thinking` is enabled, a final `assistant` message must start with a thinking "
                    "block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
                )
            signed = [block for block in content if block["type"].endswith("thinking")]
            if signed != [block for block in self.issued[index] if block["type"].endswith("thinking")]:
                raise Refusal(
                    f"messages.{2 * index + 1}.content: `thinking` or `redacted_thinking` blocks in the latest "
                    "assistant message cannot be modified."
                )

    def think(self, mark):
        """Return a signed block."""
        return {"type": "thinking", "thinking": f"I think {mark}.", "signature": _signature(mark)}

    def redacted(self, mark):
        """Return a block whose text is hidden."""
        return {"type": "redacted_thinking", "data": _signature(mark)}

    def text(self, mark):
        """Return a text."""
        return {"type": "text", "text": f"Now {mark}. "}

    def call(self, mark, name):
        """Return a tool call."""
        return {
            "type": "tool_use",
            "id": f"toolu_{mark.replace('.', '_')}",
            "name": name,
            "input": _arguments(mark, name),
        }

    def reply(self, parts, turn):
        """Return the whole reply."""
        return {
            "id": f"msg_{turn}",
            "type": "message",
            "role": "assistant",
            "model": "claude-mimic",
            "content": parts,
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 3,
                "cache_read_input_tokens": 5,
                "output_tokens": 20,
            },
        }

    def stream(self, body):
        """Return a reply as the stream of "Streaming messages"."""
        usage = {**body["usage"], "output_tokens": 1}
        begun = {**body, "content": [], "stop_reason": None, "usage": usage}
        events = [{"type": "message_start", "message": begun}, {"type": "ping"}]
        for index, block in enumerate(body["content"]):
            empty, deltas = self._pieces(block)
            events.append({"type": "content_block_start", "index": index, "content_block": empty})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        ending = {"stop_reason": body["stop_reason"], "stop_sequence": None}
        events.append({"type": "message_delta", "delta": ending, "usage": {"output_tokens": 20}})
        return "".join(map(_event, [*events, {"type": "message_stop"}]))

    def _pieces(self, block):
        if block["type"] == "thinking":
            deltas = [{"type": "thinking_delta", "thinking": half} for half in _halves(block["thinking"])]
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*deltas, signature]
        if block["type"] == "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": half} for half in _halves(block["text"])]
        if block["type"] == "tool_use":
            halves = _halves(json.dumps(block["input"]))
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": half} for half in halves]
        return block, []

    def error(self, message):
        """Return the body of a refusal."""
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


class ResponsesMimic(Mimic):
    """OpenAI's Responses of a reasoning model, without storage."""

    def check(self, path, body):
        """Enforce that reasoning and what follows it come together, with the encrypted content."""
        assert path.endswith("/responses"), path
        if "temperature" in body:
            raise Refusal("Unsupported parameter: 'temperature' is not supported with this model.")
        items = [item for item in body["input"] if item.get("type") != "function_call_output"]
        items = [item for item in items if item.get("role") not in ("user", "system", "developer")]
        issued = [item for parts in self.issued for item in parts]
        for item, expected in zip(items, issued, strict=False):
            if item["type"] != expected["type"] and expected["type"] == "reasoning":
                raise Refusal(
                    f"Item '{item.get('call_id')}' of type '{item['type']}' was provided without its required "
                    f"'reasoning' item: '{expected['id']}'."
                )
            if item["type"] == "reasoning" and not item.get("encrypted_content"):
                raise Refusal(
                    f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false."
                )
        if body.get("store") is not False or "reasoning.encrypted_content" not in (body.get("include") or ()):
            self.lost.append("the request does not ask for encrypted reasoning")
        if [_essence(item) for item in items] != [_essence(item) for item in issued]:
            self.lost.append((len(self.issued), items, issued))

    def think(self, mark):
        """Return a reasoning item."""
        summary = [{"type": "summary_text", "text": f"I think {mark}."}]
        return {"type": "reasoning", "id": f"rs_{mark}", "summary": summary, "encrypted_content": f"gAAAA{mark}"}

    def redacted(self, mark):
        """Return a reasoning item without a summary."""
        return {"type": "reasoning", "id": f"rs_{mark}", "summary": [], "encrypted_content": f"gAAAA{mark}"}

    def text(self, mark):
        """Return a message."""
        content = [{"type": "output_text", "text": f"Now {mark}.", "annotations": []}]
        said = {"type": "message", "id": f"msg_{mark}", "role": "assistant", "status": "completed", "content": content}
        return {**said, "phase": "commentary"}  # gpt-5.3-codex and later want it back on every such item

    def call(self, mark, name):
        """Return a function call."""
        return {
            "type": "function_call",
            "id": f"fc_{mark}",
            "call_id": f"call_{mark.replace('.', '_')}",
            "name": name,
            "arguments": json.dumps(_arguments(mark, name)),
            "status": "completed",
        }

    def reply(self, parts, turn):
        """Return the whole reply."""
        return {
            "id": f"resp_{turn}",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": "gpt-mimic",
            "output": parts,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "usage": {
                "input_tokens": 18,
                "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3},
                "output_tokens": 20,
                "output_tokens_details": {"reasoning_tokens": 12},
                "total_tokens": 38,
            },
        }

    def stream(self, body):
        """Return a reply as the stream of the API reference, "Streaming events"."""
        begun = {**body, "status": "in_progress", "output": [], "usage": None}
        events = [{"type": "response.created", "response": begun}]
        for index, item in enumerate(body["output"]):
            events.append({"type": "response.output_item.added", "output_index": index, "item": item})
            if item["type"] == "function_call":
                where = {"item_id": item["id"], "output_index": index}
                deltas = [{**where, "delta": half} for half in _halves(item["arguments"])]
                events += [{"type": "response.function_call_arguments.delta", **delta} for delta in deltas]
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        events.append({"type": "response.completed", "response": body})
        return "".join(_event({**event, "sequence_number": number}) for number, event in enumerate(events))

    def error(self, message):
        """Return the body of a refusal."""
        return {"error": {"message": message, "type": "invalid_request_error", "param": "input", "code": None}}


def _essence(item):
    """Return what an item must have when it comes back: ids of texts and calls, and states, are optional."""
    if item["type"] == "message":
        content = item["content"]
        text = content if isinstance(content, str) else "".join(each["text"] for each in content)
        return {"type": "message", "text": text, "phase": item.get("phase")}
    optional = {"status", "id"} if item["type"] == "function_call" else {"status"}
    return {name: value for name, value in item.items() if name not in optional}


class GeminiMimic(Mimic):
    """Gemini 3's generateContent: each step's first function call is signed."""

    def check(self, path, body):
        """Enforce the signatures of function calls in the current turn."""
        assert ":generateContent" in path or ":streamGenerateContent?alt=sse" in path, path
        turns = [content["parts"] for content in body["contents"] if content["role"] == "model"]
        turns = [[part for part in parts if not part.get("thought")] for parts in turns]
        for index, parts in enumerate(turns):
            calls = [part for part in parts if "functionCall" in part or "function_call" in part]
            signed = [part for part in self.issued[index] if "thoughtSignature" in part]
            if calls and signed and "thoughtSignature" not in calls[0]:
                raise Refusal(
                    f"Function call `echo` in the `{2 * index + 2}.` content block is missing a `thought_signature`."
                )
        issued = [[part for part in parts if not part.get("thought")] for parts in self.issued]
        back = [[_gemini_part(part) for part in parts] for parts in turns]
        pairs = [(_one_text(one), _one_text(other)) for one, other in zip(issued, back, strict=True)]
        self.lost += [(turn, a, b) for turn, (a, b) in enumerate(pairs) if a != b]

    def think(self, mark):
        """Return a thought summary."""
        return {"text": f"I think {mark}.", "thought": True}

    def redacted(self, mark):
        """Gemini has no such part."""

    def text(self, mark):
        """Return a signed text."""
        return {"text": f"Now {mark}.", "thoughtSignature": _signature(mark)}

    def call(self, mark, name):
        """Return a function call. Only the first call of a step is signed."""
        call = {"functionCall": {"name": name, "args": _arguments(mark, name)}}
        return call if mark.endswith(".4") else {**call, "thoughtSignature": _signature(mark)}

    def reply(self, parts, turn):
        """Return the whole reply."""
        return {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {
                "promptTokenCount": 18,
                "cachedContentTokenCount": 5,
                "candidatesTokenCount": 8,
                "thoughtsTokenCount": 12,
                "totalTokenCount": 38,
            },
            "modelVersion": "gemini-mimic",
            "responseId": f"r{turn}",
        }

    def stream(self, body):
        """Return a reply as chunks of streamGenerateContent. A text's signature comes in a part without text.

        No part with a signature may be merged with another one.
        """
        (candidate,) = body["candidates"]
        parts = []
        for part in candidate["content"]["parts"]:
            if "text" in part:
                parts += [{**part, "text": half} for half in _halves(part["text"])]
                for each in parts[-2:]:
                    each.pop("thoughtSignature", None)
                if "thoughtSignature" in part:
                    parts.append({**part, "text": ""})
            else:
                parts.append(part)
        self.issued[-1] = parts
        head = {name: value for name, value in body.items() if name not in ("candidates", "usageMetadata")}
        chunks = [
            {**head, "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in parts
        ]
        chunks[-1]["candidates"][0]["finishReason"] = "STOP"
        chunks[-1]["usageMetadata"] = body["usageMetadata"]
        return "".join(_event(chunk, is_named=False) for chunk in chunks)

    def error(self, message):
        """Return the body of a refusal."""
        return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def _event(data, *, is_named=True):
    return (f"event: {data['type']}\n" if is_named else "") + f"data: {json.dumps(data)}\n\n"


def _halves(text):
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def _one_text(parts):
    """Return parts with neighbouring texts as one, unless they are signed."""
    joined = []
    for part in parts:
        if joined and {*part} == {*joined[-1]} == {"text"}:
            joined[-1] = {"text": joined[-1]["text"] + part["text"]}
        else:
            joined.append(part)
    return joined


def _gemini_part(part):
    """Return a part without the id of its call, which Gemini 3 leaves out and takes back."""
    part = {{"function_call": "functionCall"}.get(name, name): value for name, value in part.items()}
    call = part.get("functionCall")
    return part if call is None else {**part, "functionCall": {key: call[key] for key in ("name", "args")}}


class ChatMimic(Mimic):
    """Chat completions with reasoning beside the text, under the names that a server uses.

    Args:
        names: The fields of the message: ``reasoning_content`` (DeepSeek, SGLang, llama.cpp), ``reasoning`` (vLLM) or
            ``reasoning`` and ``reasoning_details`` (OpenRouter).
        turns: As for every mimic.
    """

    def __init__(self, names=("reasoning_content",), turns=40):
        super().__init__(turns)
        self.names = names

    def check(self, path, body):
        """Enforce DeepSeek's rule: the reasoning of every turn with tool calls comes back."""
        assert path.endswith("/chat/completions"), path
        turns = [message for message in body["messages"] if message["role"] == "assistant"]
        for message in turns:
            if message.get("tool_calls") and any(name not in message for name in self.names):
                raise Refusal(f"The `{self.names[0]}` in the thinking mode must be passed back to the API.")
        issued = [_without_nulls(self.message(parts)) for parts in self.issued]
        back = [_without_nulls(message) for message in turns]
        self.lost += [(turn, a, b) for turn, (a, b) in enumerate(zip(issued, back, strict=True)) if a != b]

    def think(self, mark):
        """Return a thought."""
        return ("think", f"I think {mark}.")

    def redacted(self, mark):
        """Return no reasoning, which still has to come back as such."""
        return ("think", "")

    def text(self, mark):
        """Return a text."""
        return ("text", f"Now {mark}.")

    def call(self, mark, name):
        """Return a tool call."""
        function = {"name": name, "arguments": json.dumps(_arguments(mark, name))}
        return ("call", {"id": f"call_{mark.replace('.', '_')}", "type": "function", "function": function})

    def message(self, parts):
        """Return the assistant's message."""
        thought = "\n".join(value for kind, value in parts if kind == "think")
        texts = [value for kind, value in parts if kind == "text"]
        details = [{"type": "reasoning.encrypted", "data": f"ZW5j{thought}", "id": "r1", "format": "x", "index": 0}]
        fields = {name: details if name == "reasoning_details" else thought for name in self.names}
        calls = [value for kind, value in parts if kind == "call"]
        return {"role": "assistant", "content": "".join(texts) or None, **fields, "tool_calls": calls}

    def reply(self, parts, turn):
        """Return the whole reply."""
        choice = {"index": 0, "message": self.message(parts), "finish_reason": "tool_calls"}
        return {
            "id": f"c{turn}",
            "object": "chat.completion",
            "created": 1,
            "model": "mimic",
            "choices": [choice],
            "usage": {
                "prompt_tokens": 18,
                "completion_tokens": 20,
                "total_tokens": 38,
                "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3},
                "completion_tokens_details": {"reasoning_tokens": 12},
                "cost": 0.25,
            },
        }

    def stream(self, body):
        """Return a reply as the chunks of the API reference. The usage comes last, and only if it was asked for."""
        message, calls = dict(body["choices"][0]["message"]), body["choices"][0]["message"]["tool_calls"]
        deltas = [{"role": message.pop("role"), "content": ""}]
        for name, value in message.items():
            if isinstance(value, str):
                deltas += [{name: half} for half in (_halves(value) if value else [""])]
            elif value is not None and name != "tool_calls":
                deltas.append({name: value})
        for index, call in enumerate(calls):
            function = {"name": call["function"]["name"], "arguments": ""}
            deltas.append({"tool_calls": [{**call, "index": index, "function": function}]})
            halves = _halves(call["function"]["arguments"])
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": half}}]} for half in halves]
        head = {name: body[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
        chunks = [{**head, "choices": [choice], "usage": None} for choice in choices]
        if (self.requests[-1].get("stream_options") or {}).get("include_usage"):
            chunks.append({**head, "choices": [], "usage": body["usage"]})
        return "".join(_event(chunk, is_named=False) for chunk in chunks) + "data: [DONE]\n\n"

    def error(self, message):
        """Return the body of a refusal."""
        return {
            "error": {
                "message": message,
                "type": "invalid_request_error",
                "param": None,
                "code": "invalid_request_error",
            }
        }


def _without_nulls(message):
    return {name: value for name, value in message.items() if value is not None}


class MimicServer:
    """Serves a mimic on a free loopback port, and keeps the digests of the bodies that went over the wire."""

    def __init__(self, mimic):
        self.mimic = mimic

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                raw = self.rfile.read(int(self.headers["content-length"]))
                asked = json.loads(raw)
                status, body = mimic.answer(self.path, asked)
                is_stream = status == 200 and (asked.get("stream") or ":streamGenerateContent" in self.path)
                answer = mimic.stream(body).encode() if is_stream else json.dumps(body).encode()
                mimic.sent_sha256.append(hashlib.sha256(raw).hexdigest())
                mimic.received_sha256.append(hashlib.sha256(answer).hexdigest())
                self.send_response(status)
                self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args):
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *exc_info):
        self._server.shutdown()
        self._server.server_close()
