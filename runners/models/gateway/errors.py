"""Error responses to the agent: refusals by the gateway, and failures of the model.

RunnerError
└── GatewayRefusal     a status, a kind and a sentence, which each wire writes in its own error format
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lhaw_record.runners.base.errors import RunnerError
from lhaw_record.runners.models.failures import ProviderError
from lhaw_record.runners.models.protocol import ModelError

# Used if the provider sent no status. Clients retry on 429 and on 500 or above, and give up on other statuses.
_STATUS_OF_KIND = {
    "rate_limit": 429,
    "timeout": 504,
    "server_error": 502,
    "malformed_reply": 502,
    "unknown_ending": 502,
    "connection": 502,
    "endpoint_down": 503,
    "authentication": 401,
    "context_window": 400,
    "content_filter": 400,
    "endless_reply": 504,
    "bad_request": 400,
}


class GatewayRefusal(RunnerError):
    """An error response by the gateway.

    Args:
        message: What happened and what to do next, without secrets or stack traces.
        kind: An error kind of ModelError, or one of the gateway's own, such as ``not_found`` or ``too_large``.
        retry_after_s: Seconds that the provider asked to wait, or None.
        body: The provider's own response body, if it uses the agent's wire.
        headers: The provider's headers to pass on to the agent.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "bad_request",
        retry_after_s: float | None = None,
        body: dict[str, Any] | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.body = body
        self.headers = headers


def refusal_of(error: ModelError) -> GatewayRefusal:
    """Return the refusal for a failed call, with the provider's status if it sent one."""
    own = error if isinstance(error, ProviderError) else None
    status = error.http_status or _STATUS_OF_KIND.get(error.kind, 500)
    return GatewayRefusal(
        str(error),
        status=status,
        kind=error.kind,
        retry_after_s=error.retry_after_s,
        body=own.body if own else None,
        headers=own.headers if own else {},
    )
