"""Power is what it promises: a simulation that shares no code sees the gain as often; a pilot gives its rates back."""

import json
import re
import tomllib
from pathlib import Path

import anyio
import numpy as np
import pytest
from scipy.stats import permutation_test

from lhaw_record.analytics.statistics import power as power_module
from lhaw_record.analytics.statistics.inference import InferenceSettings, estimate
from lhaw_record.analytics.statistics.power import (
    PilotUnit,
    StudyDesign,
    SuccessRates,
    power,
    rates_of,
)
from lhaw_record.analytics.tables.notes import KEPT_RECALL
from lhaw_record.analytics.views import store as store_module
from lhaw_record.analytics.views.store import connect
from lhaw_record.command_line import main
from tests.analytics.findings.test_findings import store_of, with_trials
from tests.analytics.make_store import Store, write_events
from tests.support.depth import at_depth


def seen_by_others(rates, low, shift, tasks, trials, studies):
    """The share of studies in which scipy's test of tasks drawn here sees the gain."""
    rng = np.random.default_rng(99)
    seen = 0
    for _ in range(studies):
        level = rng.normal(low, rates.spread, tasks)
        arms = (level, level + rng.normal(shift, rates.gain_spread, tasks))
        unasked, asked = (
            np.array([(rng.random(trials) < 1 / (1 + np.exp(-odds))).mean() for odds in arm]) for arm in arms
        )
        kind = {"permutation_type": "samples", "n_resamples": 2**tasks}
        found = permutation_test((asked - unasked,), lambda x: abs(np.sum(x)), alternative="greater", **kind)
        seen += found.pvalue < 0.05 and asked.mean() > unasked.mean()
    return seen / studies


@pytest.mark.thorough
@pytest.mark.parametrize(("tasks", "trials"), [(8, 3), (11, 5)][: at_depth(1, 2)])
def test_power_is_what_another_simulation_sees(tasks, trials):
    """The middling task and its gain are found here by drawing a million tasks until their means fit."""
    rates = SuccessRates(base=0.3, gain=0.35, spread=1.0, gain_spread=0.5)
    normal = np.random.default_rng(1).standard_normal((2, 1_000_000))
    grid = np.linspace(-2, 3, 201)
    level = np.array([(1 / (1 + np.exp(-(odds + normal[0, :50_000])))).mean() for odds in grid])
    low = grid[np.abs(level - 0.3).argmin()]
    both = low + normal[0, :50_000] + 0.5 * normal[1, :50_000]
    asked = np.array([(1 / (1 + np.exp(-(both + shift)))).mean() for shift in grid])
    shift = grid[np.abs(asked - 0.65).argmin()]
    theirs = seen_by_others(rates, low, shift, tasks, trials, 400)
    assert power(rates, StudyDesign(tasks, 1, trials), level=0.05, studies=1000) == pytest.approx(theirs, abs=0.09)


def test_a_study_is_tested_as_the_tables_test(monkeypatch):
    """With as many exchanges: 2,000 that all studies share moved a power of 0.35 by 0.01 either way."""
    seen = []

    def noticed(kind, units, settings):
        seen.append(settings)
        return estimate(kind, units, settings)

    monkeypatch.setattr(power_module, "estimate", noticed)
    power(SuccessRates(base=0.3, gain=0.1), StudyDesign(20, 1, 3), level=0.05, studies=1)
    assert seen == [InferenceSettings()]


def test_few_tasks_see_nothing_however_many_trials():
    """With four or five tasks no sign-flip test reaches 0.05; a gain of nothing is seen at the level at most."""
    strong = SuccessRates(base=0.1, gain=0.8)
    assert [power(strong, StudyDesign(tasks, 3, 50), level=0.05, studies=20) for tasks in (4, 5)] == [0.0, 0.0]
    assert power(strong, StudyDesign(8, 1, 50), level=0.05, studies=20) > 0.9
    assert power(SuccessRates(base=0.4, gain=0.0), StudyDesign(8, 1, 3), level=0.05, studies=300) < 0.06


