"""Data frames: ``python examples/frames.py stores/demo`` prints what asking changes for each variant."""

# ruff: noqa: INP001, T201 - a script that prints

import sys

import lhaw_record

with lhaw_record.open(sys.argv[1] if len(sys.argv) > 1 else "stores/demo") as store:
    trials = store.trials.df()  # pandas; .pl() is Polars, .arrow() Arrow, .rows() a list of dictionaries
    valid = trials[(trials["trial_state"] == "valid") & (trials["role"] == "evaluated")]
    print(valid.groupby(["agent", "condition"])["is_success"].agg(["mean", "size"]))

    pairs = valid.pivot_table(
        index=["agent", "variant_id"], columns="condition", values="checkpoint_progress", aggfunc="mean"
    )
    print((pairs["ask_user"] - pairs["underspecified"]).sort_values().rename("gain of asking"))
