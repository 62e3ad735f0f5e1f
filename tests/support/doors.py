"""What tests put into a door in place of its pace."""

from lhaw_record.runners.models.endpoints.pace import Pace


class Unhurried(Pace):
    """A pace that never waits, for tests of everything else."""

    def delay_s(self, now_s):
        """Never wait."""
        return 0.0
