"""Replies of the daemon: a value as JSON, a refusal as JSON, and errors turned into refusals in one place."""

import sys
import traceback

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from recorder.errors import RecorderError, RecordingFailed
from runners.daemon.errors import DaemonRefusal
from runners.daemon.messages import Message, Problem, Refused
from runners.errors import RunnerError

_OF_FILES = ("GET", "HEAD")


def as_json(value: Message, status: int = 200) -> Response:
    """Return a value as a reply."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def refused(refusal: DaemonRefusal) -> Response:
    """Return a refusal as a reply."""
    body = Refused(error=Problem(kind=refusal.kind, message=str(refusal)))
    reply = as_json(body, refusal.status)
    if refusal.status == 401:
        reply.headers["www-authenticate"] = "Bearer"
    return reply


def refusal_of(error: Exception) -> DaemonRefusal:
    """Return how an error is told to a client."""
    match error:
        case DaemonRefusal():
            return error
        case RecordingFailed():
            message = f"nothing was changed: {error}. The daemon stops; make room, then start it again"
            return DaemonRefusal(message, kind="not_recorded", status=507)
        case RecorderError() | RunnerError():
            return DaemonRefusal(str(error), kind="failed", status=500)
    traceback.print_exception(error, file=sys.stderr)
    message = "the daemon failed by a fault of its own; its standard error says more"
    return DaemonRefusal(message, kind="internal", status=500)


async def on_missing(request: Request, _: Exception) -> Response:
    """Answer what is at no address."""
    message = f"nothing is at {request.url.path}; /openapi.json lists what there is"
    return refused(DaemonRefusal(message, kind="not_found", status=404))


async def on_wrong_method(request: Request, _: Exception) -> Response:
    """Answer a method that an address does not know, with those that it does."""
    message = f"{request.method} is not for {request.url.path}; /openapi.json lists what there is"
    reply = refused(DaemonRefusal(message, kind="wrong_method", status=405))
    here = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    reply.headers["allow"] = ", ".join(
        sorted({method for route in here for method in getattr(route, "methods", None) or _OF_FILES})
    )
    return reply
