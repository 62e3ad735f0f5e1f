"""What is said of money: an invented price is never shown as money spent."""

import pytest

from lhaw_record.runners.experiment.tables import (
    AgentSpec,
    BenchmarkSpec,
    Experiment,
    GraderSpec,
    ModelSpec,
    UserSimulatorSpec,
)
from lhaw_record.runners.runs.planning.plan_table import spending
from tests.cli.experiments import write_experiment
from tests.cli.program import called

SCRIPTED = AgentSpec(name="s", model="scripted/balanced")
REAL = AgentSpec(name="r", model="anthropic/claude-sonnet-4-5")
MODEL = ModelSpec(model="openai/gpt-5-mini")
SIMULATED = {"user_simulator": UserSimulatorSpec(kind="llm", llm=MODEL)}
JUDGED = {"grader": GraderSpec(kind="judge", judge=MODEL)}


@pytest.mark.parametrize(
    ("agents", "others", "words"),
    [
        ((SCRIPTED,), {}, "1.5000 USD at an invented price"),
        ((REAL,), {}, "1.5000 USD"),
        ((REAL, SCRIPTED), {}, "1.5000 USD, scripted models at an invented price"),
        ((SCRIPTED,), SIMULATED, "1.5000 USD, scripted models at an invented price"),
        ((SCRIPTED,), JUDGED, "1.5000 USD, scripted models at an invented price"),
    ],
)
def test_an_invented_price_is_named(agents, others, words):
    """What only scripted models cost is invented, what only others cost is not, and a mixture says so."""
    experiment = Experiment(
        name="e", conditions=("full",), benchmark=BenchmarkSpec(name="desk"), agents=agents, **others
    )
    assert spending(experiment, 1.5) == words


def test_a_run_of_scripted_models_ends_without_money_spent(tmp_path):
    """The closing line of a run says that the price is invented."""
    experiment = write_experiment(tmp_path / "a.toml", conditions=["full"])
    done = called("run", experiment, "--store", tmp_path / "store")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1].endswith(" USD at an invented price")
