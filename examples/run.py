"""Run an experiment and read what it recorded: ``python examples/run.py experiments/demo.toml stores/demo``."""

# ruff: noqa: INP001, T201 - a script that prints

import sys

import lhaw_record

experiment, store = sys.argv[1:3] if len(sys.argv) > 2 else ("experiments/demo.toml", "stores/demo")
lhaw_record.run(experiment, store)  # prints its progress; finished trials are not run again

with lhaw_record.open(store, {"k": 1}) as opened:
    print(opened.table("overall", measure=["pass_at_k", "checkpoint_progress"]))
