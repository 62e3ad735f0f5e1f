"""What an agent gets instead of a reply: a refusal of ours, or the failure of what lies behind the gateway.

RunnerError
└── Refusal     a status, a word for the reason and a sentence; each wire writes it in its own dialect
"""

from runners.errors import RunnerError
from runners.models.protocol import ModelError

# Where the provider sent no status. Clients ask again at 429 and from 500 on, and give up at other statuses.
_STATUS_OF_KIND = {
    "rate_limit": 429,
    "timeout": 504,
    "server_error": 502,
    "malformed_reply": 502,
    "connection": 502,
    "authentication": 401,
    "context_window": 400,
    "bad_request": 400,
}


class Refusal(RunnerError):
    """A request that gets no reply.

    Args:
        message: What happened, without secrets and traces, and the next step.
        status: The HTTP status.
        kind: As in ModelError, or ``not_found`` or ``too_large``.
        retry_after_s: Seconds the provider asked to wait, if it did.
    """

    def __init__(
        self, message: str, *, status: int = 400, kind: str = "bad_request", retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.retry_after_s = retry_after_s


def refusal_of(error: ModelError) -> Refusal:
    """Return what the agent is told of a failed call: the provider's own status where it sent one."""
    status = error.http_status or _STATUS_OF_KIND.get(error.kind, 500)
    return Refusal(str(error), status=status, kind=error.kind, retry_after_s=error.retry_after_s)
