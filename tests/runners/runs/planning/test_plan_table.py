"""What is said of money: an invented price is never shown as money spent."""

from pathlib import Path

import msgspec
import pytest

from lhaw_record.recorder.reading.trial_index import FinishedTrial
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.experiment.tables import (
    AgentSpec,
    BenchmarkSpec,
    Experiment,
    GraderSpec,
    ModelSpec,
    UserSimulatorSpec,
)
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.runs.planning.plan import make_plan
from lhaw_record.runners.runs.planning.plan_table import expected_costs_usd, plan_rows, spending
from tests.cli.experiments import write_experiment
from tests.cli.program import called
from tests.support.toy_plan import EMPTY, ListedBenchmark, experiment

SCRIPTED = AgentSpec(name="s", model="scripted/balanced")
REAL = AgentSpec(name="r", model="anthropic/claude-sonnet-4-6")
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


def test_a_guess_learns_from_what_other_agents_cost():
    """150,000 and 6,000 tokens at list price at first; then at the ratio that the finished trials had."""
    prices = {
        name: Price(input_usd_per_million_tokens=usd, output_usd_per_million_tokens=0)
        for name, usd in (("one", 1), ("other", 2), ("free", 0))
    }
    agents = tuple(
        AgentSpec(name=name, model=name, api_base="http://127.0.0.1:1/v1", price=prices.get(name))
        for name in (*prices, "unknown")
    )
    planned = experiment(agents=agents)
    benchmark = ListedBenchmark()
    plan = make_plan(planned, benchmark, Prompts(planned, Path(), benchmark.system_prompt()), "exact:1")
    assert expected_costs_usd(planned, plan, EMPTY) == {"one": 0.15, "other": 0.3, "free": 0.0, "unknown": None}
    own = [trial.trial_id for trial in plan.trials if trial.agent.name == "one"][:2]
    finished = {
        trial_id: FinishedTrial(trial_id=trial_id, attempt=1, action_count=1, cost_usd=usd)
        for trial_id, usd in zip(own, (0.02, 0.04), strict=True)
    }
    index = msgspec.structs.replace(EMPTY, finished=finished)
    learned = expected_costs_usd(planned, plan, index)
    assert learned == pytest.approx({"one": 0.03, "other": 0.06, "free": 0.0, "unknown": None})


@pytest.mark.parametrize(
    ("models", "total_usd"),
    [(("priced", "scripted/never"), 0.3), (("priced", "unknown"), None), (("scripted/never",), None)],
)
def test_a_script_without_a_price_does_not_hide_what_the_others_cost(models, total_usd):
    """One trial of 150,000 tokens at 2 USD per million; an unknown price of a model hides the sum."""
    price = Price(input_usd_per_million_tokens=2, output_usd_per_million_tokens=0)
    agents = tuple(
        AgentSpec(name=str(place), model=model, api_base="http://127.0.0.1:1/v1", price=price if place == 0 else None)
        for place, model in enumerate(models)
    )
    planned, benchmark = experiment(agents=agents, conditions=("full",), trials=1), ListedBenchmark()
    plan = make_plan(planned, benchmark, Prompts(planned, Path(), benchmark.system_prompt()), "exact:1")
    *rows, total = plan_rows(planned, plan, EMPTY)
    assert total.expected_cost_usd == (None if total_usd is None else pytest.approx(total_usd * rows[0].trials))


def test_a_run_of_scripted_models_ends_without_money_spent(tmp_path):
    """The closing line of a run says that the price is invented."""
    experiment = write_experiment(tmp_path / "a.toml", conditions=["full"])
    done = called("run", experiment, "--store", tmp_path / "store")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1].endswith(" USD at an invented price")
