"""How far sweeps and laws look: a quarter as far for ``make test``, or as far as a night allows.

``at_depth`` is for examples of a law and for lists of cases, ``IS_QUICK`` for what a test does under one name: with
these ``tests/support/tried.py`` tells what to run again although it passed in ``make test``.
"""

import os

IS_DEEP = bool(os.environ.get("LHAW_RECORD_DEEP"))
IS_QUICK = bool(os.environ.get("LHAW_RECORD_QUICK"))


def at_depth(usual: int, deep: int) -> int:
    """Return how many: of examples, of points of a sweep.

    Args:
        usual: In ``make test-all``; ``make test`` takes a quarter.
        deep: With ``LHAW_RECORD_DEEP``.
    """
    if IS_QUICK:
        return max(2, usual // 4)
    return deep if IS_DEEP else usual
