"""An MCP server with one fault, in the standard library: its first argument says which.

well: none. noisy: plain text lines between messages. strange: an output schema that strict clients refuse. mute: never
answers the handshake. crash: ends at once. dies: ends during the first call. hangs: never answers a call. malformed:
answers a call with a result that is none. floods: one result of ten million characters. endless: answers a call
with a line that never ends. chatters: prints lines for ever. nests: a line nested a million deep before the answer.
"""

import json
import sys
import time

FAULT = sys.argv[1]


def say(line):
    """Write one line on standard output, whatever it is."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def send(message):
    """Write one protocol message."""
    say(json.dumps({"jsonrpc": "2.0", **message}))


def tool():
    """Describe the only tool."""
    described = {"name": "echo", "description": "Repeat.", "inputSchema": {"type": "object", "properties": {}}}
    if FAULT == "strange":
        described["outputSchema"] = {"type": "array", "items": {"type": "string"}}
    return described


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
        send({"id": request["id"], "result": {"tools": [tool()]}})
    elif method == "tools/call":
        call(request)


def call(request):
    """Answer a tool call with its own arguments, unless the fault is here."""
    arguments = request["params"].get("arguments") or {}
    text = json.dumps(arguments)
    if FAULT == "dies":
        sys.stderr.write("the disk is on fire" + "\n")
        sys.exit(3)
    if FAULT == "hangs":
        time.sleep(3600)
    while FAULT in ("endless", "chatters"):
        sys.stdout.write(("x" if FAULT == "endless" else "\nnoise") * 10_000)
    if FAULT == "nests":
        say("[" * 1_000_000)
    if FAULT == "malformed":
        send({"id": request["id"], "result": {"content": "not a list"}})
        return
    if arguments.get("fail"):
        send({"id": request["id"], "error": {"code": -32602, "message": "that argument is wrong"}})
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
