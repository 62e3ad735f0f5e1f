"""Connections to providers that are called in their own dialect, without litellm in between.

aiohttp takes a third of the CPU that httpx takes for a call.
"""

import asyncio
from functools import cache
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

_SESSIONS: "WeakKeyDictionary[asyncio.AbstractEventLoop, Any]" = WeakKeyDictionary()
_IDLE_S = 60.0  # a choice; providers close idle connections, and a call on one that is just being closed would fail
_CONNECT_S = 30.0  # a choice: several times the retransmissions of a lost SYN (1, 2 and 4 s, RFC 6298)


def http_session() -> Any:
    """Return the session of the running event loop. It has no time limits of its own, and keeps no cookies."""
    import aiohttp

    loop = asyncio.get_running_loop()
    session = _SESSIONS.get(loop)
    if session is None or session.closed:
        session = _SESSIONS[loop] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"accept-encoding": "identity"},
            auto_decompress=True,
        )
    return session


@cache
def proxy_of(base: str) -> str | None:
    """Return the proxy that the environment names for an address, or None.

    aiohttp's own ``trust_env`` looks it up in a thread, and reads ~/.netrc in another one, before every request.
    """
    parts = urlsplit(base)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


async def close_http_session() -> None:
    """Close the connections of the running event loop."""
    session = _SESSIONS.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()
