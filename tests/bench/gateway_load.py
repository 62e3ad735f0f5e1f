"""Agents that do nothing but call: many trials at once over plain connections, with histories that grow."""

import asyncio
import json
import time
from typing import Any, Self

import msgspec


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What a number of calls took: each, all together, and of the CPU of the process that is measured."""

    took_ms: list[float]
    wall_s: float
    cpu_s: float = 0.0

    @property
    def per_second(self) -> float:
        """Calls per second."""
        return len(self.took_ms) / self.wall_s

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of CPU for a call."""
        return self.cpu_s * 1e3 / len(self.took_ms)

    def quantile_ms(self, share: float) -> float:
        """Return the milliseconds that a share of the calls took at most."""
        return sorted(self.took_ms)[int(len(self.took_ms) * share)]


def opening() -> list[dict[str, Any]]:
    """The first messages of a trial."""
    return [{"role": "system", "content": "r" * 1000}, {"role": "user", "content": "p" * 1000}]


def told(call_id: str = "") -> dict[str, Any]:
    """The result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": "w" * 400}


class Connection:
    """One kept connection to a server, with as little of HTTP as the bench needs."""

    def __init__(self, url: str) -> None:
        self._host, port = url.removeprefix("http://").split(":")
        self._port = int(port)

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._writer.close()

    async def post(self, path: str, payload: bytes = b"") -> bytes:
        """Send a request and return the body of its answer, which must be 200."""
        self._writer.write(
            f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-length: {len(payload)}\r\n\r\n".encode() + payload
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise RuntimeError(f"{path} was answered with {head!r} {body[:300]!r}")
        return body


async def run(url: str, *, trials: int, turns: int, first: int = 0, has_keys: bool = True) -> Load:
    """Run trials at once and return what their calls took.

    Args:
        url: The server.
        trials: How many at once.
        turns: Calls of each, one after another.
        first: The number of the first trial, which no other run may have used.
        has_keys: The server has addresses by trial, which are begun and ended; else it takes any address.
    """
    took_ms: list[float] = []

    async def trial(key: int) -> None:
        async with Connection(url) as connection:
            if has_keys:
                await connection.post(f"/begin/{key}")
            messages = opening()
            for _ in range(turns):
                payload = json.dumps({"model": "m", "messages": messages, "tools": TOOLS}).encode()
                began_s = time.perf_counter()
                body = await connection.post(f"/t/{key}/v1/chat/completions", payload)
                took_ms.append((time.perf_counter() - began_s) * 1e3)
                message = json.loads(body)["choices"][0]["message"]
                messages += [message, told(message["tool_calls"][0]["id"])]
            if has_keys:
                await connection.post(f"/end/{key}")

    began_s = time.perf_counter()
    await asyncio.gather(*(trial(first + number) for number in range(trials)))
    return Load(took_ms=took_ms, wall_s=time.perf_counter() - began_s)


TOOLS = [
    {"type": "function", "function": {"name": name, "description": "d" * 200, "parameters": {"type": "object"}}}
    for name in ("work", "read", "write", "ask_user", "search")
]
