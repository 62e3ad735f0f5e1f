"""How far sweeps and laws look: far enough for every change, or as far as a night allows, with LHAW_RECORD_DEEP."""

import os

IS_DEEP = bool(os.environ.get("LHAW_RECORD_DEEP"))


def at_depth(usual: int, deep: int) -> int:
    """Return how many: of examples, of points of a sweep."""
    return deep if IS_DEEP else usual
