"""The source ``experiment``: variants for the benchmark that an installed package brings."""

import re
import sys
from pathlib import Path

import pytest

from lhaw_record.command_line import main
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.new_benchmark import write_benchmark
from lhaw_record.runners.runs.preparation import prepare
from tests.cli.experiments import write_experiment
from tests.generators.cli.test_source_options import named
from tests.runners.environments.benchmarks.test_new_benchmark import installed

ROOT = Path(__file__).parents[3]
DESIGN = """
name = "shops"
conditions = ["full", "underspecified", "ask_user"]
trials = 1

[benchmark]
name = "corner_shop"
tasks = ["rain"]

[[agents]]
name = "replay"
model = "scripted/replay_masked"

[[agents]]
name = "judge-of-classes"
role = "classifier"
model = "scripted/replay_masked"
strategy = "STRATEGY"
"""


@pytest.fixture
def design(tmp_path, monkeypatch):
    """A function that writes an experiment file of a benchmark that is installed for one test."""
    folder = tmp_path / "corner_shop"
    write_benchmark("corner_shop", folder)
    installed(folder, "corner_shop")
    monkeypatch.syspath_prepend(str(folder))

    def write(strategy="react"):
        path = tmp_path / "design.toml"
        path.write_text(DESIGN.replace("STRATEGY", strategy))
        return path

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == "corner_shop"]:
        del sys.modules[name]


def fenced(page, kind):
    """The blocks of a kind on a page of the docs."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_tasks_are_those_that_the_file_names(tmp_path):
    """The benchmark's options and choice of tasks hold as they do for a run."""
    path = write_experiment(tmp_path / "e.toml")
    every = [each.task.task_id for each in named("desk").tasks()]
    chosen = [each.task.task_id for each in named("experiment", "--from", path).tasks()]
    assert chosen
    assert set(chosen) <= set(every)


def test_a_task_that_is_not_there_is_refused(tmp_path):
    """As a run refuses it: nothing is left out in silence."""
    path = write_experiment(tmp_path / "e.toml")
    path.write_text(path.read_text().replace('name = "desk"', 'name = "desk"\ntasks = ["log-triage", "nope"]', 1))
    with pytest.raises(ExperimentError, match=r"'benchmark\.tasks': 'nope' is not there"):
        named("experiment", "--from", path)


@pytest.mark.thorough
def test_a_pipeline_on_the_benchmark_of_a_package(design, tmp_path, capsys):
    """Its file alone is enough: from tasks to a selection, without a word about sources or agents."""
    store, out = tmp_path / "store", tmp_path / "set.json"
    command = ["pipeline", "experiment", "--from", str(design()), "--store", str(store), "--output", str(out)]
    done = main([*command, "--severity", "delete"])
    said = capsys.readouterr()
    assert done == 0, said.err
    assert "1 of 1 tasks are within reach" in said.err
    assert "corner_shop" in out.read_text()


def test_generate_says_how_to_run_what_it_made(design, tmp_path, capsys):
    """The line that it prints is the one that an experiment file needs."""
    path, store = design(), tmp_path / "store"
    command = ["generate", "experiment", "--from", str(path), "--store", str(store), "--severity", "delete"]
    assert main(command) == 0
    line = capsys.readouterr().err.splitlines()[-1].strip()
    path.write_text(path.read_text().replace('tasks = ["rain"]', f'tasks = ["rain"]\n{line}'))
    assert prepare(path).plan.trials


def test_what_would_stop_a_later_phase_is_said_before_the_first(design, tmp_path, capsys):
    """A classifier that cannot run is found before the baseline has cost anything."""
    store = tmp_path / "store"
    done = main(["pipeline", "experiment", "--from", str(design("nonsense")), "--store", str(store)])
    assert done != 0
    assert "strategy 'nonsense' is unknown" in capsys.readouterr().err
    assert not store.exists()


@pytest.mark.thorough
def test_a_benchmark_brings_changed_workspaces_of_its_own(design, tmp_path, capsys):
    """What docs/own-tasks.md shows is enough: --environment registers it, a pipeline classifies it and runs it.

    With --controls their table is printed too.
    """
    folder, blocks = tmp_path / "corner_shop" / "corner_shop", fenced("own-tasks.md", "python")
    variant, opened = (next(block for block in blocks if mark in block) for mark in ("def two_files", "is_changed ="))
    tasks, benchmark = folder / "tasks.py", folder / "benchmark.py"
    tasks.write_text(tasks.read_text().replace("import Checkpoint,", "import Checkpoint, EnvironmentChange,") + variant)
    text = benchmark.read_text().replace("tasks import CHECKPOINTS,", "tasks import two_files, CHECKPOINTS,")
    brought = "for each in (task.variant(), two_files(task.task()))"
    text = text.replace(
        "task.variant() for task in self._tasks.values()", f"each for task in self._tasks.values() {brought}"
    )
    text = text.replace("        del variant  # these variants change the prompt only\n", "")
    start, end = text.index("        with tempfile"), text.index("            async with")
    benchmark.write_text(text[:start] + opened + text[end:])
    store, path = tmp_path / "store", design()
    command = [
        "pipeline",
        "experiment",
        "--from",
        str(path),
        "--store",
        str(store),
        "--output",
        str(tmp_path / "set.json"),
    ]
    done = main([*command, "--environment", "--controls"])
    said = capsys.readouterr()
    assert done == 0, said.err
    assert re.search(r"(?m)^environment +\S", said.out)
    assert "controls: " in said.out
    assert main(["variants", "show", str(store), "rain"]) == 0
    assert "[environment] rain/two-files\n  workspace: two_files" in capsys.readouterr().out


def test_a_benchmark_without_changed_workspaces_is_refused_at_once(design, tmp_path, capsys):
    """--environment costs nothing where there is nothing to change: no baseline, no extraction, no store."""
    for command in ("pipeline", "generate"):
        done = main([command, "experiment", "--from", str(design()), "--store", str(tmp_path / "s"), "--environment"])
        assert done != 0
        assert "docs/own-tasks.md" in capsys.readouterr().err
        assert not (tmp_path / "s").exists()
