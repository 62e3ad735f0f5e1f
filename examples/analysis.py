"""An analysis in cells: run it whole (``python examples/analysis.py stores/demo``), or cell by cell in an editor.

It needs nothing that lhaw-record does not bring: answers are DuckDB relations, which print themselves, go on as SQL,
and turn into Arrow tables, or into data frames of a library that you have installed.
"""

# ruff: noqa: INP001, T201 - a script that prints

# %% A store is a DuckDB connection with the event stream and every view.
import sys
from pathlib import Path

import analytics

STORE = Path(sys.argv[1] if len(sys.argv) > 1 else "stores/demo")
store = analytics.open(STORE)

# %% What was run: valid trials by agent and condition.
trials = store.sql("select * from trials where trial_state = 'valid' and role = 'evaluated'")
print(trials.aggregate("agent, condition, count(*) as trials").order("agent, condition"))

# %% The headline: pass@k with its interval, as the table `overall` has it.
overall = store.sql("select * from overall where measure = 'pass_at_k'")
print(overall.project("benchmark, agent, condition, value, low, high, n_units").order("benchmark, agent, condition"))

# %% The same table as `lhaw-record tables` prints it, with the notes that it should not be shown without.
table = analytics.table(store, "overall")
print("\n".join(table.notes))

# %% What asking changes for each variant: pairs of arms, one row per variant and agent.
pairs = store.sql("""
    pivot (
        select agent, variant_id, condition, pass_at_k
        from pass_at_k
        where unit_kind = 'variant'
    )
    on condition in ('underspecified', 'ask_user') using any_value(pass_at_k)
""")
print(pairs.project("*, ask_user - underspecified as gain").order("gain nulls last, agent, variant_id"))

# %% An Arrow table, for numpy, pyarrow and whatever else reads Arrow.
progress = store.sql("select agent, checkpoint_progress from trials where trial_state = 'valid'").to_arrow_table()
print(progress.group_by("agent").aggregate([("checkpoint_progress", "mean"), ("checkpoint_progress", "stddev")]))

# %% Another reading of a definition is another connection: intervals for pass@1 in place of pass@3.
with analytics.open(STORE, {"k": 1}) as single:
    print(single.sql("select agent, condition, value, low, high from overall where measure = 'pass_at_k' order by all"))

# %% Done: a connection is closed before the program ends.
store.close()
