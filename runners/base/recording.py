"""The interface of a recording stream, as far as the runners need it: appending events."""

from typing import Protocol

from lhaw_record.recorder.events import AnyEvent


class Recording(Protocol):
    """An open event stream of one trial attempt, run or generation run."""

    async def append(self, *events: AnyEvent) -> None:
        """Append events in order and return when they are durable."""
        ...
