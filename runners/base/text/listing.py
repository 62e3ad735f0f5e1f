"""Names in a message: the first of them, and how many more there are."""

from collections.abc import Iterable


def listed(names: Iterable[str], most: int = 12) -> str:
    """Join the first names of a list for a message, and say how many more there are."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return (", ".join(found[:most]) or "none") + more
