"""What the trials of each variant showed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lhaw_record.runners.runs.daemon.messages import ApiMessage

_OUTCOMES = """
    select variant_digest, agent, condition, count(*)::bigint as trials, count(*) filter (where is_success) as successes
    from trials
    where trial_state = 'valid' and variant_digest is not null
    group by all
    order by all
"""


class Outcome(ApiMessage, frozen=True):
    """How many of the valid trials of one agent with a variant under one condition succeeded."""

    agent: str
    condition: str
    trials: int
    successes: int


Outcomes = Mapping[str, Sequence[Outcome]]
"""What the trials of each variant showed, by variant digest."""


def outcomes_of(store: Path) -> Outcomes:
    """Return what the valid trials of each variant in a store showed."""
    from lhaw_record.analytics.views.rows import rows_of
    from lhaw_record.analytics.views.store import open as open_store

    with open_store(store, only={"trials"}) as connection:
        rows = rows_of(connection, _OUTCOMES)
    found: dict[str, list[Outcome]] = {}
    for row in rows:
        found.setdefault(row.pop("variant_digest"), []).append(Outcome(**row))
    return found
