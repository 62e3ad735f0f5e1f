"""Time, CPU and memory, taken alike on both sides; nothing but the standard library, so every Python can run it.

    python tests/bench/timed.py RESULT_JSON PROGRAM [ARGUMENT ...]

starts one program from a process so small that its own memory is not charged to what it starts, and writes what the
program took from its start to its exit, children that it waited for included.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path


class Passage:
    """A stretch of this process: its wall time, and the CPU of the process and of children that it waited for."""

    def __init__(self):
        self._began_s, self._began_cpu_s = time.perf_counter(), _cpu_s()

    def end(self):
        """Return what the stretch took, in seconds."""
        return {"wall_s": time.perf_counter() - self._began_s, "cpu_s": _cpu_s() - self._began_cpu_s}


def _cpu_s():
    return sum(os.times()[:4])


def main(result, *command):
    """Run the command, write ``wall_s``, ``cpu_s`` and the ``peak_bytes`` of its largest process; pass its code on."""
    began_s = time.perf_counter()
    code = subprocess.run(command, check=False).returncode
    wall_s = time.perf_counter() - began_s
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = {"wall_s": wall_s, "cpu_s": used.ru_utime + used.ru_stime, "peak_bytes": used.ru_maxrss * 1024}
    Path(result).write_text(json.dumps(taken))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
