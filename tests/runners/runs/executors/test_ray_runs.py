"""Runs on a real Ray cluster of several nodes here: lost nodes, dead drivers and workers, money, Ctrl-C."""

import os
import signal

from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.agents.scripted import ScriptedModel
from tests.cli.experiments import ALL_KINDS, PLAIN_PROCESS, write_experiment
from tests.cli.program import (
    all_tables,
    assert_same_tables,
    end,
    interrupt,
    query,
    verify,
    wait_until,
)
from tests.support.chat_server import server_beside
from tests.support.faults import Fault

DOUBLED = "select trial_id from stg_trials_finished group by all having count(*) > 1"


def wait_in_run(process, is_true, what):
    """Wait until something is true of a run; one that ends before says why."""

    def is_so():
        has_ended = process.poll() is not None
        is_now = is_true()
        assert is_now or not has_ended, f"the run ended before {what}: {end(process)}"
        return is_now

    wait_until(is_so, what)


def wait_for_finished(site, process, count):
    """Wait until so many trials are published."""
    wait_in_run(process, lambda: site.count("trial_finished") >= count, f"{count} trials were finished")


def events_of(site):
    """What every host sees now."""
    return set(query(site.root(), "select stream_id, sequence from events"))


def test_a_lost_node_loses_no_finished_trial_and_its_trials_are_run_again(site, reference, reference_tables):
    """A node and its disk are lost in mid-run: every table equals the local run's, and no trial counts twice."""
    experiment, _ = reference
    site.add("host1")
    lost = site.add("host2")
    process = site.start(experiment)
    wait_for_finished(site, process, 4)
    before = events_of(site)
    site.lose(lost, "host2")
    done = end(process)
    assert done.returncode == 0, done.stderr
    assert "is lost with 2 running trials, which will run again" in done.stderr
    assert before <= events_of(site)
    assert query(site.root(), DOUBLED) == []
    assert_same_tables(all_tables(site.root()), reference_tables)
    verify(site.root())


def test_a_killed_driver_goes_on_where_it_was(site, reference, reference_tables):
    """After SIGKILL of the driver the same command runs what is owed, on the same hosts; tables are as they should."""
    experiment, _ = reference
    site.add("host1", processors=2)
    process = site.start(experiment)
    wait_for_finished(site, process, 6)
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
    slow = Fault(kind="slow", times=None, seconds=600.0)
    with server_beside(lambda seed: ScriptedModel("scripted/balanced", seed), [slow]) as server:
        agents = [{"name": "slow", "model": "local-model", "api_base": server.url}]
        experiment = write_experiment(tmp_path / "a.toml", trials=2, agents=agents, sandbox=PLAIN_PROCESS)
        site.add("host1")
        process = site.start(experiment)
        wait_in_run(process, lambda: len(server.requests) >= 2, "two trials waited for their model")
        interrupt(process)
        assert any("stopping when" in line for line in iter(process.stderr.readline, ""))
        interrupt(process)
        done = end(process)
    assert done.returncode == 130, done.stderr
    assert "--executor ray" in done.stderr.splitlines()[-1]
    failed = "select boundary, error_kind, is_retry_owed from stg_trials_failed"
    assert query(site.root(), failed) == [("recorder", "interrupted", True)] * 2
    verify(site.root())


def test_a_killed_worker_is_replaced_and_what_it_left_is_published(site, tmp_path):
    """A worker dies on a host that lives: another takes its place, and the host publishes how the attempts ended."""
    slow = Fault(kind="slow", times=None, seconds=0.1)  # a call: the first trial ends long before the last
    with server_beside(lambda seed: ScriptedModel("scripted/balanced", seed), [slow]) as server:
        agents = [{"name": "slow", "model": "local-model", "api_base": server.url}]
        experiment = write_experiment(
            tmp_path / "a.toml", conditions=ALL_KINDS, trials=2, agents=agents, sandbox=PLAIN_PROCESS
        )
        site.add("host1")
        process = site.start(experiment)
        wait_for_finished(site, process, 1)
        (worker,) = site.workers()
        os.kill(worker, signal.SIGKILL)
        done = end(process)
    assert done.returncode == 0, done.stderr
    assert "worker 1 on" in done.stderr
    assert "running trials, which will run again" in done.stderr
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
    assert "the cost limit does not allow another trial" in done.stderr
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
