"""Wording shared by tables, pages and messages."""

from collections.abc import Iterable

CONDITION_LABELS = {
    "full": "full prompt",
    "underspecified": "underspecified",
    "ask_user": "may ask",
    **{f"inject_{percent}": f"told at {percent} %" for percent in (10, 30, 50, 70, 90)},
    "full_ask_user": "full, may ask",
    "control": "control",
    "control_ask_user": "control, may ask",
    "faulty": "faulty request",
    "faulty_ask_user": "faulty, may ask",
}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'overall'?`` with the closest known word, or an empty string if none is close."""
    from difflib import get_close_matches  # 10 ms, needed only for a misspelled word

    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