def test_a_pilot_gives_its_rates_back():
    """Means and spreads of 400 tasks are found again, without the noise of their trials."""
    rng = np.random.default_rng(5)
    units = []
    for task in range(400):
        odds = rng.normal(-1.0, 1.2)
        unasked, asked = (1 / (1 + np.exp(-(odds + add))) for add in (0.0, rng.normal(1.0, 0.8)))
        units.append(PilotUnit("a", str(task), rng.binomial(4, unasked), 4, rng.binomial(4, asked), 4))
    found = rates_of(units)
    assert found.spread == pytest.approx(1.2, abs=0.3)
    assert found.gain_spread == pytest.approx(0.8, abs=0.5)
    assert found.gain == pytest.approx(0.18, abs=0.05)


@pytest.mark.thorough
def test_agents_that_differ_are_no_spread_of_tasks():
    """Two agents, one at 0.2 and one at 0.8 in every one of 60 tasks: tasks do not differ, though cells do."""
    rng = np.random.default_rng(6)
    units = [
        PilotUnit(agent, str(task), rng.binomial(40, share), 40, rng.binomial(40, share + 0.1), 40)
        for agent, share in (("weak", 0.2), ("strong", 0.8))
        for task in range(60)
    ]
    found = rates_of(units)
    assert (found.base, found.gain) == (pytest.approx(0.5, abs=0.02), pytest.approx(0.1, abs=0.02))
    assert found.spread < 0.3
    assert rates_of(units[:60]).base == pytest.approx(0.2, abs=0.02)


