"""How much of the machine other programs use: recorded beside each measurement, and waited for to fall."""

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
QUIET_CPUS = 0.25
LOOK_S = 1.0


class Neighbours:
    """A stretch of time, and the CPUs that everything but the measured program used in it."""

    def __init__(self) -> None:
        self._began_s, self._began_busy_s = time.perf_counter(), _busy_s()

    def cpus(self, own_cpu_s: float = 0.0) -> float | None:
        """Return how many CPUs the others used since the beginning; None where the system does not tell.

        Args:
            own_cpu_s: What the measured program used meanwhile.
        """
        busy_s, wall_s = _busy_s(), time.perf_counter() - self._began_s
        if busy_s is None or self._began_busy_s is None:
            return None
        return max(0.0, busy_s - self._began_busy_s - own_cpu_s) / wall_s


def wait_for_quiet(patience_s: float) -> float:
    """Wait until others use little of the machine for a second, or patience is at its end; returns what was waited."""
    began_s = time.monotonic()
    while (waited_s := time.monotonic() - began_s) < patience_s:
        neighbours = Neighbours()
        time.sleep(LOOK_S)
        if (neighbours.cpus() or 0.0) < QUIET_CPUS:
            break
    return waited_s


def _busy_s() -> float | None:
    """Seconds of CPU that all programs together have used, those that a host took from this machine included."""
    try:
        fields = STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _, _, interrupts, soft_interrupts, stolen = map(int, fields[:8])
    return (user + nice + system + interrupts + soft_interrupts + stolen) / os.sysconf("SC_CLK_TCK")
