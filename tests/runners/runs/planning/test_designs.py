"""Designs and deals: the papers' experiments as files plan as many trials as were published, without the data too."""

import tomllib
from collections import Counter
from pathlib import Path
from pkgutil import resolve_name

import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.events.values import Checkpoint, Segment, Task, Variant
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.experiment.decoding import load_experiment
from lhaw_record.runners.runs.planning.designs import DesignCell, VariantDesign, chosen, load_design
from lhaw_record.runners.runs.planning.plan import assign_sessions
from lhaw_record.runners.runs.preparation import check_runnable, prepare

EXPERIMENTS = Path(__file__).parents[4] / "experiments"
PLANNED = {  # per condition and agent, as the sources print them or as their counts of variants give them
    "ask-early-mcp-atlas": 3024,
    "ask-early-tac": 1890,
    "ask-early-swebench-pro": 1134,
    "ask-early-natural": 300,
    "lhaw-mcp-atlas": 5 * 3 * (100 + 100 + 100),
    "lhaw-tac": 5 * 3 * (13 + 85 + 85),
    "lhaw-swebench-pro": 4 * 3 * (75 + 100 + 100),
    "lhaw-personas": 300 + 4 * 300,
    "lhaw-strategies": 4 * 3 * (85 + 85),
    "lhaw-severities": 3 * 3 * 233,
}


def test_every_published_experiment_has_its_count():
    """No bundled file of a paper is without a published count."""
    found = {path.stem for path in EXPERIMENTS.glob("lhaw-*.toml")} | {
        path.stem for path in EXPERIMENTS.glob("ask-early-*.toml")
    }
    assert found == set(PLANNED)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PLANNED)
def test_a_plan_without_the_data_has_the_published_counts(name, monkeypatch):
    """The planner counts, from the design; nothing can run, and the message has the command that changes that."""
    monkeypatch.delenv("LHAW_RECORD_MCP_ATLAS", raising=False)
    prepared = prepare(EXPERIMENTS / f"{name}.toml")
    assert len(prepared.plan.trials) == PLANNED[name]
    is_released = name != "lhaw-severities"
    command = "import lhaw-dataset FILE" if is_released else "generate tac --from PATH --name tac-candidates"
    with pytest.raises(ExperimentError, match=rf"nothing at .* lhaw-record {command} --store "):
        check_runnable(prepared)


@pytest.mark.parametrize("name", PLANNED)
def test_every_published_experiment_fits_its_benchmark(name, tmp_path, monkeypatch):
    """With the data in place nothing in the file stands in the way: every needed key is there, and the sandbox fits."""
    for variable in ("LHAW_RECORD_TAC", "LHAW_RECORD_MCP_ATLAS", "LHAW_RECORD_SWEBENCH_PRO"):
        monkeypatch.setenv(variable, str(tmp_path))
    for folder in ("tasks", "data", "run_scripts"):
        (tmp_path / folder).mkdir()
    experiment = load_experiment(EXPERIMENTS / f"{name}.toml")
    package = f"lhaw_record.runners.environments.benchmarks.{experiment.benchmark.name}"
    chosen = resolve_name(f"{package}.benchmark:read_options")(experiment.benchmark.options, EXPERIMENTS)
    assert str(tmp_path) in str(chosen)
    needs_docker = experiment.benchmark.name != "mcp_atlas"
    assert (experiment.sandbox.kind == "docker") == needs_docker
    assert experiment.sandbox.image is None
    assert experiment.limits.max_turns == {"mcp_atlas": 20, "tac": 100, "swebench_pro": 250}[experiment.benchmark.name]
    assert experiment.limits.max_actions == (None if needs_docker else 100)


def test_the_plan_says_that_it_is_of_a_design(capsys):
    """A dry run names the design, every row has an expected cost, and it refuses with 2 as running does."""
    file = str(EXPERIMENTS / "ask-early-tac.toml")
    assert main(["run", file, "--dry-run", "--format", "json"]) == 2
    shown = capsys.readouterr()
    assert "only the plan can be shown" in shown.err
    assert "the counts of Ask Early, table 10" in shown.err
    assert '"expected_cost_usd":null' not in shown.out.replace(" ", "")
    assert "a guess until trials are finished: list price times 150,000 input and 6,000 output tokens" in shown.err
    assert main(["run", file]) == 2
    assert "lhaw-record import lhaw-dataset" in capsys.readouterr().err


def test_the_counts_follow_the_design(tmp_path):
    """Two variants more in the design are 2 x 3 models x 7 conditions x 3 trials more in the plan."""
    text = data_path("designs", "ask-early.toml").read_text()
    changed = text.replace(
        "outcome-critical = 6, divergent = 2, benign = 3", "outcome-critical = 8, divergent = 2, benign = 3"
    )
    assert changed != text
    (tmp_path / "mine.toml").write_text(changed)
    file = (EXPERIMENTS / "ask-early-tac.toml").read_text().replace('"ask-early"', '"mine.toml"')
    (tmp_path / "experiment.toml").write_text(file)
    assert len(prepare(tmp_path / "experiment.toml").plan.trials) == 1890 + 2 * 3 * 7 * 3


