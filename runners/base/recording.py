"""The event-stream interface that the runners need, and an implementation that notifies observers of each event."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from lhaw_record.recorder.events import AnyEvent

Observer = Callable[[AnyEvent], None]
"""Called with each event. An exception raised before the event is appended keeps it out of the stream."""


class Recording(Protocol):
    """An open event stream of one trial attempt, run or generation run."""

    async def append(self, *events: AnyEvent) -> None:
        """Append events in order and return when they are durable."""
        ...

    def defer(self, *events: AnyEvent) -> None:
        """Append events that become durable with the next append, which must come before anything follows from them."""
        ...


class ObservedRecording:
    """A recording with observers. Observers in ``before`` may reject an event; those in ``after`` see events that
    are durable or deferred.

    Args:
        recording: Appends the events.
        appending: Returns a context manager entered while events are appended, for example that of a clock.
    """

    def __init__(
        self, recording: Recording, appending: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self.before: list[Observer] = []
        self.after: list[Observer] = []
        self._recording = recording
        self._appending = appending

    async def append(self, *events: AnyEvent) -> None:
        """Append events in order, and return when they are durable and every observer has been notified."""
        _tell(self.before, events)
        with self._appending():
            await self._recording.append(*events)
        _tell(self.after, events)

    def defer(self, *events: AnyEvent) -> None:
        """Append events that become durable with the next append, and notify every observer."""
        _tell(self.before, events)
        self._recording.defer(*events)
        _tell(self.after, events)


def _tell(observers: list[Observer], events: tuple[AnyEvent, ...]) -> None:
    for event in events:
        for observe in observers:
            observe(event)
