"""Converts failed model calls into ModelError: an error kind, and a message without traceback or secrets.

litellm reports a non-JSON body, a dropped connection and a real HTTP 500 as the same class with status 500. The chain
of causes shows the actual failure: a provider response, a transport error, or neither.

Errors can also arrive inside a reply: if a provider fails after it has sent HTTP 200, the error is in the body.
OpenRouter writes a top-level ``error``, or one in the first choice
(openrouter.ai/docs/api/reference/errors-and-debugging). Anthropic writes ``{"type": "error"}``, and the Responses API
``"status": "failed"``.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import msgspec

from lhaw_record.recorder.writing.redaction import Redactor, secrets_of
from lhaw_record.runners.base.conversation.ending import ENDLESS_REPLY
from lhaw_record.runners.models.endings import limit_in, limit_in_error
from lhaw_record.runners.models.endpoints.hints import retry_after_s, retry_headers
from lhaw_record.runners.models.exchanges import MOST_REPLY_BYTES
from lhaw_record.runners.models.litellm_library import litellm_library
from lhaw_record.runners.models.protocol import ModelError

RETRYABLE = frozenset({"rate_limit", "timeout", "server_error", "malformed_reply", "connection"})
KIND_OF_STATUS = {
    401: "authentication",
    402: "other",
    403: "authentication",
    408: "timeout",
    429: "rate_limit",
    504: "timeout",
}

_STATUS_OF_WORD = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 402,
    "timeout_error": 504,
}
_WORDS = {
    "rate_limit": "rate limit",
    "timeout": "no reply in time",
    "server_error": "server error",
    "malformed_reply": "malformed reply",
    "connection": "no connection",
    "authentication": "not authorised (check the provider's key)",
    "context_window": "the conversation exceeds the model's context window",
    "content_filter": "stopped by a content filter",
    "bad_request": "request refused",
    "other": "failed",
}
_PREFIX = re.compile(r"^(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?: Error)?\s*(?::|-)\s*)+")
_LONGEST_MESSAGE = 400  # characters; a choice: every provider's message fits, an HTML page does not
_MOST_READ = 2 * _LONGEST_MESSAGE  # with the prefixes and spaces that are left out
_UNAUTHORIZED = 401
_WITHOUT_CODE = 422  # litellm's status for an in-band error without a code


def to_model_error(
    error: Exception, *, model: str, secrets: Iterable[str] = (), is_accepted: bool = False, is_sent: bool = True
) -> ModelError:
    """Return the ModelError for a failed call. What failed here before anything was sent is not the server's."""
    chain = list(_chain(error))
    status = _provider_status(chain)
    kind = _kind(chain, status, is_accepted=is_accepted)
    is_local = kind in ("malformed_reply", "other") and not is_sent
    kind = "other" if is_local else kind
    return ModelError(
        _words(model, kind, f"not sent: {chain[-1]}" if is_local else str(error), secrets, status),
        kind=kind,
        is_retryable=kind in RETRYABLE and not _is_out_of_credit(chain),
        http_status=status,
        retry_after_s=retry_after_s(_rate_limits(chain), str(error)),
    )


class ProviderError(ModelError):
    """A failure reported by the provider itself, with the parts of its response that the agent may see."""

    body: dict[str, Any] | None = None
    """The response body, without secrets, or None if it is not a JSON object."""
    headers: Mapping[str, str] = MappingProxyType({})
    """The response's rate-limit and retry headers."""


def response_error(
    status: int, headers: Mapping[str, str], raw: bytes, *, model: str, secrets: Iterable[str], shown: Mapping[str, str]
) -> ModelError:
    """Return the ModelError for a provider's response with an HTTP status of 400 or more."""
    text = _redactor(frozenset({*secrets, *secrets_of(os.environ)})).clean_text(raw.decode("utf-8", "replace"))
    try:
        body = msgspec.json.decode(text)
    except msgspec.DecodeError:
        body = None
    error = body.get("error") if isinstance(body, dict) else None
    found = error if isinstance(error, Mapping) else {}
    kind = limit_in([text], status) or kind_of_status(status)
    failed = ProviderError(
        _words(model, kind, str(found.get("message") or error or text), secrets, status),
        kind=kind,
        is_retryable=kind in RETRYABLE and found.get("code") != "insufficient_quota",
        http_status=status,
        retry_after_s=retry_after_s(retry_headers(headers), text),
    )
    failed.body, failed.headers = (body if isinstance(body, dict) else None), dict(shown)
    return failed


