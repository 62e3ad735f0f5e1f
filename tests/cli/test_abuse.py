"""Agents that would rather be missing than wrong: each stays in the denominator, and the run stays small."""

import json
import resource

import pytest

from tests.cli.experiments import BALANCED, PLAIN_PROCESS, write_experiment
from tests.cli.program import called, query, verify
from tests.support.canned_model import CannedModel, tool_reply
from tests.support.chat_server import server_beside

FAR_CELL = """import openpyxl
book = openpyxl.Workbook()
book.active.append(["expense_id", "employee", "category", "amount", "reason"])
book.active["XFD1048576"] = 1
book.save("expense_exceptions.xlsx")"""
SPARSE = "for name in 1 2 3; do truncate -s 200M $name; done"
SUBMIT = tool_reply(("z", "submit", '{"answer": "done"}'))


def does(tool, **arguments):
    """A model that calls one tool and submits."""
    return lambda seed: CannedModel([tool_reply(("c", tool, json.dumps(arguments))), SUBMIT])


@pytest.mark.thorough
def test_no_deliverable_kills_the_run_or_leaves_the_denominator(tmp_path):
    """A cell that took 5.2 GB and sparse files: trials that count, failed by name, beside an honest one."""
    store = tmp_path / "store"
    agents = [BALANCED, *({"name": name, "model": name, "api_base": f"${{{name}_URL}}"} for name in ("CELL", "SPARSE"))]
    experiment = write_experiment(
        tmp_path / "a.toml",
        conditions=["full"],
        variants=["expense-audit/receipt-minimum"],
        agents=agents,
        sandbox=PLAIN_PROCESS,
    )
    with server_beside(does("python", code=FAR_CELL)) as cell, server_beside(does("bash", command=SPARSE)) as sparse:
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        done = called("run", experiment, "--store", store, extra={"CELL_URL": cell.url, "SPARSE_URL": sparse.url})
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert done.returncode == 0, done.stderr
    assert grown_kb < 600_000, "the libraries of models, and nothing of the workbook's gigabytes"
    found = query(store, "select agent_name, trial_state, ended_by, is_success from trials order by all")
    assert found == [
        ("CELL", "valid", "resource_abuse", False),
        ("SPARSE", "valid", "resource_abuse", False),
        ("balanced", "valid", "submitted", True),
    ]
    (details,) = query(store, "select any_value(details) from stg_checkpoints_scored where details like 'expense%'")[0]
    assert details == "expense_exceptions.xlsx could not be read within 512 MB of memory"
    verify(store)
