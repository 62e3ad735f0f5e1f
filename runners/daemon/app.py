"""The application: control API, live events and page behind the guard, and beside them the trials' addresses."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from runners.daemon.daemon import Daemon
from runners.daemon.endpoints import ENDPOINTS, decoded
from runners.daemon.errors import DaemonRefusal
from runners.daemon.guard import COOKIE, Guard, is_token, session_of
from runners.daemon.messages import SignIn
from runners.daemon.openapi import description
from runners.daemon.replies import on_missing, on_wrong_method, refused

TRIALS = "/t/"
MOST_READERS = 200
_MOST_TOKEN_BYTES = 4096

Answer = Callable[[Request], Awaitable[Response]]


def application(
    daemon: Daemon, token: str | None, pages: Sequence[BaseRoute] = (), trials: ASGIApp | None = None
) -> ASGIApp:
    """Return the whole application.

    Args:
        daemon: What it controls.
        token: What requests to the control API and the page must carry; None on loopback.
        pages: The routes of the web page.
        trials: What answers below ``/t/``, by the tokens of the trials; nothing of it leads to the control API. Give
            sandboxes a listener with this alone.
    """
    routes: list[BaseRoute] = [endpoint.route(daemon) for endpoint in ENDPOINTS]
    routes += [
        Route("/api/events", _events(daemon), methods=["GET"]),
        Route("/api/sign-in", _sign_in(token), methods=["POST"]),
        Route("/openapi.json", _openapi(daemon), methods=["GET"]),
        *pages,
    ]
    control = Guard(Starlette(routes=routes, exception_handlers={404: on_missing, 405: on_wrong_method}), token)
    beside = trials or Starlette(exception_handlers={404: on_missing})

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        is_trial = scope["type"] in ("http", "websocket") and scope["path"].startswith(TRIALS)
        await (beside if is_trial else control)(scope, receive, send)

    return dispatch


def _events(daemon: Daemon) -> Answer:
    async def answer(request: Request) -> Response:
        if daemon.hub.readers >= MOST_READERS:
            message = f"{MOST_READERS} readers follow the live events already; close some of them"
            return refused(DaemonRefusal(message, kind="too_many_readers", status=503))
        experiment = request.query_params.get("experiment")
        events = daemon.hub.follow(experiment, request.headers.get("last-event-id"))
        return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    return answer


def _openapi(daemon: Daemon) -> Answer:
    async def answer(_: Request) -> Response:
        return JSONResponse(description(daemon.facts().version))

    return answer


def _sign_in(token: str | None) -> Answer:
    async def answer(request: Request) -> Response:
        content = bytearray()
        async for piece in request.stream():
            content += piece[:_MOST_TOKEN_BYTES]
        try:
            given = decoded(bytes(content[:_MOST_TOKEN_BYTES]), SignIn)
        except DaemonRefusal as refusal:
            return refused(refusal)
        if token is None or not is_token(given.token, token):
            message = "this is not the daemon's token; it is the LHAW_RECORD_TOKEN that it was started with"
            return refused(DaemonRefusal(message, kind="unauthorized", status=401))
        reply = Response(status_code=204)
        is_secure = request.url.scheme == "https"
        reply.set_cookie(COOKIE, session_of(token), httponly=True, samesite="strict", secure=is_secure, path="/")
        return reply

    return answer