def test_the_models_of_the_timing_paper_are_those_it_names():
    """Four models on MCP-Atlas, three elsewhere, by their published identifiers, but for the one that is retired."""
    used = {name: [agent.model for agent in load_experiment(EXPERIMENTS / f"ask-early-{name}.toml").agents] for name in
            ("mcp-atlas", "tac", "swebench-pro", "natural")}  # fmt: skip
    assert used["mcp-atlas"][:3] == used["tac"] == used["swebench-pro"] == used["natural"]
    assert [model.rpartition("/")[2] for model in used["mcp-atlas"]] == [
        "gpt-5.2-2025-12-11", "claude-sonnet-5-5", "gemini-3-flash-preview", "deepseek-v3.2",
    ]  # fmt: skip


def variant(number, task, dimensions, ambiguity_class="divergent", severity=None):
    """A variant of one segment for each dimension."""
    return Variant(
        benchmark="desk",
        task_id=f"t{task}",
        variant_id=f"v{number}",
        prompt="p",
        segments=tuple(
            Segment(segment_id=f"S{at}", value="x", dimension=each, subdimension="")
            for at, each in enumerate(dimensions)
        ),
        origin="generated",
        severity=severity,
        ambiguity_class=ambiguity_class,
    )


def design(*cells, tasks=10):
    """A design of desk."""
    return VariantDesign(source="here", tasks={"desk": tasks}, cells=cells)


OFFERED = [variant(number, number % 4, ["goal"] if number % 2 else ["input", "goal"]) for number in range(24)]


def test_a_design_chooses_by_kind_and_seed():
    """A cell gets variants of its kind only, the same for the same seed, others for another, in the offered order."""
    cell = DesignCell(benchmark="desk", dimensions=(("goal", "input"),), classes={"divergent": 5})
    picked = chosen(design(cell), OFFERED, 0)
    assert len(picked) == 5
    assert {frozenset(segment.dimension for segment in each.segments) for each in picked} == {
        frozenset(("goal", "input"))
    }
    assert picked == chosen(design(cell), OFFERED, 0)
    assert any(chosen(design(cell), OFFERED, seed) != picked for seed in (1, 2, 3))
    assert picked == sorted(picked, key=OFFERED.index)


def test_a_design_spreads_over_tasks_and_stops_at_their_number():
    """As many tasks as there are while they may be new; never more than the design has."""
    cell = DesignCell(benchmark="desk", variants=4)
    assert Counter(each.task_id for each in chosen(design(cell), OFFERED, 0)) == {f"t{at}": 1 for at in range(4)}
    assert len({each.task_id for each in chosen(design(cell, tasks=2), OFFERED, 0)}) == 2


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        (DesignCell(benchmark="desk", classes={"benign": 1}), "0 from 0"),
        (DesignCell(benchmark="desk", dimensions=(("goal",),), variants=13), "12 from 12"),
        (DesignCell(benchmark="desk", severity="delete", variants=1), "0 from 0"),
    ],
)
def test_a_cell_that_cannot_be_filled_is_refused(cell, found):
    """Nothing is padded: the message names the cell, what it needs and what it gets."""
    with pytest.raises(ExperimentError, match=f"needs .* gets {found}"):
        chosen(design(cell), OFFERED, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no design"),
        ("cells = [", "is not a design"),
        ("cells = 1", r"d\.toml: key '.*'"),
        ('source = "s"\ntasks = {}\ncells = []', "has no cells and tasks of 'desk'; it has nothing"),
        ('source = "s"\nx = 1\ntasks = {desk = 1}\ncells = []', "unknown key 'x'; known: source"),
    ],
)
def test_a_bad_design_is_named(tmp_path, text, message):
    """A missing or malformed design says what is wrong with it."""
    if text is not None:
        (tmp_path / "d.toml").write_text(text)
    with pytest.raises(ExperimentError, match=message):
        load_design("d.toml", tmp_path, "desk")


def cells(tasks, variants):
    """Tasks with so many variants each."""
    made = []
    for task in range(tasks):
        one = Task(
            benchmark="desk",
            benchmark_version="1",
            task_id=f"t{task}",
            prompt="p",
            checkpoints=(Checkpoint(checkpoint_id="c", label="l"),),
            environment_digest="",
        )
        made += [(one, variant(task * 10 + number, task, ["goal"])) for number in range(variants)]
    return made


@pytest.mark.parametrize("seed", range(4))
def test_a_deal_is_even(seed):
    """100 sessions over seven tasks are 14 or 15 each; within a task its variants differ by one at most."""
    dealt = list(assign_sessions(cells(7, 3), 100, seed))
    assert sorted(Counter(task.task_id for task, _, _ in dealt).values()) == [14] * 5 + [15] * 2
    for task in {task.task_id for task, _, _ in dealt}:
        counts = Counter(each.variant_id for own, each, _ in dealt if own.task_id == task)
        assert max(counts.values()) - min(counts.values()) <= 1
    assert len({(each.variant_id, index) for _, each, index in dealt}) == 100
    assert dealt == list(assign_sessions(cells(7, 3), 100, seed))


