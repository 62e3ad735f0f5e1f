"""Make HTTP requests that are read from standard input, one a line. Runs in containers (Python 3.9 or newer).

The argument is the server's address. A request is a line ``{"id": N, "method": "GET", "path": "/", "body": null,
"timeout_s": 5.0}``, and its answer a line ``{"id": N, "status": 200, "body": "…"}``. Without an answer the status is 0
and the body the reason, which begins with ``timeout`` if it was too slow. The program ends with its input.
"""

from __future__ import annotations

import http.client
import json
import sys
import urllib.error
import urllib.request
from typing import Any

_MAX_BODY_BYTES = 16 << 20
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a world is near, never behind a proxy


def answered(address: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Make one request, and return its answer."""
    body = asked["body"]
    request = urllib.request.Request(  # noqa: S310  the address is the experiment's own
        address + asked["path"],
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method=asked["method"],
    )
    try:
        with _OPENER.open(request, timeout=asked["timeout_s"]) as reply:
            status, content = reply.status, reply.read(_MAX_BODY_BYTES + 1)
    except urllib.error.HTTPError as error:
        status, content = error.code, error.read(_MAX_BODY_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        said = f"timeout after {asked['timeout_s']:g} s" if isinstance(reason, TimeoutError) else str(reason)
        return {"id": asked["id"], "status": 0, "body": said or type(error).__name__}
    if len(content) > _MAX_BODY_BYTES:
        return {"id": asked["id"], "status": 0, "body": f"an answer of more than {_MAX_BODY_BYTES >> 20} MB"}
    return {"id": asked["id"], "status": status, "body": content.decode("utf-8", "replace")}


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answered(sys.argv[1], json.loads(line))) + "\n")
        sys.stdout.flush()
