"""The OpenAPI description, made from the table of endpoints and the types of its messages."""

from collections.abc import Iterable
from typing import Any

import msgspec

from runners.daemon.endpoints import ENDPOINTS, Endpoint
from runners.daemon.messages import Detail, Message, Refused, TrialChange

_WORDS = {
    401: "The token is missing or wrong.",
    403: "The request comes from a page of another site.",
    404: "There is no such experiment.",
    409: "The experiment is in a state that does not allow it.",
    413: "The request is too large.",
    415: "The request is no JSON.",
    421: "The Host is not this machine's loopback.",
    422: "The request cannot be done as it is; the message says why.",
    503: "The daemon is stopping.",
    507: "The order could not be recorded; nothing was changed, and the daemon stops.",
}
_EVENTS = (
    "Server-sent events. `snapshot`: {experiments: [Detail]}, first, and whenever events were missed; `experiment`: a "
    "Detail without its live trials, a few times a second at most; `trial`: a TrialChange. Send the id of the last "
    "event as `Last-Event-ID` to go on after it."
)


def description(version: str) -> dict[str, Any]:
    """Return the description of the control API.

    Args:
        version: Of the program.
    """
    kinds = {each for endpoint in ENDPOINTS for each in (endpoint.request, endpoint.response) if each}
    types: list[type[Message]] = sorted({*kinds, Refused, Detail, TrialChange}, key=lambda each: each.__name__)
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    paths["/api/events"] = {"get": _events()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "lhaw-record daemon", "version": version},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    guarded = (401, 403, 421) if endpoint.request is None else (401, 403, 413, 415, 421, 422)
    found: dict[str, Any] = {
        "operationId": endpoint.operation,
        "summary": endpoint.summary,
        "responses": {
            "200": {"description": "Done.", "content": _json(endpoint.response)},
            **_refusals({*guarded, *endpoint.errors}),
        },
    }
    if "{name}" in endpoint.path:
        found["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    if endpoint.request is not None:
        found["requestBody"] = {"required": True, "content": _json(endpoint.request)}
    return found


def _events() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "operationId": "events",
        "summary": _EVENTS,
        "parameters": [
            {"name": "experiment", "in": "query", "required": False, "schema": text},
            {"name": "Last-Event-ID", "in": "header", "required": False, "schema": text},
        ],
        "responses": {
            "200": {"description": "Events, for ever.", "content": {"text/event-stream": {"schema": text}}},
            **_refusals({401, 403, 421, 503}),
        },
    }


def _refusals(statuses: Iterable[int]) -> dict[str, Any]:
    return {str(each): {"description": _WORDS[each], "content": _json(Refused)} for each in sorted(statuses)}


def _json(kind: type[Message]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
