"""An analysis in cells: run it whole (``python examples/analysis.py stores/demo``), or cell by cell in an editor."""

# ruff: noqa: INP001, T201 - a script that prints

# %% A store is a DuckDB connection with the event stream and every view.
import sys
from pathlib import Path

import polars as pl

import analytics

STORE = Path(sys.argv[1] if len(sys.argv) > 1 else "stores/demo")
store = analytics.open(STORE)

# %% What was run: valid trials by agent and condition.
trials = store.sql("select * from trials where trial_state = 'valid' and role = 'evaluated'").pl()
print(trials.group_by("agent", "condition").len().sort("agent", "condition"))

# %% The headline: pass@k with its interval, as the table `overall` has it.
overall = store.sql("select * from overall where measure = 'pass_at_k'").pl()
print(overall.select("benchmark", "agent", "condition", "value", "low", "high", "n_units"))

# %% The same table as `lhaw-record tables` prints it, with the notes that it should not be shown without.
table = analytics.table(store, "overall")
print("\n".join(table.notes))

# %% What asking changes for each variant: pairs of arms, one row per variant and agent.
pairs = (
    store.sql("select * from pass_at_k where unit_kind = 'variant'")
    .pl()
    .filter(pl.col("condition").is_in(["underspecified", "ask_user"]))
    .pivot("condition", index=["agent", "variant_id"], values="pass_at_k")
)
if {"underspecified", "ask_user"} <= set(pairs.columns):
    print(
        pairs.with_columns((pl.col("ask_user") - pl.col("underspecified")).alias("gain")).sort("gain", nulls_last=True)
    )

# %% Another reading of a definition is another connection: intervals for pass@1 in place of pass@3.
with analytics.open(STORE, {"k": 1}) as single:
    print(single.sql("select agent, condition, value, low, high from overall where measure = 'pass_at_k' order by all"))

# %% Done: a connection is closed before the program ends.
store.close()
