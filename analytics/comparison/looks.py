"""The looks of a study that stops when a gain is shown: the level of each, and its test on what a store has by then.

Source: I. K. Hwang, W. J. Shih and J. S. De Cani, Statistics in Medicine 9 (1990), the spending of the level; K. K. G.
Lan and D. L. DeMets, Biometrika 70 (1983); P. Armitage, C. K. McPherson and B. C. Rowe, JRSS A 132 (1969), and C.
Jennison and B. W. Turnbull, Group sequential methods (2000), 19, for the integration over earlier looks.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

_LEVEL = 0.05
_GAMMA = -2.0
"""Little is spent early, so that the last of four looks keeps 0.037 of 0.05."""

_NODES = 200

_TEST = """
select estimate.p_value
from (
    select gain_estimate(numerator, reason, cluster_id) as estimate
    from unit_values
    where agent = $agent and measure = $measure || '_gain' and list_contains($tasks, task_id)
)
"""


class GroupSequentialRule:
    """Equal looks at a growing number of tasks, which together hold the level 0.05."""

    def levels(self, looks: int) -> tuple[float, ...]:
        """Return the nominal two-sided level of each look."""
        return _levels(looks)

    def p_value(self, store: Path, experiment: str, agent: str, measure: str, tasks: Sequence[str]) -> float | None:
        """Test the gain from asking on some tasks, as the tables do. None with too few of them."""
        from lhaw_record.analytics.views.store import open as open_store

        with open_store(store, parameters={"experiment": experiment}, only={"unit_values"}) as connection:
            values = {"agent": agent, "measure": measure, "tasks": list(tasks)}
            (found,) = connection.execute(_TEST, values).fetchall()
        return None if found[0] is None else float(found[0])


@lru_cache(maxsize=16)
def _levels(looks: int) -> tuple[float, ...]:
    """Find at each look the bound that spends what is due, given that no earlier look reached its own.

    The state is a sum of standard normal increments, whose density between the bounds is kept at Gauss-Legendre nodes.
    """
    import numpy as np
    from scipy.optimize import brentq
    from scipy.stats import norm

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    states, masses = np.zeros(1), np.ones(1)
    found, spent = [], 0.0
    for look in range(1, looks + 1):
        due = _LEVEL * (1 - math.exp(-_GAMMA * look / looks)) / (1 - math.exp(-_GAMMA))

        def missed(bound: float) -> float:
            return float(masses @ (norm.sf(bound - states) + norm.cdf(-bound - states))) - (due - spent)  # noqa: B023

        bound = brentq(missed, 0.0, 10.0 * math.sqrt(look))
        found.append(float(2 * norm.sf(bound / math.sqrt(look))))
        spent, new = due, bound * nodes
        masses = bound * weights * (norm.pdf(new[:, None] - states) @ masses)
        states = new
    return tuple(found)
