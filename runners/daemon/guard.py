"""The guard in front of the control API and the page: who may ask, from where, and in which form.

- Without a token the daemon listens on loopback only, and a request must name a loopback host: a page of another site
  that had its name point here (DNS rebinding) names that site.
- With a token every request carries it, as a bearer token or as the cookie that the sign-in page sets, and it is
  compared in constant time. A trial's token is another one, so it opens nothing here.
- Requests of other sites are refused by ``Origin`` and ``Sec-Fetch-Site``, and there is no CORS. What changes something
  must be JSON, which no form can send and no script of another site may send without asking first. So a token against
  cross-site forgery would add nothing: the forged request has the wrong origin, or none and the wrong type, and the
  cookie is ``SameSite=Strict``.
"""

import hmac
import ipaddress
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runners.daemon.errors import DaemonRefusal
from runners.daemon.replies import refused

COOKIE = "lhaw_record"
SHORTEST_TOKEN = 16
SIGN_IN = "/sign-in"
_OPEN = (SIGN_IN, "/api/sign-in", "/static/")
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


class Guard:
    """An application behind the checks; every reply gets the security headers.

    Args:
        app: The control API and the page.
        token: What requests must carry; None: nothing, on loopback.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""

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
        if not path.startswith(_OPEN) and not self._is_known(headers):
            raise DaemonRefusal(
                "the token is missing or wrong; send 'Authorization: Bearer TOKEN' with the LHAW_RECORD_TOKEN that the "
                "daemon was started with",
                kind="unauthorized",
                status=401,
            )

    def _is_known(self, headers: Mapping[str, str]) -> bool:
        if self._token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_bearer = scheme.lower() == "bearer" and is_token(given.strip(), self._token)
        cookie = _cookie_of(headers.get("cookie", ""))
        return is_bearer or hmac.compare_digest(cookie.encode(), session_of(self._token).encode())


def session_of(token: str) -> str:
    """Return what the cookie of a signed-in page holds: it proves the token and does not tell it."""
    return hmac.digest(token.encode(), b"lhaw-record page", "sha256").hex()


def is_token(given: str, token: str) -> bool:
    """Whether somebody gave the token; the time taken says nothing about where it differs."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def is_loopback(host: str) -> bool:
    """Whether a host is this machine's loopback, by its name or address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_of(header: str) -> str:
    """The host of a ``Host`` header without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if ":" in header else header


def _is_same_site(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a request comes from the daemon's own page, or from no page; following a link to a page is harmless."""
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
