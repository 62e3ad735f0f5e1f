"""Slots: how many trials run at a time over all experiments, shared fairly between those that want more."""

from runners.scheduler import Scheduler


class Slots:
    """The schedulers of live runs and their common limit.

    A slot goes to a scheduler only if no other that wants one has fewer running trials. Nothing is counted here: who
    runs what is asked of the schedulers each time.

    Args:
        limit: Most trials at a time over all of them.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._schedulers: list[Scheduler] = []

    @property
    def taken(self) -> int:
        """How many trials are running."""
        return sum(len(scheduler.running) for scheduler in self._schedulers)

    def join(self, scheduler: Scheduler) -> None:
        """Let a scheduler take part."""
        self._schedulers.append(scheduler)

    def leave(self, scheduler: Scheduler) -> None:
        """Let a scheduler go; the others may take what it wanted."""
        self._schedulers.remove(scheduler)
        self.changed()

    def may_take(self, scheduler: Scheduler) -> bool:
        """Whether a scheduler may start one more trial now."""
        running = len(scheduler.running)
        others = (each for each in self._schedulers if each is not scheduler and len(each.running) < running)
        return self.taken < self.limit and not any(each.wants_more for each in others)

    def changed(self) -> None:
        """Wake every scheduler that wants a slot and may take one; called after every start and end."""
        for scheduler in self._schedulers:
            if scheduler.wants_more and self.may_take(scheduler):
                scheduler.wake()
