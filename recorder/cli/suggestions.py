"""What a user may have meant by a word that is not known."""

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'overall'?`` with the nearest known word, or nothing if none is near."""
    from difflib import get_close_matches  # 10 ms that only a wrong word costs

    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
