"""An analysis in cells: run all of it (``python examples/analysis.py stores/demo``), or cell by cell in an editor.

It needs only lhaw-record. A notebook displays views, tables and figures directly.
"""

# ruff: noqa: INP001, T201 - a script that prints

# %% An open store has every view as an attribute, and the event stream as `events`.
import sys

import lhaw_record

STORE = sys.argv[1] if len(sys.argv) > 1 else "stores/demo"
store = lhaw_record.open(STORE)

# %% What was run: valid trials by agent and condition.
print(
    store.sql("""
    select agent, condition, count(*) as trials
    from trials
    where trial_state = 'valid' and role = 'evaluated'
    group by all
    order by all
""")
)

# %% The headline: pass@k with its interval, as `lhaw-record tables` prints it.
table = store.table("overall", measure=["pass_at_k"])
print(table)

# %% The notes to show with it.
print("\n".join(table.notes))

# %% What asking changes for each variant: pairs of arms, one row per variant and agent.
pairs = store.sql("""
    pivot (
        select agent, variant_id, condition, pass_at_k
        from pass_at_k
        where unit_kind = 'variant'
    )
    on condition in ('underspecified', 'ask_user') using any_value(pass_at_k)
    order by ask_user - underspecified nulls last, agent, variant_id
""")
print(pairs)

# %% What agents asked where they failed; `lhaw-record show STORE STREAM` prints one as a conversation.
print(
    store.sql("""
    select trials.stream_id, trials.agent, trials.variant_id, questions.question, questions.answer
    from questions
    inner join trials on questions.stream_id = trials.stream_id
    where trials.trial_state = 'valid' and not trials.is_success
    order by all
    limit 20
""")
)

# %% An Arrow table for numpy, pyarrow and other libraries that read Arrow.
progress = store.sql("select agent, checkpoint_progress from trials where trial_state = 'valid'").arrow()
print(progress.group_by("agent").aggregate([("checkpoint_progress", "mean"), ("checkpoint_progress", "stddev")]))

# %% To change a parameter, open the store again: intervals for pass@1 instead of pass@3.
with lhaw_record.open(STORE, {"k": 1}) as single:
    print(single.sql("select agent, condition, value, low, high from overall where measure = 'pass_at_k' order by all"))

# %% Close the store before the program ends.
store.close()