def transport_error(error: Exception, *, model: str, secrets: Iterable[str]) -> ModelError:
    """Return the ModelError for a request that got no response, or one that is not HTTP."""
    from aiohttp import ClientResponseError

    kind = "timeout" if isinstance(error, TimeoutError) else "connection"
    kind = "malformed_reply" if isinstance(error, ClientResponseError) else kind
    words = _words(model, kind, str(error) or type(error).__name__, secrets)
    return ModelError(words, kind=kind, is_retryable=True)


def endless_reply(what: str, *, model: str) -> ModelError:
    """Return the ModelError for a reply still being generated at the timeout; a retry would end the same way."""
    return ModelError(f"{model}: the reply does not end: {what}", kind=ENDLESS_REPLY, is_retryable=False)


def longer_reply(model: str) -> ModelError:
    """Return the ModelError for a reply that is too long to be read."""
    return endless_reply(f"it is longer than {MOST_REPLY_BYTES:,} bytes", model=model)


def _kind(chain: list[BaseException], status: int | None, *, is_accepted: bool) -> str:
    """Return the error kind: from litellm's class if precise, else from the provider's status, else the cause."""
    import httpx

    litellm: Any = litellm_library()
    first = chain[0]
    limit = limit_in(_texts(chain), status or _in_band_status(chain))
    if limit is not None or status == _UNAUTHORIZED:  # litellm looks for limits in any text
        return limit or kind_of_status(_UNAUTHORIZED)
    precise = {
        "context_window": (litellm.ContextWindowExceededError,),
        "content_filter": (litellm.ContentPolicyViolationError,),
        "timeout": (litellm.Timeout, TimeoutError),
        "authentication": (litellm.AuthenticationError, litellm.PermissionDeniedError),
        "rate_limit": (litellm.RateLimitError,),
    }
    for kind, classes in precise.items():
        if isinstance(first, classes):
            return kind
    if status is not None and status >= 400:
        return kind_of_status(status)
    in_band = _in_band_status(chain)
    if in_band is not None:
        return kind_of_status(in_band)
    if any(isinstance(cause, httpx.TransportError | ConnectionError) for cause in chain):
        return "connection"
    if isinstance(first, (litellm.BadRequestError, litellm.NotFoundError)):
        return "malformed_reply" if is_accepted else "bad_request"
    if isinstance(first, litellm.APIError | litellm.APIConnectionError | litellm.InternalServerError):
        # Neither rejected nor cut off: the reply was unreadable, or our installation is incomplete.
        return "other" if any(isinstance(cause, ImportError) for cause in chain) else "malformed_reply"
    return "other"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, outermost first."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _texts(chain: list[BaseException]) -> Iterator[str]:
    """Yield the messages and bodies of a failed call. Error codes are only in the body."""
    for cause in chain:
        yield str(cause)
        if body := getattr(cause, "body", None):
            yield str(body)


def _provider_status(chain: list[BaseException]) -> int | None:
    """Return the HTTP status sent by the provider, or None. litellm's own exception classes have invented statuses."""
    for cause in reversed(chain):
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if isinstance(status, int) and not type(cause).__module__.startswith("litellm"):
            return status
    return None


def _in_band_status(chain: list[BaseException]) -> int | None:
    """Return the code of an error in a reply's body, or None if there is no such error.

    litellm raises such an error as a plain exception, with 422 if the error has no code. In that case, and for an
    unknown non-numeric code, return 500.
    """
    cause = chain[-1]
    if type(cause) is not Exception or not hasattr(cause, "status_code"):
        return None
    status = _status(cause.status_code)
    return status if status is not None and status != _WITHOUT_CODE else 500


def _is_out_of_credit(chain: list[BaseException]) -> bool:
    """Return whether a rate-limit error actually means an empty account, for which waiting does not help."""
    bodies = (getattr(cause, "body", None) for cause in chain)
    return any(isinstance(body, Mapping) and body.get("code") == "insufficient_quota" for body in bodies)


