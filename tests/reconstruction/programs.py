"""Integer programs with wishes: sums that must hold, and sums that should, of which as few as possible are given up."""

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

Terms = dict[str, float]
_SOLVE_SECONDS = 20.0


class Program:
    """Whole numbers with names, found so that every rule holds and as many wishes as possible."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._highs: list[float] = []
        self._costs: list[float] = []
        self._rules: list[tuple[Terms, float, float]] = []

    def number(self, name: str, high: float, cost: float = 0.0) -> str:
        """Add a number from 0 to ``high``; returns its name."""
        self._places[name] = len(self._highs)
        self._highs.append(high)
        self._costs.append(cost)
        return name

    def rule(self, terms: Terms, low: float, high: float) -> None:
        """Demand that a sum of numbers times factors lies between two bounds."""
        self._rules.append((terms, low, high))

    def wish(self, terms: Terms, wanted: float, slack: float, near: float = 0.0) -> None:
        """Ask for a sum, ``near`` at most away; where it cannot be had it may be off by ``slack`` at most."""
        given_up = self.number(f"given up {len(self._highs)}", 1, cost=1.0)
        self.rule({**terms, given_up: -slack}, -np.inf, wanted + near)
        self.rule({**terms, given_up: slack}, wanted - near, np.inf)

    def solve(self) -> dict[str, int]:
        """Return the numbers.

        Raises:
            AssertionError: No numbers keep the rules.
        """
        entries = [
            (row, self._places[name], factor)
            for row, (terms, _, _) in enumerate(self._rules)
            for name, factor in terms.items()
        ]
        rows, columns, factors = zip(*entries, strict=True)
        matrix = coo_array((factors, (rows, columns)), shape=(len(self._rules), len(self._highs))).tocsr()
        lows, highs = ([rule[side] for rule in self._rules] for side in (1, 2))
        found = milp(
            np.array(self._costs),
            constraints=LinearConstraint(matrix, lows, highs),
            integrality=np.ones(len(self._highs)),
            bounds=Bounds(0, np.array(self._highs)),
            options={"time_limit": _SOLVE_SECONDS},
        )
        assert found.x is not None, found.message
        return {name: round(found.x[place]) for name, place in self._places.items()}
