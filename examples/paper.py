"""A table and a figure for a paper: ``python examples/paper.py stores/demo paper`` writes them to the folder paper."""

# ruff: noqa: INP001, T201 - a script that prints

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import lhaw_record

SPEC = """
title = "What asking brings back"

[[tables]]
table = "overall"
name = "main"
gains = true
keep = { measure = ["pass_at_1"], condition = ["full", "underspecified", "ask_user"] }

[[figures]]
figure = "value_scatter"
"""

folder = Path(sys.argv[2] if len(sys.argv) > 2 else "paper")
with lhaw_record.open(sys.argv[1] if len(sys.argv) > 1 else "stores/demo") as store, TemporaryDirectory() as scratch:
    spec = Path(scratch) / "paper.toml"
    spec.write_text(SPEC, encoding="utf-8")
    paper = store.paper(spec)
    print(paper.tables["main"].markdown)
    for path in paper.write(folder):
        print(path)
