"""How much of each text the page keeps: one length for all of them, the longest with which the page stays small."""

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import duckdb

LENGTHS = (20_000, 8_000, 4_000, 2_000, 1_000, 500, 300, 200, 120, 60)
BUDGET_CHARACTERS = 32_000_000
"""Of all texts of all trials together; they compress to about a quarter."""


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The length at which texts are cut, and what that leaves out."""

    length: int
    characters: int
    kept_characters: int

    def __str__(self) -> str:
        """The rule in words, as the page states it."""
        if self.kept_characters == self.characters:
            return "Every text is complete."
        return (
            f"Texts are cut after {self.length:,} characters, so that all of them together stay below "
            f"{BUDGET_CHARACTERS:,}; a cut text ends in … and says how long it was. The store has the rest."
        )


def choose(connection: "duckdb.DuckDBPyConnection", budget: int = BUDGET_CHARACTERS) -> Cut:
    """Return the longest of ``LENGTHS`` with which the texts of the shown attempts stay within a budget.

    Args:
        connection: One with the temporary table ``shown_trials``, see :mod:`analytics.report.trial_list`.
        budget: Characters.
    """
    sums = ", ".join(f"sum(least(n, {length}))" for length in LENGTHS)
    query = f"""
        with lengths as (
            select length(arguments_json) as n from stg_actions_started semi join shown_trials using (stream_id)
            union all
            select length(result) from stg_actions_finished semi join shown_trials using (stream_id)
            union all
            select length(reply_text) from stg_models_responded semi join shown_trials using (stream_id)
        )
        select sum(n), {sums} from lengths
    """  # noqa: S608 - numbers of ours
    (row,) = connection.execute(query).fetchall()
    total, *kept = (int(each or 0) for each in row)
    chosen = next((place for place, each in enumerate(kept) if each <= budget), len(LENGTHS) - 1)
    return Cut(length=LENGTHS[chosen], characters=total, kept_characters=kept[chosen])


def cut_sql(column: str, length: int) -> str:
    """Return the expression for a text cut at a length; what is longer ends in ``…`` and its full length."""
    return (
        f"case when length({column}) > {length} then left({column}, {length}) || ' … (' || length({column}) "
        f"|| ' characters)' else {column} end"
    )
