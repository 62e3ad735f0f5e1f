"""Recognise that a program in a container met a limit of the machine, also where it went on as if it had not."""

LEAST_FREE_KB = 1024
_FULL = ("no space left on device", "out of diskspace", "disk quota exceeded")
_LIMITS = (
    "died of signal",
    "file too large",
    "cannot allocate memory",
    "out of memory, malloc failed",
    "resource temporarily unavailable",
    "unable to create thread",
    "too many open files",
)


def free_space_command(*paths: str) -> str:
    """Return a command that prints the free kilobytes at each path."""
    return f"df -Pk {' '.join(paths)} | awk 'NR > 1 {{ print $4 }}'"


def is_full(said: str, free_space: str, quoted: str = "") -> bool:
    """Return whether a program failed because the disk is full."""
    said, quoted = said.lower(), quoted.lower()
    free_kb = [int(word) for word in free_space.split() if word.isdigit()]
    return (
        any(words in said and words not in quoted for words in _FULL)
        or min(free_kb, default=LEAST_FREE_KB) < LEAST_FREE_KB
    )


def names_limit(said: str) -> bool:
    """Return whether a program's output names a limit of memory, processes, open files or the size of a file."""
    return any(words in said.lower() for words in _LIMITS)
