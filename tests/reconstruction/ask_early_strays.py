"""Which actions before an injection are in no full trial, so that as much is wasted as table 6 of Ask Early says."""

from collections import Counter
from collections.abc import Sequence

from tests.reconstruction.printed_values import rows
from tests.reconstruction.told import Told, name_of


def with_strays(benchmark: str, trials: Sequence[Told]) -> list[Told]:
    """Return the trials of a benchmark with their wasted actions."""
    strays: dict[int, int] = {}
    for row in rows("askearly_wasted", benchmark=benchmark):
        is_share = row["metric"] == "wasted_pct"
        places = [
            place
            for place, told in enumerate(trials)
            if told.condition == row["condition"] and told.injected_after is not None
        ]
        strays |= _spread(trials, places, float(row["value"]) / (100 if is_share else 1), is_share=is_share)
    return [told._replace(strays=strays.get(place, 0)) for place, told in enumerate(trials)]


def _spread(trials: Sequence[Told], places: Sequence[int], mean: float, *, is_share: bool) -> dict[int, int]:
    """Wasted actions by trial so that the mean over units comes near: first where one adds much, last where little."""
    unit_of = {place: (trials[place].agent, name_of(trials[place].unit)) for place in places}
    n_trials = Counter(unit_of.values())
    adds = {
        place: 1 / (len(n_trials) * n_trials[unit_of[place]] * ((trials[place].injected_after or 1) if is_share else 1))
        for place in places
    }
    found, left, least = {}, mean, min(adds.values())
    for place in sorted(places, key=lambda each: -adds[each]):
        wanted = left / adds[place]
        found[place] = min(trials[place].injected_after or 0, round(wanted) if adds[place] == least else int(wanted))
        left -= found[place] * adds[place]
    return found