def _rate_limits(chain: list[BaseException]) -> dict[str, str]:
    """Return the provider's rate-limit headers from the first exception that has them."""
    for cause in chain:
        headers = getattr(cause, "litellm_response_headers", None)
        if headers:
            return retry_headers(dict(headers))
    return {}


@lru_cache(maxsize=32)
def _redactor(secrets: frozenset[str]) -> Redactor:
    """Return the cached redactor of provider errors; building one takes as long as handling several 429 responses."""
    return Redactor(secrets)


def _words(model: str, kind: str, details: str, secrets: Iterable[str], status: int | None = None) -> str:
    """Format an error's message: its kind and the first useful words of its details, on one line, without secrets."""
    text = _redactor(frozenset({*secrets, *secrets_of(os.environ)})).clean_text(details, _MOST_READ)
    text = " ".join(text.partition("Traceback (most recent call last)")[0].split())
    text = _PREFIX.sub("", text)
    text = text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"
    http = f" (HTTP {status})" if status is not None else ""
    return f"{model}: {_WORDS[kind]}{http}" + (f": {text}" if text else "")


def refused_parameters(error: ModelError, names: Collection[str]) -> dict[str, str | None]:
    """Return the parameters that a server refuses by name, each with the name that it wants instead, or None.

    Only what the server says counts, not what its error repeats of the request or of a reply.
    """
    if error.kind != "bad_request" or error.exchange is None:
        return {}
    try:
        body = msgspec.json.decode(error.exchange.received or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    texts = []
    for part in (body, body.get("error") if isinstance(body, Mapping) else None):
        fields = part if isinstance(part, Mapping) else {"message": part}
        texts += [fields.get("message"), fields.get("param"), fields.get("detail")]
        details = fields.get("detail")
        for each in details if isinstance(details, list) else ():  # FastAPI's form
            texts += [(each.get("loc"), each.get("msg"))] if isinstance(each, Mapping) else []
    said = " ".join(str(text) for text in texts if not isinstance(text, list))
    refused: dict[str, str | None] = {name: None for name in names if re.search(rf"(?<![\w-]){name}(?![\w-])", said)}
    if "max_tokens" in refused and "max_completion_tokens" in said:
        refused["max_tokens"] = "max_completion_tokens"
    return refused


def without_refused(parameters: Mapping[str, Any], refused: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the parameters without the refused ones, or with these under the names that the server wants."""
    named = {refused.get(name, name): value for name, value in parameters.items()}
    return {name: value for name, value in named.items() if name is not None}


def kind_of_status(status: int) -> str:
    """Return the error kind for an HTTP status of 400 or more."""
    return KIND_OF_STATUS.get(status, "server_error" if status >= 500 else "bad_request")


def in_band_error(error: Any, model: str = "the provider") -> ModelError:
    """Return the ModelError for an error object in a reply's body. An unknown code counts as a server error."""
    found = error if isinstance(error, Mapping) else {"message": error}
    words = [found.get(key) for key in ("code", "type", "status")]
    status = next((status for word in words if (status := _status(word)) is not None), None)
    kind = limit_in_error(found, status) or (kind_of_status(status) if status is not None else "server_error")
    code = f" {status}" if status is not None else ""
    reason = str(found.get("message") or "it gives no reason")[:_LONGEST_MESSAGE]
    return ModelError(f"{model}: an error{code} came as a reply: {reason}", kind=kind, is_retryable=kind in RETRYABLE)


def check_choice(choice: Mapping[str, Any], model: str = "the provider") -> None:
    """Raise ModelError if a chat completion choice is an error, in the provider's form or litellm's."""
    extra = choice.get("provider_specific_fields") or {}
    error = choice.get("error") or extra.get("error")
    if error:
        raise in_band_error(error, model)


def _status(word: Any) -> int | None:
    """Return the HTTP status for a numeric or textual error code, or None if the code is unknown."""
    if isinstance(word, str) and not word.isdigit():
        return _STATUS_OF_WORD.get(word)
    try:
        status = int(word)
    except (TypeError, ValueError):
        return None
    return status if 400 <= status < 600 else None
