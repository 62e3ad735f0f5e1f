"""The control API as one table: addresses, what goes in and out, and what is done; its description is made from it."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runners.daemon import orders
from runners.daemon.daemon import Daemon
from runners.daemon.errors import DaemonRefusal
from runners.daemon.messages import (
    DaemonFacts,
    Detail,
    Listing,
    Message,
    Order,
    Requeued,
    Retuning,
    Submission,
)
from runners.daemon.replies import as_json, refusal_of, refused

MAX_BODY_BYTES = 4 << 20

M = TypeVar("M", bound=Message)
Handler = Callable[[Daemon, str, Any], Awaitable[Message]]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. ``errors`` are the statuses that it may refuse with, besides those of the guard."""

    method: str
    path: str
    operation: str
    summary: str
    response: type[Message]
    handler: Handler
    request: type[Message] | None = None
    errors: tuple[int, ...] = ()

    def route(self, daemon: Daemon) -> Route:
        """Return it as a route of an application."""

        async def answer(request: Request) -> Response:
            try:
                body = await _body(request, self.request) if self.request else None
                name = request.path_params.get("name", "")
                return as_json(await self.handler(daemon, name, body))
            except Exception as error:  # noqa: BLE001 - turned into a reply in one place
                return refused(refusal_of(error))

        return Route(self.path, answer, methods=[self.method], name=self.operation)


async def _facts(daemon: Daemon, _: str, __: None) -> Message:
    return daemon.facts()


async def _list(daemon: Daemon, _: str, __: None) -> Message:
    return Listing(experiments=tuple(map(daemon.overview, daemon.queue.entries)))


async def _one(daemon: Daemon, name: str, _: None) -> Message:
    return daemon.detail(orders.known(daemon, name).name)


async def _submit(daemon: Daemon, _: str, body: Submission) -> Message:
    return await orders.submit(daemon, body)


async def _pause(daemon: Daemon, name: str, body: Order) -> Message:
    return await orders.pause(daemon, name, body.by)


async def _resume(daemon: Daemon, name: str, body: Order) -> Message:
    return await orders.resume(daemon, name, body.by)


async def _cancel(daemon: Daemon, name: str, body: Order) -> Message:
    return await orders.cancel(daemon, name, body.by)


async def _retune(daemon: Daemon, name: str, body: Retuning) -> Message:
    return await orders.retune(daemon, name, body.concurrency, body.by)


async def _requeue(daemon: Daemon, name: str, body: Order) -> Message:
    return await orders.requeue(daemon, name, body.by)


def _order(verb: str, summary: str, handler: Handler, **changes: Any) -> Endpoint:
    settings: dict[str, Any] = {"request": Order, "response": Detail, "errors": (404, 409, 422, 507), **changes}
    path = f"/api/experiments/{{name}}/{verb}"
    return Endpoint(method="POST", path=path, operation=verb, summary=summary, handler=handler, **settings)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/daemon",
        operation="daemon",
        summary="Which daemon this is, and how busy.",
        response=DaemonFacts,
        handler=_facts,
    ),
    Endpoint(
        method="GET",
        path="/api/experiments",
        operation="list",
        summary="Every experiment that was submitted.",
        response=Listing,
        handler=_list,
    ),
    Endpoint(
        method="POST",
        path="/api/experiments",
        operation="submit",
        summary="Submit an experiment file. The same file again changes nothing while it waits or runs.",
        request=Submission,
        response=Detail,
        handler=_submit,
        errors=(409, 422, 503, 507),
    ),
    Endpoint(
        method="GET",
        path="/api/experiments/{name}",
        operation="status",
        summary="One experiment: progress by agent and condition, cost, failures, live trials.",
        response=Detail,
        handler=_one,
        errors=(404,),
    ),
    _order("pause", "Start no further trial; what is running goes on to its end.", _pause),
    _order("resume", "Go on after a pause, or try an experiment again that could not run.", _resume),
    _order("cancel", "End the running trials, and do not start again before it is submitted again.", _cancel),
    _order("requeue", "Attempt failed trials again, and nothing else.", _requeue, response=Requeued),
    _order("concurrency", "Change how many trials run at a time, at once.", _retune, request=Retuning),
)


async def _body(request: Request, kind: type[Message]) -> Message:
    """The body of a request.

    Raises:
        DaemonRefusal: It is too large, or not what it should be.
    """
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_BODY_BYTES:
            raise DaemonRefusal(f"the request is larger than {MAX_BODY_BYTES:,} bytes", kind="too_large", status=413)
    return decoded(bytes(content), kind)


def decoded(content: bytes, kind: type[M]) -> M:
    """Return a body decoded strictly; an empty one counts as ``{}``.

    Raises:
        DaemonRefusal: It is not what it should be.
    """
    try:
        return msgspec.json.decode(content or b"{}", type=kind)
    except msgspec.DecodeError as error:
        message = f"the body is no {kind.__name__}: {error}; see /openapi.json"
        raise DaemonRefusal(message, kind="bad_request", status=422) from error
