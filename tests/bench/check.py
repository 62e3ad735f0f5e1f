"""``make bench-check``: compares what is counted with ``budgets.toml``, and fails past 5 %. No time is measured."""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from tests.bench.cold import ROOT
from tests.bench.stores import kept_store

BUDGETS = Path(__file__).with_name("budgets.toml")
TOLERANCE = 0.05
STORE_EVENTS = 2_000
COUNTS = ("-m", "tests.bench.counts")


def main(out: TextIO = sys.stdout) -> int:
    """Count, and print each figure; 0 if all keep their budgets."""
    budgets = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version != budgets["python"]:
        print(f"bench-check: the budgets are of Python {budgets['python']}, this is {version}: not compared", file=out)
        return 0
    with tempfile.TemporaryDirectory(prefix="bench-check-") as temporary:
        found = {"run": counted(["run", temporary]), **commands(Path(temporary))}
    complaints = 0
    for section, figures in found.items():
        for name, value in figures.items():
            budget = budgets[section][name]
            complaint = judged(f"{section}: {name}", value, budget)
            complaints += complaint is not None
            print(complaint or f"{section}: {name}: {value:,.6g} of {budget['most']:,.6g}", file=out)
    return 1 if complaints else 0


def counted(words: Sequence[str], program: Sequence[str] = COUNTS) -> dict[str, float]:
    """Return what a process of its own counts, in the one locale in which argparse looks for no translation files."""
    command = [sys.executable, *program, *words]
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, float] = json.loads(done.stdout)
    return found


def commands(directory: Path) -> dict[str, dict[str, float]]:
    """Return what each command that reads a store counts, and the help."""
    store = str(kept_store(directory, STORE_EVENTS))
    words = {"--help": ["--help"], "tables": ["tables", store, "--all"], "sql": ["sql", store, "-c", "select 1"]}
    return {name: counted(["command", *each]) for name, each in words.items()}


def judged(name: str, value: float, budget: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a figure, or None if it keeps its budget."""
    most = budget["most"]
    if value <= most * (1 + TOLERANCE):
        return None
    more = f", {value / most - 1:.0%} more" if most else ""
    return (
        f"{name} rose to {value:,.6g} from {most:,.6g}{more} ({budget['why']}). Find what costs it; if it is worth it, "
        f"write the new figure and its reason into {BUDGETS.relative_to(ROOT)}"
    )


if __name__ == "__main__":
    sys.exit(main())
