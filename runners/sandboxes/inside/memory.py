"""Notice that the system ended a process of this sandbox because its memory was used up."""

import os


class MemoryKills:
    """Counts such ends.

    Args:
        paths: Files of the control group, of either version, that may say ``oom_kill N``; none where it cannot be read.
    """

    def __init__(self, paths: list[str]) -> None:
        self._descriptor = -1
        for path in paths:
            try:
                self._descriptor = os.open(path, os.O_RDONLY)
            except OSError:
                continue
            break
        self._seen = self._count()

    def has_grown(self) -> bool:
        """Return whether there were more since the last call."""
        before, self._seen = self._seen, self._count()
        return self._seen > before

    def _count(self) -> int:
        if self._descriptor >= 0:
            for line in os.pread(self._descriptor, 4096, 0).splitlines():
                words = line.split()
                if len(words) == 2 and words[0] == b"oom_kill":
                    return int(words[1])
        return 0
