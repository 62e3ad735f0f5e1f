"""A study that stops when its gain is shown: by batches of whole tasks, at the same look however often it is killed."""

import argparse
from dataclasses import dataclass, field

import pytest

from lhaw_record.command_line import build_parser
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.cli.run_commands import run_command
from lhaw_record.runners.runs.preparation import check_runnable, next_batch, prepare, stored_index
from tests.cli.experiments import write_experiment
from tests.cli.program import called, query

STOP = "\n[stop_when_shown]\nlooks = 3\n"


@dataclass
class KnownRule:
    """A rule whose p-values are given. It may die at a look, as a process does."""

    p_values: dict[int, float | None]
    dies_at: int | None = None
    seen: list[tuple[str, ...]] = field(default_factory=list)

    def levels(self, looks):
        return [0.01 * look for look in range(1, looks + 1)]

    def p_value(self, store, experiment, agent, measure, tasks):
        if len(tasks) == self.dies_at:
            raise RuntimeError("killed")
        self.seen.append(tuple(tasks))
        return self.p_values[len(tasks)]


@pytest.fixture
def study(tmp_path, desk_variants):
    return write_experiment(
        tmp_path / "a.toml", conditions=("underspecified", "ask_user"), variants=desk_variants, more=STOP
    )


@pytest.fixture(scope="module")
def desk_variants():
    """One variant of each of three tasks."""
    from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark

    first = {}
    for variant in DeskBenchmark().variants():
        if variant.prompt_state == "underspecified":
            first.setdefault(variant.task_id, variant.variant_id)
    return list(first.values())[:3]


def run(study, store, rule):
    options: argparse.Namespace = build_parser().parse_args(["run", str(study), "--store", str(store)])
    return run_command(options, rule)


def looks(store):
    return query(store, "select look, looks, tasks, p_value, level, is_shown from stg_looks_taken order by look")


@pytest.mark.thorough
def test_a_study_stops_at_the_look_that_shows_its_gain(study, tmp_path, capsys):
    """The second of three looks is below its level: two whole tasks have run, the third never starts, then or later."""
    store = tmp_path / "store"
    rule = KnownRule({1: 0.015, 2: 0.015, 3: 0.0})
    assert run(study, store, rule) == 0
    assert looks(store) == [(1, 3, 1, 0.015, 0.01, False), (2, 3, 2, 0.015, 0.02, True)]
    assert query(store, "select count(distinct task_id), count(*) from trials") == [(2, 4)]
    assert rule.seen[1][:1] == rule.seen[0]
    assert "look 2 of 3, 2 tasks: p = 0.015, level 0.0200: shown, so the study stops" in capsys.readouterr().err
    before = {path.name for path in Store(store).segment_paths()}
    assert run(study, store, rule) == 0
    assert "the study is over; nothing to run" in capsys.readouterr().err
    assert {path.name for path in Store(store).segment_paths()} == before
    assert query(store, "select look, n_looks, n_tasks, level, is_last from looks where is_last") == [
        (2, 3, 2, 0.02, True)
    ]


@pytest.mark.thorough
def test_a_killed_study_takes_the_same_look(study, tmp_path):
    """It dies after the trials of the first look and before it is recorded: the look is taken, no trial runs again."""
    store = tmp_path / "store"
    with pytest.raises(RuntimeError, match="killed"):
        run(study, store, KnownRule({}, dies_at=1))
    assert looks(store) == []
    rule = KnownRule({1: 0.5, 2: None, 3: 0.03})
    assert run(study, store, rule) == 0
    assert looks(store) == [(1, 3, 1, 0.5, 0.01, False), (2, 3, 2, None, 0.02, False), (3, 3, 3, 0.03, 0.03, False)]
    assert query(store, "select count(*), max(attempt) from stg_trials_started") == [(6, 1)]
    assert next_batch(prepare(study), stored_index(prepare(study), store)) is None
    study.write_text(study.read_text().replace("looks = 3", "looks = 2"))
    with pytest.raises(ExperimentError, match="the plan changed after a look, so no level holds"):
        next_batch(prepare(study), stored_index(prepare(study), store))


def test_a_plan_is_said_and_nobody_else_runs_it(study, tmp_path):
    """--dry-run names tasks and levels; the daemon, which takes no looks, refuses the file when it is submitted."""
    done = called("run", study, "--store", tmp_path / "s", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "looks at 1 tasks (p < 0.0074), 2 tasks (p < 0.0171), 3 tasks (p < 0.0390)" in done.stderr
    with pytest.raises(ExperimentError, match="only 'lhaw-record run' stops"):
        check_runnable(prepare(study))


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("looks = 0", "looks': must be from 1"),
        ("max_tasks = 9", "3 are planned"),
        ("max_tasks = 2", "at least one task for each look"),
        ('agent = "nobody"', "name one of balanced"),
    ],
)
def test_a_wrong_plan_is_refused(study, keys, problem):
    """The message has the key."""
    study.write_text(study.read_text().replace(STOP, f"\n[stop_when_shown]\n{keys}\n"))
    if keys == "max_tasks = 2":
        study.write_text(study.read_text() + "looks = 3\n")
    with pytest.raises(ExperimentError, match=problem):
        prepare(study)


def test_a_study_needs_both_arms(tmp_path):
    """Without ask_user there is no gain to show."""
    study = write_experiment(tmp_path / "a.toml", conditions=("underspecified",), more=STOP)
    with pytest.raises(ExperimentError, match="needs the condition 'ask_user'"):
        prepare(study)