def test_the_command_before_the_first_trial(capsys):
    """Without a store it says power and cost of each design, and exits 1 where none is enough."""
    few = ["power", "--gain", "0.1", "--tasks", "5", "--variants", "1", "--trials", "3", "--studies", "20"]
    assert main([*few, "--cost-per-trial", "0.5", "--format", "json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["total_trials"], row["cost_usd"], row["power"], row["is_enough"]) == (30, 15.0, 0.0, False)
    strong = ["power", "--base", "0.1", "--gain", "0.8", "--tasks", "8", "--variants", "1", "--trials", "9"]
    assert main([*strong, "--studies", "20"]) == 0
    assert "cheapest design" in capsys.readouterr().err


def test_agents_are_chosen_of_a_pilot_alone(capsys):
    """Without a pilot there are no agents to choose."""
    assert main(["power", "--agent", "a"]) == 1
    assert "--agent chooses agents of a pilot" in capsys.readouterr().err


def test_advice_compares_tasks_with_trials(capsys):
    """The cheapest design stands beside fewer tasks with more trials; where none is enough, more tasks are tried."""
    strong = ["power", "--base", "0.1", "--gain", "0.5", "--variants", "1", "--studies", "40"]
    assert main([*strong, "--tasks", "6", "20", "--trials", "3", "12", "--cost-per-trial", "1"]) == 0
    said = capsys.readouterr().err
    assert "cheapest design with 80%: 20 tasks x 1 variant x 3 trials in each arm, 120 trials, about 120.00 USD" in said
    assert "fewer tasks with more trials: 6 tasks x 1 variant x 12 trials in each arm, 144 trials" in said
    assert main([*strong, "--tasks", "5", "--trials", "9"]) == 1
    said = capsys.readouterr().err
    assert "no design here has a power of 80%: first add tasks" in said
    assert "10 tasks x 1 variant x 9 trials in each arm, 180 trials would have " in said


def test_an_experiment_file_is_asked_about_before_its_first_trial(tmp_path, capsys):
    """Its tasks, variants and trials are the design, its model's list price the cost; twice the tasks stand beside."""
    path = tmp_path / "study.toml"
    path.write_text(
        """
name = "study"
trials = 2
conditions = ["underspecified", "ask_user"]
[benchmark]
name = "desk"
[[agents]]
name = "a"
model = "openai/some-model"
price = { input_usd_per_million_tokens = 2.0, output_usd_per_million_tokens = 10.0 }
""",
        encoding="utf-8",
    )
    main(["power", str(path), "--studies", "20", "--format", "json"])
    said = capsys.readouterr()
    assert "gain = 0.079," in said.err, "of 0.1, what the default user leaves"
    one, two = json.loads(said.out)
    assert two["tasks"] == 2 * one["tasks"] > 0
    assert one["trials"] == 2
    assert one["cost_usd"] == pytest.approx(one["total_trials"] * (0.15 * 2.0 + 0.006 * 10.0), abs=0.01)


def test_a_loss_shares_its_full_trials_and_counts_them_once(capsys):
    """40 tasks x 3 variants x 3 trials: 3 + 9 trials a task; a loss of 0.6 is seen, one of nothing at the level."""
    assert StudyDesign(40, 3, 3, of="loss").total == 480
    assert power(SuccessRates(0.2, 0.6), StudyDesign(12, 3, 3, of="loss"), level=0.05, studies=30) > 0.9
    assert power(SuccessRates(0.4, 0.0), StudyDesign(12, 3, 3, of="loss"), level=0.05, studies=150) < 0.06
    words = ["power", "--of", "loss", "--base", "0.2", "--gain", "0.6", "--tasks", "12", "--variants", "3"]
    assert main([*words, "--trials", "3", "--studies", "20"]) == 0
    said = capsys.readouterr()
    assert " 144 " in said.out
    assert "stop_when_shown" not in said.err


def test_a_user_that_misses_questions_hides_its_share_of_an_assumed_gain(capsys):
    """Of 0.4 a recall of 0.5 leaves 0.2; the advice is an experiment file that the program reads."""
    words = ["power", "--gain", "0.4", "--recall", "0.5", "--tasks", "60", "--variants", "1", "--trials", "5"]
    assert main([*words, "--studies", "20"]) == 0
    said = capsys.readouterr().err
    assert "gain = 0.2," in said
    advised = tomllib.loads(said[said.index("conditions =") : said.index("max_tasks = 60") + len("max_tasks = 60")])
    assert advised == {
        "conditions": ["underspecified", "ask_user"],
        "trials": 5,
        "stop_when_shown": {"max_tasks": 60},
    }


@pytest.mark.thorough
def test_the_recall_of_a_pilot_is_that_of_its_simulated_user(monkeypatch, capsys):
    """Its user met one of two requests: half of the gain that is assumed is seen, unless another recall is given."""
    store = Store(trials=2)
    for task in "tu":
        store.task(task)
        store.variant(task, f"v{task}", "goal input", ambiguity_class="divergent")
        for index in (0, 1):
            store.trial(f"v{task}", "underspecified", index, scores=(float(index),), actions=["submit"])
            asked = ["ask_user S1", "ask_user -S2", "submit"]
            store.trial(f"v{task}", "ask_user", index, scores=(1.0,), actions=asked)
    monkeypatch.setattr(store_module, "open", lambda _, only: connect(store.snapshot(), only=only))
    words = ["power", "pilot", "--gain", "0.4", "--tasks", "8", "--variants", "1", "--trials", "1", "--studies", "5"]
    for more, gain in (([], 0.2), (["--recall", "1"], 0.4)):
        main([*words, *more])
        said = capsys.readouterr().err
        assert f"gain = {gain}," in said
        assert ("gave 50% of what was asked" in said) == (not more)


def test_a_lead_is_between_the_gains_of_two_agents(capsys):
    """Four arms; gains of 0.6 and 0 are told apart, equal gains at the level, and both agents' gains are hidden."""
    assert StudyDesign(10, 2, 3, of="lead").total == 10 * 2 * 3 * 4
    design = StudyDesign(12, 1, 9, of="lead")
    assert power(SuccessRates(0.2, 0.6), design, level=0.05, studies=30) > 0.8
    assert power(SuccessRates(0.2, 0.4, other_gain=0.4), design, level=0.05, studies=200) < 0.06
    words = ["power", "--of", "lead", "--base", "0.2", "--gain", "0.6", "--other-gain", "0.2", "--recall", "0.5"]
    main([*words, "--tasks", "8", "--variants", "1", "--trials", "3", "--studies", "10"])
    said = capsys.readouterr().err
    assert "gain = 0.3," in said
    assert "other_gain = 0.1" in said


def test_a_recovered_share_is_seen_above_a_bound_as_often_as_it_should():
    """Half of a loss of 0.5 is recovered: above 0 it is seen, above 0.5 in a fortieth, above 0.8 never."""
    assert StudyDesign(10, 2, 3, of="recovered").total == 10 * 3 * (2 * 2 + 1)
    design = StudyDesign(30, 1, 5, of="recovered")
    rates = SuccessRates(0.2, 0.25, loss=0.5)
    seen = [power(rates, design, level=0.05, studies=200, above=above) for above in (0.0, 0.5, 0.8)]
    assert seen[0] > 0.8
    assert seen[1] < 0.07
    assert seen[2] == 0.0


def test_a_price_buys_tasks_before_variants_before_trials(capsys):
    """For 40 USD at 0.5 a trial: 40 tasks, or 4 with three variants and trials, which see a strong gain never."""
    words = ["power", "--base", "0.2", "--gain", "0.5", "--price", "20", "40", "--cost-per-trial", "0.5"]
    assert main([*words, "--variants", "1", "3", "--trials", "1", "3", "--studies", "40", "--format", "json"]) == 0
    said = capsys.readouterr()
    rows = json.loads(said.out)
    sizes = [(row["price_usd"], row["tasks"], row["variants"], row["trials"]) for row in rows]
    assert sizes[:4] == [(20.0, 20, 1, 1), (20.0, 6, 1, 3), (20.0, 6, 3, 1), (20.0, 2, 3, 3)]
    assert sizes[4:] == [(40.0, 40, 1, 1), (40.0, 13, 1, 3), (40.0, 13, 3, 1), (40.0, 4, 3, 3)]
    assert "at 40.00 USD: 40 tasks x 1 variant x 1 trial in each arm, 80 trials, about 40.00 USD have " in said.err
    assert "; 4 tasks x 3 variants x 3 trials in each arm, 72 trials, about 36.00 USD have a power of 0%" in said.err
    for wrong, error in ((["--tasks", "5"], "leave --tasks out"), (["--price", "0.5"], "no price pays for one task")):
        assert main([*words, *wrong]) == 1
        assert error in capsys.readouterr().err


@pytest.mark.thorough
def test_a_pilot_tells_who_leads_and_what_its_user_missed(tmp_path, capsys):
    """Asking gains 3 of 3 trials of a and 1 of 3 of b; another judge saw one of two wanted answers given."""
    store = store_of(7, {"underspecified": lambda _: 0, "ask_user": lambda _: 3, "full": lambda _: 3})
    with_trials(store, 7, {"underspecified": lambda _: 0, "ask_user": lambda _: 1}, "b")
    pilot = tmp_path / "pilot"
    anyio.run(write_events, pilot, store.envelopes)
    few = ["--tasks", "7", "--variants", "1", "--trials", "3", "--studies", "10", "--wanted", "0"]
    main(["power", str(pilot), "--of", "lead", *few])
    said = capsys.readouterr().err
    assert "gain = 1," in said
    assert "other_gain = 0.333" in said
    main(["power", str(pilot), "--of", "recovered", "--agent", "a", *few])
    assert "loss = 1\n" in capsys.readouterr().err
    assert main(["power", str(pilot), "--of", "lead", "--agent", "a", *few]) == 1
    assert "give --agent NAME twice (a)" in capsys.readouterr().err

    for index in range(2):
        read = f"ask_user S1 @rules/4[en]:S1/S1 @m#1:S1/{'S1' * index}"
        store.trial("v0", "ask_user", 3 + index, scores=(1.0,), actions=[read, "submit"])
    judged = tmp_path / "judged"
    anyio.run(write_events, judged, store.envelopes)
    main(["power", str(judged), "--gain", "0.4", *few])
    said = capsys.readouterr().err
    assert "gain = 0.2," in said
    assert "gave 50% of what was asked (by its other judge)" in said


def test_the_recall_of_the_user_is_that_of_the_page():
    """docs/matcher.md has what the newest judges found of the kept set."""
    page = (Path(__file__).parents[3] / "docs" / "matcher.md").read_text(encoding="utf-8")
    found = re.search(r"\| found of both sets' 442 \| \*\*([\d.]+)\*\*.*?\| \*\*([\d.]+)\*\*", page)
    assert [str(KEPT_RECALL[judge]) for judge in ("rules/4", "encoder/4")] == list(found.groups())
