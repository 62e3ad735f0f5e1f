"""Runs on a real Ray cluster of several nodes here: lost nodes, dead drivers and workers, money, Ctrl-C."""

import os
import signal

from recorder.store import Store
from tests.cli.experiments import ALL_KINDS, write_experiment
from tests.cli.program import (
    all_tables,
    assert_same_tables,
    end,
    interrupt,
    query,
    verify,
    wait_until,
)

DOUBLED = "select trial_id from stg_trials_finished group by all having count(*) > 1"


def wait_for_finished(site, count):
    """Wait until so many trials are published."""
    wait_until(lambda: site.count("trial_finished") >= count, f"{count} trials were finished")


def events_of(site):
    """What every host sees now."""
    return set(query(site.root(), "select stream_id, sequence from events"))


def test_a_lost_node_loses_no_finished_trial_and_its_trials_are_run_again(site, reference, reference_tables):
    """A node and its disk are lost in mid-run: every table equals the local run's, and no trial counts twice."""
    experiment, _ = reference
    site.add("host1")
    lost = site.add("host2")
    process = site.start(experiment)
    wait_for_finished(site, 4)
    before = events_of(site)
    site.lose(lost, "host2")
    done = end(process)
    assert done.returncode == 0, done.stderr
    assert "is lost with 2 running trials, which are owed again" in done.stderr
    assert before <= events_of(site)
    assert query(site.root(), DOUBLED) == []
    assert_same_tables(all_tables(site.root()), reference_tables)
    verify(site.root())


def test_a_killed_driver_goes_on_where_it_was(site, reference, reference_tables):
    """After SIGKILL of the driver the same command runs what is owed, on the same hosts; tables are as they should."""
    experiment, _ = reference
    site.add("host1", processors=2)
    process = site.start(experiment)
    wait_for_finished(site, 6)
    before = events_of(site)
    process.send_signal(signal.SIGKILL)
    end(process)
    done = site.run(experiment)
    assert done.returncode == 0, done.stderr
    assert before <= events_of(site)
    assert query(site.root(), DOUBLED) == []
    assert_same_tables(all_tables(site.root()), reference_tables)
    verify(site.root())
    assert not Store(site.root("host1")).journals(), "what the killed workers left is published"


def test_two_interrupts_record_what_was_stopped_on_every_node(site, tmp_path):
    """Ctrl-C twice: attempts on other machines end as interrupted, are published, and are owed again."""
    experiment = write_experiment(tmp_path / "a.toml", conditions=ALL_KINDS, trials=3, concurrency=2)
    site.add("host1")
    process = site.start(experiment)
    wait_for_finished(site, 1)
    interrupt(process)
    assert "stopping when" in process.stderr.readline() or any("stopping when" in line for line in process.stderr)
    interrupt(process)
    done = end(process)
    assert done.returncode == 130, done.stderr
    assert "--executor ray" in done.stderr.splitlines()[-1]
    assert query(site.root(), "select distinct boundary, error_kind from stg_trials_failed") == [
        ("recorder", "interrupted")
    ]
    verify(site.root())


def test_a_killed_worker_is_replaced_and_what_it_left_is_published(site, tmp_path):
    """A worker dies on a host that lives: another takes its place, and the host publishes how the attempts ended."""
    experiment = write_experiment(tmp_path / "a.toml", conditions=ALL_KINDS, trials=2, concurrency=2)
    site.add("host1")
    process = site.start(experiment)
    wait_for_finished(site, 1)
    (worker,) = site.workers()
    os.kill(worker, signal.SIGKILL)
    done = end(process)
    assert done.returncode == 0, done.stderr
    assert "is lost with 2 running trials" in done.stderr
    assert query(site.root(), DOUBLED) == []
    assert query(site.root(), "select count(distinct trial_id) from stg_trials_finished") == [(8,)]
    assert not Store(site.root("host1")).journals()
    verify(site.root())


def test_a_cost_limit_holds_over_the_cluster(site, tmp_path):
    """No trial starts that the limit could not pay for, whichever machine would run it."""
    limit = "[budget]\nmax_cost_usd = 0.2\nmax_cost_usd_per_trial = 0.06"
    experiment = write_experiment(tmp_path / "a.toml", conditions=ALL_KINDS, trials=3, concurrency=6, more=limit)
    site.add("host1")
    site.add("host2")
    done = site.run(experiment)
    assert done.returncode == 1
    assert "the cost limit has no room for another trial" in done.stderr
    ((spent,),) = query(site.root(), "select sum(cost_usd) from stg_trials_finished")
    assert 0 < spent <= 0.2


def test_a_machine_without_a_key_is_named_before_anything_runs(site, tmp_path):
    """A worker lacks the key of a model: the run ends with the host, the variable and where to set it."""
    model = {"name": "paid", "model": "openai/gpt-4.1", "api_key_env": "LHAW_RECORD_TEST_KEY"}
    experiment = write_experiment(tmp_path / "a.toml", agents=(model,))
    site.add("host1")
    done = site.run(experiment)
    assert done.returncode == 2
    assert "LHAW_RECORD_TEST_KEY is not set" in done.stderr
    assert "in the environment that 'ray start' had there" in done.stderr
    assert "Traceback" not in done.stderr
    assert site.count("run_started") == 0
