"""Whether a container's disk is full: by what programs say, and by what is left, since git has words of its own."""

LEAST_FREE_KB = 1024
_WORDS = ("no space left on device", "out of diskspace")


def free_space_command(*paths: str) -> str:
    """Return a command that prints the free kilobytes at each path."""
    return f"df -Pk {' '.join(paths)} | awk 'NR > 1 {{ print $4 }}'"


def is_full(said: str, free_space: str) -> bool:
    """Return whether a program failed for want of disk.

    Args:
        said: What it printed.
        free_space: What :func:`free_space_command` printed afterwards; nothing counts as enough.
    """
    free_kb = [int(word) for word in free_space.split() if word.isdigit()]
    return any(words in said.lower() for words in _WORDS) or min(free_kb, default=LEAST_FREE_KB) < LEAST_FREE_KB
