"""Create HTTP replies: encode messages and refusals as JSON, and turn errors into refusals."""

import sys
import traceback

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from lhaw_record.recorder.errors import RecorderError, RecordingFailed
from lhaw_record.runners.base.errors import RunnerError
from lhaw_record.runners.runs.daemon.errors import DaemonRefusal
from lhaw_record.runners.runs.daemon.messages import ErrorReply, Message, Problem

_OF_FILES = ("GET", "HEAD")


def as_json(value: Message, status: int = 200) -> Response:
    """Create a JSON reply from a message. It has the status 202 and an address if there is more to come."""
    if value.pending_at is not None:
        status, headers = 202, {"location": value.pending_at, "retry-after": "2"}
    else:
        headers = {}
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def refused(refusal: DaemonRefusal) -> Response:
    """Create the JSON reply that tells the client about a refusal."""
    body = ErrorReply(error=Problem(kind=refusal.kind, message=str(refusal)))
    reply = as_json(body, refusal.status)
    if refusal.status == 401:
        reply.headers["www-authenticate"] = "Bearer"
    return reply


def refusal_of(error: Exception) -> DaemonRefusal:
    """Convert an error to a refusal for the client. Unexpected errors are also printed to standard error."""
    match error:
        case DaemonRefusal():
            return error
        case RecordingFailed():
            message = f"nothing was changed: {error}. The daemon stops; make room, then start it again"
            return DaemonRefusal(message, kind="not_recorded", status=507)
        case RecorderError() | RunnerError():
            return DaemonRefusal(str(error), kind="failed", status=500)
    traceback.print_exception(error, file=sys.stderr)
    message = "the daemon has a bug; its standard error says more"
    return DaemonRefusal(message, kind="internal", status=500)


async def on_missing(request: Request, _: Exception) -> Response:
    """Answer a request for an unknown URL path."""
    message = f"there is nothing at {request.url.path}; /openapi.json lists the addresses"
    return refused(DaemonRefusal(message, kind="not_found", status=404))


async def on_wrong_method(request: Request, _: Exception) -> Response:
    """Answer a request with an unsupported HTTP method. The reply lists the supported methods."""
    message = f"{request.url.path} does not support {request.method}; /openapi.json lists the methods"
    reply = refused(DaemonRefusal(message, kind="wrong_method", status=405))
    here = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    reply.headers["allow"] = ", ".join(
        sorted({method for route in here for method in getattr(route, "methods", None) or _OF_FILES})
    )
    return reply
