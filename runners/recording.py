"""What the runners need of a recorder: append events to the stream of one trial."""

from typing import Protocol

from recorder.events import AnyEvent


class Recording(Protocol):
    """The open stream of one trial attempt, run or generation run."""

    async def append(self, *events: AnyEvent) -> None:
        """Append events in order and return when they are durable."""
        ...
