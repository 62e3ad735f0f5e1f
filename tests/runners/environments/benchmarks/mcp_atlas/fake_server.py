"""An MCP server with one fault, in the standard library: its first argument says which.

well: none. noisy: plain text lines between messages. strange: an output schema that strict clients refuse. mute: never
answers the handshake. crash: ends at once. dies: ends during the first call. hangs: never answers a call. odd:
answers a call with its arguments as the members of the message. floods: one result of ten million characters.
endless: answers a call with a line that never ends. chatters: prints lines for ever.
nests: a line nested a million deep before the answer.
halves: half a surrogate pair in its description, results and errors. bytes: bytes that are no UTF-8 there.
tools: also lists tools that no model can have.
"""

import json
import sys
import time

FAULT = sys.argv[1]
BAD = {"halves": " \ud83c", "bytes": " \udcff"}


def say(line):
    """Write one line on standard output, whatever it is."""
    sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")
    sys.stdout.flush()


def send(message):
    """Write one protocol message."""
    say(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=FAULT != "bytes"))


def tool():
    """Describe the only tool."""
    described = {"name": "echo", "description": "Repeat.", "inputSchema": {"type": "object", "properties": {}}}
    if FAULT == "strange":
        described["outputSchema"] = {"type": "array", "items": {"type": "string"}}
    if FAULT in BAD:
        described["description"] += BAD[FAULT]
        described["inputSchema"]["properties"] = {"a" + BAD[FAULT]: {}}
    return described


def tools():
    """List the only tool, or with it some that are none."""
    schemas = {"null": None, "list": [], "text": {"type": "string"}, "asked": {"properties": [], "required": {}}}
    others = [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]
    others += ["bare", {"inputSchema": {"type": "object"}}, {"name": "none"}]
    untyped = {**tool(), "name": "untyped", "description": 7, "annotations": [], "title": {}, "inputSchema": {}}
    return [*others, untyped, tool()] if FAULT == "tools" else [tool()]


def handle(request):
    """Answer one request."""
    method = request["method"]
    if method == "initialize":
        if FAULT == "mute":
            time.sleep(3600)
        send(
            {
                "id": request["id"],
                "result": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "fake", "version": "0"},
                },
            }
        )
    elif method == "tools/list":
        send({"id": request["id"], "result": {"tools": tools()}})
    elif method == "tools/call":
        call(request)


def call(request):
    """Answer a tool call with its own arguments, unless the fault is here."""
    arguments = request["params"].get("arguments") or {}
    text = json.dumps(arguments) + BAD.get(FAULT, "")
    if FAULT == "dies":
        sys.stderr.write("the disk is on fire" + "\n")
        sys.exit(3)
    if FAULT == "hangs":
        time.sleep(3600)
    while FAULT in ("endless", "chatters"):
        sys.stdout.write(("x" if FAULT == "endless" else "\nnoise") * 10_000)
    if FAULT == "nests":
        say("[" * 1_000_000)
    if FAULT == "odd":
        send({"id": request["id"], **arguments})
        return
    if arguments.get("fail"):
        send({"id": request["id"], "error": {"code": -32602, "message": "that argument is wrong" + BAD.get(FAULT, "")}})
        return
    if FAULT == "floods":
        text = "x" * 10_000_000
    if FAULT == "noisy":
        say("Temporary file created")
        say('{"almost": "a message"')
        say('["not", "one", "either"]')
    send({"id": request["id"], "result": {"content": [{"type": "text", "text": text}]}})


if FAULT == "crash":
    sys.stderr.write("no such configuration" + "\n")
    sys.exit(2)
if FAULT == "noisy":
    say("Server is starting up")
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        handle(message)
