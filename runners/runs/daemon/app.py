"""The web application, with the control API, live events and pages behind the guard."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from lhaw_record.runners.runs.daemon.daemon import Daemon
from lhaw_record.runners.runs.daemon.endpoints import ENDPOINTS, Endpoint, Extension, decoded, description
from lhaw_record.runners.runs.daemon.errors import DaemonRefusal
from lhaw_record.runners.runs.daemon.guard import COOKIE, Guard, is_token, session_of
from lhaw_record.runners.runs.daemon.messages import SignIn
from lhaw_record.runners.runs.daemon.replies import on_missing, on_wrong_method, refused

MOST_READERS = 200
_MOST_TOKEN_BYTES = 4096

Answer = Callable[[Request], Awaitable[Response]]


def application(
    daemon: Daemon,
    token: str | None,
    pages: Sequence[BaseRoute] = (),
    extension: Extension | None = None,
    lease_token: str | None = None,
) -> ASGIApp:
    """Create the web application of a daemon, behind the guard."""
    assert daemon.leases is not None, "a daemon that serves has leases"
    endpoints: tuple[Endpoint, ...] = ENDPOINTS
    routes: list[BaseRoute] = [endpoint.route(daemon) for endpoint in ENDPOINTS]
    if extension is not None:
        endpoints += extension.endpoints
        routes += [endpoint.route(extension.subject) for endpoint in extension.endpoints]
        routes += extension.pages
    routes += [
        Route("/api/events", _events(daemon), methods=["GET"]),
        Route("/api/sign-in", _sign_in(token), methods=["POST"]),
        Route("/openapi.json", _openapi(daemon, endpoints), methods=["GET"]),
        *pages,
    ]
    app = Starlette(routes=routes, exception_handlers={404: on_missing, 405: on_wrong_method})
    return Guard(app, token, lease_token, daemon.leases.token_of)


def _events(daemon: Daemon) -> Answer:
    async def answer(request: Request) -> Response:
        if daemon.hub.readers >= MOST_READERS:
            message = f"{MOST_READERS} readers follow the live events already; close some of them"
            return refused(DaemonRefusal(message, kind="too_many_readers", status=503))
        experiment = request.query_params.get("experiment")
        events = daemon.hub.follow(experiment, request.headers.get("last-event-id"))
        return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    return answer


def _openapi(daemon: Daemon, endpoints: Sequence[Endpoint]) -> Answer:
    async def answer(_: Request) -> Response:
        return JSONResponse(description(daemon.facts().version, endpoints))

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
            message = "this is not the daemon's token; give the LHAW_RECORD_TOKEN that it was started with"
            return refused(DaemonRefusal(message, kind="unauthorized", status=401))
        reply = Response(status_code=204)
        is_secure = request.url.scheme == "https"
        reply.set_cookie(COOKIE, session_of(token), httponly=True, samesite="strict", secure=is_secure, path="/")
        return reply

    return answer
