"""Request bodies as real agents were seen to send them, with invented texts; short names for their parts."""

TASK = "Write the yearly report about the blue boats in report.md."


def _function(name):
    return {"name": name, "parameters": {"type": "object"}}


def _offered(tool, make):
    """A tool by its name, or as it is."""
    return make(tool) if isinstance(tool, str) else tool


# chat completions


def chat(*messages, tools=("work",), **fields):
    """A request."""
    offered = [_offered(tool, lambda name: {"type": "function", "function": _function(name)}) for tool in tools]
    return {"model": "m", "messages": list(messages), **({"tools": offered} if tools else {}), **fields}


def system(text):
    """A system message."""
    return {"role": "system", "content": text}


def user(text):
    """A user's message."""
    return {"role": "user", "content": text}


def says(text):
    """An assistant's message of text."""
    return {"role": "assistant", "content": text}


def calls(*pairs, text=None):
    """An assistant's message with calls: pairs of id and name, or triples with arguments."""
    made = [
        {"id": each[0], "type": "function", "function": {"name": each[1], "arguments": (*each, "{}")[2]}}
        for each in pairs
    ]
    return {"role": "assistant", "content": text, "tool_calls": made}


def result(call_id, text="done"):
    """The result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


# Messages


def messages(*turns, tools=("work",), **fields):
    """A request."""
    offered = [_offered(tool, lambda name: {"name": name, "input_schema": {"type": "object"}}) for tool in tools]
    return {"model": "m", "max_tokens": 100, "messages": list(turns), **({"tools": offered} if tools else {}), **fields}


def block(text, **fields):
    """A block of text."""
    return {"type": "text", "text": text, **fields}


def uses(*pairs, text=None):
    """An assistant's message with calls: pairs of id and name, or triples with an input."""
    made = [{"type": "tool_use", "id": each[0], "name": each[1], "input": (*each, {})[2]} for each in pairs]
    return {"role": "assistant", "content": [*([block(text)] if text else []), *made]}


def gives(*pairs, after=()):
    """A user's message with results: pairs of id and content; blocks may follow."""
    blocks = [{"type": "tool_result", "tool_use_id": call_id, "content": content} for call_id, content in pairs]
    return {"role": "user", "content": [*blocks, *after]}


# Responses


def responses(*items, tools=("work",), **fields):
    """A request."""
    offered = [_offered(tool, lambda name: {"type": "function", **_function(name)}) for tool in tools]
    return {"model": "m", "input": list(items), **({"tools": offered} if tools else {}), **fields}


def item(role, text):
    """A message."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def call_item(call_id, name="work", arguments="{}", **fields):
    """A call."""
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **fields}


def output_item(call_id, output="done"):
    """The result of a call."""
    return {"type": "function_call_output", "call_id": call_id, "output": output}
