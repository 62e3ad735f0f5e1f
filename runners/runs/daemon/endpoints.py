"""The API as a table of endpoints, its JSON replies, and the OpenAPI description that is generated from the table."""

import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from lhaw_record.recorder.errors import RecorderError, RecordingFailed
from lhaw_record.runners.base.errors import RunnerError
from lhaw_record.runners.runs.daemon import leasing, orders
from lhaw_record.runners.runs.daemon.daemon import Daemon
from lhaw_record.runners.runs.daemon.messages import (
    ApiMessage,
    AttemptNote,
    DaemonFacts,
    DaemonRefusal,
    Detail,
    ErrorDetail,
    ErrorReply,
    ExperimentOrder,
    LeaseClosing,
    LeaseReply,
    LeaseRequest,
    Listing,
    OpenQuestions,
    PersonAnswer,
    RequeueReply,
    Retuning,
    Submission,
    TrialChange,
)
from lhaw_record.runners.users.simulated_user.person import open_questions

MAX_BODY_BYTES = 4 << 20
_STATUSES = {
    401: "The token is missing or wrong.",
    403: "The request comes from a page of another site.",
    404: "There is nothing with that name.",
    409: "The present state does not allow the request; the message says why.",
    413: "The request is too large.",
    415: "The request is not JSON.",
    421: "The Host is not this machine's loopback.",
    422: "The request is not valid; the message says why.",
    503: "Not now; the message says why.",
    507: "The request could not be recorded, so nothing was changed. After a command, the daemon stops.",
}
_EVENT_STREAM = (
    "Server-sent events. `snapshot`: {experiments: [Detail]}, first, and whenever events were missed; `experiment`: a "
    "Detail without its live trials, a few times a second at most; `trial`: a TrialChange."
)
M = TypeVar("M", bound=ApiMessage)
RequestHandler = Callable[[Request], Awaitable[Response]]
ApiHandler = Callable[[Any, str, Any], Awaitable[ApiMessage]]
"""Answers a request: its arguments are what the endpoint is served for, the name in the path, and the body."""


class ApiEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of the API. ``errors`` are the HTTP statuses of its refusals, besides those of the guard."""

    path: str
    operation: str
    summary: str
    response: type[ApiMessage]
    handler: ApiHandler
    request: type[ApiMessage] | None = None
    errors: tuple[int, ...] = ()

    @property
    def method(self) -> str:
        """The HTTP method: what has a body is posted."""
        return "GET" if self.request is None else "POST"

    def route(self, subject: Any) -> Route:
        """Return the route that serves this endpoint. Its handler gets ``subject``, for example the daemon."""

        async def answer(request: Request) -> Response:
            try:
                body = await _body(request, self.request) if self.request else None
                name = request.path_params.get("name", "")
                return as_json(await self.handler(subject, name, body))
            except Exception as error:  # noqa: BLE001 - turned into a reply in one place
                return refused(refusal_of(error))

        return Route(self.path, answer, methods=[self.method], name=self.operation)


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    """What another layer adds to the daemon's API and pages.

    ``subject`` is what the handlers of ``endpoints`` get; ``pages`` are the routes of web pages.
    """

    subject: Any
    endpoints: tuple[ApiEndpoint, ...]
    pages: tuple[BaseRoute, ...]


async def _facts(daemon: Daemon, _: str, __: None) -> ApiMessage:
    return daemon.facts()


async def _list(daemon: Daemon, _: str, __: None) -> ApiMessage:
    return daemon.listing()


async def _one(daemon: Daemon, name: str, _: None) -> ApiMessage:
    return daemon.detail(orders.known(daemon, name).name)


async def _questions(daemon: Daemon, _: str, __: None) -> ApiMessage:
    return OpenQuestions(questions=tuple(open_questions(daemon.store.questions_dir)))


def _order(verb: str, summary: str, handler: ApiHandler, **changes: Any) -> ApiEndpoint:
    settings: dict[str, Any] = {
        "request": ExperimentOrder,
        "response": Detail,
        "errors": (404, 409, 422, 507),
        **changes,
    }
    path = f"/api/experiments/{{name}}/{verb}"
    return ApiEndpoint(path=path, operation=verb, summary=summary, handler=handler, **settings)


def _lease(
    verb: str, operation: str, summary: str, handler: ApiHandler, request: type[ApiMessage] = ExperimentOrder
) -> ApiEndpoint:
    return ApiEndpoint(
        path=f"/api/leases/{{name}}{verb}",
        operation=f"lease-{operation}",
        summary=summary,
        request=request,
        response=LeaseReply,
        handler=handler,
        errors=(404,) if operation == "heartbeat" else (404, 409),
    )


ENDPOINTS = (
    ApiEndpoint(
        path="/api/daemon",
        operation="daemon",
        summary="The identity and the load of this daemon.",
        response=DaemonFacts,
        handler=_facts,
    ),
    ApiEndpoint(
        path="/api/experiments",
        operation="list",
        summary="All submitted experiments.",
        response=Listing,
        handler=_list,
    ),
    ApiEndpoint(
        path="/api/experiments",
        operation="submit",
        summary="Submit an experiment file. The same file again changes nothing while it waits or runs.",
        request=Submission,
        response=Detail,
        handler=orders.submit,
        errors=(409, 422, 503, 507),
    ),
    ApiEndpoint(
        path="/api/experiments/{name}",
        operation="status",
        summary="One experiment: progress by agent and condition, cost, failures, live trials with their last events.",
        response=Detail,
        handler=_one,
        errors=(404,),
    ),
    _order("pause", "Start no further trials; running ones continue to their end.", orders.pause),
    _order("resume", "Continue after a pause, or retry an experiment that could not run.", orders.resume),
    _order("cancel", "End the running trials, and start none until the experiment is submitted again.", orders.cancel),
    _order("requeue", "Attempt the failed trials again, and no others.", orders.requeue, response=RequeueReply),
    _order(
        "concurrency",
        "Change how many trials may run at a time, with immediate effect.",
        orders.retune,
        request=Retuning,
    ),
    ApiEndpoint(
        path="/api/attempts/{name}/note",
        operation="note",
        summary="Write a note about an attempt. Notes change no number.",
        request=AttemptNote,
        response=AttemptNote,
        handler=orders.note,
        errors=(404, 409, 422, 507),
    ),
    ApiEndpoint(
        path="/api/questions",
        operation="questions",
        summary="The questions that wait for a person, each with the prompt as it was sent and the full prompt.",
        response=OpenQuestions,
        handler=_questions,
    ),
    ApiEndpoint(
        path="/api/questions/{name}",
        operation="answer",
        summary="Answer a question, or decline it with null. The first answer counts.",
        request=PersonAnswer,
        response=PersonAnswer,
        handler=orders.answer,
        errors=(409, 422),
    ),
    ApiEndpoint(
        path="/api/leases",
        operation="lease",
        summary="Take the next trial of a leased agent: its prompt, its model, its files. The client is the agent.",
        request=LeaseRequest,
        response=LeaseReply,
        handler=leasing.take,
        errors=(404, 422, 503),
    ),
    _lease("", "heartbeat", "Report that the client is alive, and get the state of the lease.", leasing.beat),
    _lease("/close", "close", "Have the trial graded. Repeats give the same grade.", leasing.close, LeaseClosing),
    _lease("/release", "release", "Give the trial back, so that the next client gets it.", leasing.release),
)


async def _body(request: Request, kind: type[ApiMessage]) -> ApiMessage:
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_BODY_BYTES:
            raise DaemonRefusal(f"the request is larger than {MAX_BODY_BYTES:,} bytes", kind="too_large", status=413)
    return decoded(bytes(content), kind)


def decoded(content: bytes, kind: type[M]) -> M:
    """Decode a request body strictly. An empty body counts as ``{}``."""
    try:
        return msgspec.json.decode(content or b"{}", type=kind)
    except msgspec.DecodeError as error:
        message = f"the body is not a valid {kind.__name__}: {error}; see /openapi.json"
        raise DaemonRefusal(message, kind="bad_request", status=422) from error


def description(version: str, endpoints: Sequence[ApiEndpoint] = ENDPOINTS) -> dict[str, Any]:
    kinds = {each for endpoint in endpoints for each in (endpoint.request, endpoint.response) if each}
    types: list[type[ApiMessage]] = sorted({*kinds, ErrorReply, Detail, TrialChange}, key=lambda each: each.__name__)
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    paths["/api/events"] = {"get": _event_stream()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "lhaw-record daemon", "version": version},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: ApiEndpoint) -> dict[str, Any]:
    guarded = (401, 403, 421) if endpoint.request is None else (401, 403, 413, 415, 421, 422)
    is_lease = endpoint.operation in ("lease", "lease-heartbeat")
    found: dict[str, Any] = {
        "operationId": endpoint.operation,
        "summary": endpoint.summary,
        "responses": {
            "200": {"description": "Done.", "content": _json(endpoint.response)},
            **({"202": {"description": "The trial is being opened; ask at Location."}} if is_lease else {}),
            **_refusals({*guarded, *endpoint.errors}),
        },
    }
    if "{name}" in endpoint.path:
        found["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    if endpoint.request is not None:
        found["requestBody"] = {"required": True, "content": _json(endpoint.request)}
    return found


def _event_stream() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "operationId": "events",
        "summary": _EVENT_STREAM,
        "parameters": [{"name": "experiment", "in": "query", "required": False, "schema": text}],
        "responses": {
            "200": {"description": "Events, for ever.", "content": {"text/event-stream": {"schema": text}}},
            **_refusals({401, 403, 421, 503}),
        },
    }


def _refusals(statuses: Iterable[int]) -> dict[str, Any]:
    return {str(each): {"description": _STATUSES[each], "content": _json(ErrorReply)} for each in sorted(statuses)}


def _json(kind: type[ApiMessage]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}


def as_json(value: ApiMessage, status: int = 200) -> Response:
    """Create a JSON reply from a message. It has the status 202 and an address if there is more to come."""
    if value.pending_at is not None:
        status, headers = 202, {"location": value.pending_at, "retry-after": "2"}
    else:
        headers = {}
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def refused(refusal: DaemonRefusal) -> Response:
    body = ErrorReply(error=ErrorDetail(kind=refusal.kind, message=str(refusal)))
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
