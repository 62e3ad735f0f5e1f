"""What every benchmark promises, and one run of every condition through the real program."""

from pathlib import Path

import pytest

from lhaw_record.command_line import main
from lhaw_record.runners.environments.benchmarks.contract import problems_of
from my_benchmark.benchmark import MyBenchmark

EXPERIMENT = Path(__file__).parents[1] / "experiment.toml"
RATES = "select condition, avg(is_success::int) as success from trials group by all order by all"


async def test_the_contract() -> None:
    """Tasks, variants, tools and grades are as docs/own-tasks.md of lhaw-record describes them."""
    assert await problems_of(MyBenchmark()) == []


def test_a_run_under_every_condition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was left out matters: the reference fails without it, and passes once it asks or is told."""
    store = str(tmp_path / "store")
    assert main(["run", str(EXPERIMENT), "--store", store]) == 0
    capsys.readouterr()
    assert main(["sql", store, "-c", RATES, "--format", "csv"]) == 0
    rates = dict(line.split(",") for line in capsys.readouterr().out.splitlines()[1:])
    assert {condition: float(rate) for condition, rate in rates.items()} == {
        "full": 1.0,
        "underspecified": 0.0,
        "ask_user": 1.0,
        "inject_10": 1.0,
        "inject_50": 1.0,
        "inject_90": 1.0,
    }
