"""The web application, with the control API, live events and pages, behind a guard that checks every request.

- Without a token, the daemon listens on loopback only, and the Host header of a request must be a loopback host. This
  prevents DNS rebinding: if another site's name is made to resolve to loopback, its pages still send that name.
- With a token, every request must carry the token, as a bearer token or in the cookie that the sign-in page sets. The
  token is compared in constant time. The tokens of trials are different and give no access here.
- Two lesser tokens open leases only: the daemon's lease token takes one, and each lease's own token is for that lease.
  If a lease is unknown, as after a restart, only requests with the lease token or the daemon's token are told so.
- Requests from other sites are recognized by ``Origin`` and ``Sec-Fetch-Site`` and refused, and CORS is off. A request
  that changes something must be JSON, which a form cannot send and a foreign script may not send without a preflight.
  An additional CSRF token would not help: a forged request has the wrong origin, or has no origin but the wrong content
  type, and the cookie is ``SameSite=Strict``.
"""

import hmac
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from http.cookies import CookieError, SimpleCookie

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lhaw_record.runners.runs.daemon.daemon import Daemon
from lhaw_record.runners.runs.daemon.endpoints import (
    ENDPOINTS,
    ApiEndpoint,
    Extension,
    RequestHandler,
    decoded,
    description,
    refused,
)
from lhaw_record.runners.runs.daemon.messages import DaemonRefusal, SignIn

MOST_READERS = 200
_MOST_TOKEN_BYTES = 4096
COOKIE = "lhaw_record"
SHORTEST_TOKEN = 16
SIGN_IN = "/sign-in"
_OPEN = (SIGN_IN, "/api/sign-in", "/static/")
LEASES = "/api/leases"
_SAFE = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def application(
    daemon: Daemon,
    token: str | None,
    pages: Sequence[BaseRoute] = (),
    extension: Extension | None = None,
    lease_token: str | None = None,
) -> ASGIApp:
    assert daemon.leases is not None, "a daemon that serves has leases"
    endpoints: tuple[ApiEndpoint, ...] = ENDPOINTS
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


def _events(daemon: Daemon) -> RequestHandler:
    async def answer(request: Request) -> Response:
        if daemon.hub.readers >= MOST_READERS:
            message = f"{MOST_READERS} readers already follow the live events; close some of them"
            return refused(DaemonRefusal(message, kind="too_many_readers", status=503))
        experiment = request.query_params.get("experiment")
        events = daemon.hub.follow(experiment)
        return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    return answer


def _openapi(daemon: Daemon, endpoints: Sequence[ApiEndpoint]) -> RequestHandler:
    async def answer(_: Request) -> Response:
        return JSONResponse(description(daemon.facts().version, endpoints))

    return answer


def _sign_in(token: str | None) -> RequestHandler:
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


async def on_missing(request: Request, _: Exception) -> Response:
    message = f"there is nothing at {request.url.path}; /openapi.json lists the addresses"
    return refused(DaemonRefusal(message, kind="not_found", status=404))


async def on_wrong_method(request: Request, _: Exception) -> Response:
    """Refuse a request with an unsupported HTTP method. The reply lists the supported methods."""
    message = f"{request.url.path} does not support {request.method}; /openapi.json lists the methods"
    reply = refused(DaemonRefusal(message, kind="wrong_method", status=405))
    here = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    reply.headers["allow"] = ", ".join(
        sorted({method for route in here for method in getattr(route, "methods", None) or _SAFE})
    )
    return reply


class Guard:
    """ASGI middleware that checks every request and adds security headers to every reply.

    Args:
        app: The application with the control API and the pages.
        token: The token that requests must carry. None allows requests without a token, but only to a loopback host.
        lease_token: A token that lets its holder take leases, and nothing else.
        token_of: Gives the token of the lease with an id, or None if there is no such lease.
    """

    def __init__(
        self, app: ASGIApp, token: str | None, lease_token: str | None, token_of: Callable[[str], str | None]
    ) -> None:
        self._app = app
        self._token = token
        self._lease_token = lease_token
        self._token_of = token_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(pair for pair in own if pair[0] not in present)]
            await send(message)

        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        try:
            self._check(scope["method"], scope["path"], headers)
        except DaemonRefusal as refusal:
            is_page = "text/html" in headers.get("accept", "") and scope["method"] in _SAFE
            reply = RedirectResponse(SIGN_IN, 303) if refusal.status == 401 and is_page else refused(refusal)
            await reply(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)

    def _check(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        if self._token is None and not is_loopback(_host_of(headers.get("host", ""))):
            raise DaemonRefusal(
                "the Host of the request is not this machine's loopback; use http://127.0.0.1 with the daemon's port",
                kind="foreign_host",
                status=421,
            )
        if not _is_same_site(method, headers):
            raise DaemonRefusal(
                "requests from pages of other sites are refused; open the daemon's own page, or send no Origin",
                kind="cross_site",
                status=403,
            )
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method not in _SAFE and kind != "application/json":
            raise DaemonRefusal(
                "send JSON with the header 'Content-Type: application/json'", kind="not_json", status=415
            )
        if not path.startswith(_OPEN) and not self._is_known(headers) and not self._is_of_lease(method, path, headers):
            raise DaemonRefusal(
                "the token is missing or wrong, or does not allow this request; send 'Authorization: Bearer TOKEN' "
                "with the LHAW_RECORD_TOKEN that the daemon was started with",
                kind="unauthorized",
                status=401,
            )

    def _is_known(self, headers: Mapping[str, str]) -> bool:
        if self._token is None:
            return True
        cookie = _cookie_of(headers.get("cookie", ""))
        is_session = hmac.compare_digest(cookie.encode(), session_of(self._token).encode())
        return is_session or is_token(_bearer_of(headers), self._token)

    def _is_of_lease(self, method: str, path: str, headers: Mapping[str, str]) -> bool:
        if path == LEASES and method == "POST":
            opening = self._lease_token
        elif path.startswith(f"{LEASES}/"):
            opening = self._token_of(path.split("/")[3]) or self._lease_token
        else:
            return False
        return opening is not None and is_token(_bearer_of(headers), opening)


def session_of(token: str) -> str:
    """Return the value of the session cookie, a digest that proves knowledge of the token without containing it."""
    return hmac.digest(token.encode(), b"lhaw-record page", "sha256").hex()


def is_token(given: str, token: str) -> bool:
    """Return whether a string equals the token. The comparison takes constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bearer_of(headers: Mapping[str, str]) -> str:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _host_of(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if ":" in header else header


def _is_same_site(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a request comes from the daemon's own pages, from outside a page, or from following a link."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return False
    site = headers.get("sec-fetch-site", "none")
    return site in ("same-origin", "none") or (method in _SAFE and headers.get("sec-fetch-dest") == "document")


def _cookie_of(header: str) -> str:
    try:
        cookies = SimpleCookie(header)
    except CookieError:
        return ""
    return cookies[COOKIE].value if COOKIE in cookies else ""
