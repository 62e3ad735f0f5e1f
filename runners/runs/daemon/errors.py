"""The error with which the daemon refuses a request.

RunnerError
└── DaemonRefusal      the daemon refuses a request: kind, HTTP status, and a message with the next step
"""

from lhaw_record.runners.base.errors import RunnerError


class DaemonRefusal(RunnerError):
    """The daemon refuses a request.

    Args:
        message: What cannot be done, and what to do next.
        kind: A short identifier of the error for programs. It never changes.
        status: The HTTP status of the reply.
    """

    def __init__(self, message: str, *, kind: str, status: int) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
