"""What the daemon refuses, each with the status that HTTP has for it.

RunnerError
└── DaemonRefusal      the request cannot be done; kind, status and a message with the next step
"""

from runners.errors import RunnerError


class DaemonRefusal(RunnerError):
    """The request cannot be done.

    Args:
        message: What cannot be done, with which thing, and the next step.
        kind: A short stable word.
        status: The HTTP status.
    """

    def __init__(self, message: str, *, kind: str, status: int) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