def test_a_design_over_variants_that_are_here(tmp_path):
    """With variants to choose from, the plan is of real tasks and may run."""
    (tmp_path / "d.toml").write_text(
        'source = "here"\n[tasks]\ndesk = 3\n[[cells]]\nbenchmark = "desk"\nvariants = 5\n'
    )
    (tmp_path / "e.toml").write_text(
        'name = "e"\nconditions = ["underspecified"]\n[benchmark]\nname = "desk"\ndesign = "d.toml"\n'
        '[[agents]]\nname = "a"\nmodel = "scripted/never"\n'
    )
    prepared = prepare(tmp_path / "e.toml")
    check_runnable(prepared)
    assert len({trial.variant.variant_id for trial in prepared.plan.trials}) == 5
    assert len({trial.task.task_id for trial in prepared.plan.trials}) == 3


@pytest.mark.parametrize("task_id", ["expense-audit", "log-triage"])
def test_a_design_chooses_among_the_tasks_that_the_file_names(tmp_path, task_id):
    """``tasks`` narrows what a design may choose from, and never what it has chosen: its counts stay."""
    (tmp_path / "d.toml").write_text(
        'source = "here"\n[tasks]\ndesk = 1\n[[cells]]\nbenchmark = "desk"\nvariants = 4\n'
    )
    (tmp_path / "e.toml").write_text(
        f'name = "e"\nconditions = ["underspecified"]\n[benchmark]\nname = "desk"\ntasks = ["{task_id}"]\n'
        'design = "d.toml"\n[[agents]]\nname = "a"\nmodel = "scripted/never"\n'
    )
    trials = prepare(tmp_path / "e.toml").plan.trials
    assert {trial.task.task_id for trial in trials} == {task_id}
    assert len({trial.variant.variant_id for trial in trials}) == 4


def test_another_seed_deals_otherwise():
    """The seed decides which tasks get one more."""
    hands = {tuple(task.task_id for task, _, _ in assign_sessions(cells(7, 3), 5, seed)) for seed in range(8)}
    assert len(hands) > 1


def test_sessions_run_like_trials(tmp_path):
    """Sessions over desk variants are planned once each for every agent, the same for both."""
    (tmp_path / "e.toml").write_text(
        'name = "e"\nconditions = ["ask_user"]\nsessions = 10\nbenchmark = "desk"\n'
        '[[agents]]\nname = "a"\nmodel = "scripted/balanced"\n[[agents]]\nname = "b"\nmodel = "scripted/never"\n'
    )
    trials = prepare(tmp_path / "e.toml").plan.trials
    by_agent = {
        name: {(each.variant.variant_id, each.trial_index) for each in trials if each.agent.name == name}
        for name in "ab"
    }
    assert len(by_agent["a"]) == 10
    assert by_agent["a"] == by_agent["b"]
    assert len({each.task.task_id for each in trials}) == min(10, len(DeskBenchmark().tasks()))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sessions = 0", "key 'sessions': must be at least 1"),
        ("sessions = 2\nseeds = [1, 2, 3]", "key 'seeds': the index of a session is its seed"),
        ('sessions = 2\nconditions = ["full", "inject_10"]', "key 'sessions': an injection needs"),
    ],
)
def test_sessions_that_make_no_sense_are_refused(tmp_path, line, message):
    """Each mistake names its key."""
    conditions = "" if "conditions" in line else 'conditions = ["ask_user"]\n'
    (tmp_path / "e.toml").write_text(
        f'name = "e"\n{conditions}{line}\nbenchmark = "desk"\n[[agents]]\nname = "a"\nmodel = "scripted/never"\n'
    )
    with pytest.raises(ExperimentError, match=message):
        load_experiment(tmp_path / "e.toml")


def test_a_variable_may_have_a_default(tmp_path):
    """``${NAME:-text}`` is the text where the variable is missing or empty."""
    text = (
        'name = "e"\nconditions = ["full"]\nbenchmark = "desk"\n'
        '[[agents]]\nname = "a"\nmodel = "scripted/${WHICH:-never}"\n'
    )
    (tmp_path / "e.toml").write_text(text)
    for environment, expected in (({}, "never"), ({"WHICH": ""}, "never"), ({"WHICH": "balanced"}, "balanced")):
        assert load_experiment(tmp_path / "e.toml", environment).agents[0].model == f"scripted/{expected}"


def test_every_bundled_design_is_read():
    """Each bundled design decodes and has cells for each benchmark that it counts tasks of."""
    for path in data_path("designs").glob("*.toml"):
        for benchmark in tomllib.loads(path.read_text())["tasks"]:
            assert load_design(path.stem, path.parent, benchmark).cells
