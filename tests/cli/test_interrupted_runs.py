"""Runs that are killed or interrupted: nothing acknowledged is lost, and the same command finishes the rest."""

import os
import random
import signal
import time

import pytest

from lhaw_record.runners.users.simulated_user.person import open_questions
from tests.cli.experiments import ALL_KINDS, BALANCED, write_experiment
from tests.cli.program import (
    all_tables,
    assert_same_tables,
    called,
    count_events,
    descendants,
    end,
    interrupt,
    is_alive,
    lhaw_record,
    query,
    start,
    verify,
    wait_until,
)
from tests.runners.agents.programs.rigs import described, scripted


def test_a_killed_run_is_finished_by_the_same_command(tmp_path):
    """After SIGKILL in the middle of a trial every event that was there stays, and only the rest is run."""
    experiment = write_experiment(tmp_path / "a.toml", trials=2, concurrency=1)
    store = tmp_path / "store"
    process = start("run", experiment, "--store", store)
    wait_until(lambda: count_events(store, "trial_started") >= 2, "a second trial was started", process)
    process.send_signal(signal.SIGKILL)
    end(process)
    before = set(query(store, "select stream_id, sequence from events"))
    done = called("run", experiment, "--store", store)
    assert done.returncode == 0, done.stderr
    assert before <= set(query(store, "select stream_id, sequence from events"))
    assert query(store, "select count(*), count(is_success) from trials") == [(4, 4)]
    failed = set(query(store, "select boundary, error_kind from stg_trials_failed"))
    assert failed <= {("recorder", "interrupted")}
    verify(store)


@pytest.mark.slow
@pytest.mark.thorough
def test_a_run_killed_again_and_again_ends_like_one_that_was_not(reference, reference_tables, tmp_path):
    """After SIGKILL at random moments the same command finishes; every table equals the uninterrupted run's.

    What the killed run started is gone with it, every event that was there stays, and the store verifies.
    """
    experiment, _ = reference
    store = tmp_path / "store"
    seed = random.randrange(1_000_000)
    moments = random.Random(seed)
    kills = 0
    for started_trials in (0, 3, 8, 13):
        process = start("run", experiment, "--store", store)
        _wait_for_trials(process, store, started_trials)
        time.sleep(moments.uniform(0.0, 0.4))
        children = descendants(process.pid)
        before = {row[:2] for row in query(store, "select stream_id, sequence from events")}
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        end(process)
        wait_until(lambda left=children: not any(map(is_alive, left)), "the killed run's children ended")
        assert before <= {row[:2] for row in query(store, "select stream_id, sequence from events")}, f"seed {seed}"
    assert kills >= 2, f"seed {seed}: the run was over before it could be killed"

    done = lhaw_record("run", experiment, "--store", store)
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    assert_same_tables(all_tables(store), reference_tables)
    assert query(store, "select distinct boundary, error_kind from stg_trials_failed") == [("recorder", "interrupted")]
    verify(store)


@pytest.mark.thorough
def test_ctrl_c_lets_running_trials_end(tmp_path):
    """One Ctrl-C, which reaches the children too: what runs ends as it would have, exit 130, and resuming finishes."""
    experiment = write_experiment(tmp_path / "a.toml", conditions=ALL_KINDS, trials=2)
    store = tmp_path / "store"
    process = start("run", experiment, "--store", store)
    wait_until(lambda: count_events(store, "trial_finished") >= 1, "a trial was finished", process)
    interrupt(process)
    done = end(process)
    assert done.returncode == 130, done.stderr
    assert f"lhaw-record run {experiment} --store {store}" in done.stderr.splitlines()[-1]
    assert "interrupted; no recorded data is lost" in done.stderr
    assert "Traceback" not in done.stderr
    assert count_events(store, "trial_failed") == 0
    started = count_events(store, "trial_started")
    assert 1 <= started < 8
    assert count_events(store, "trial_finished") == started
    verify(store)

    done = called("run", experiment, "--store", store)
    assert done.returncode == 0, done.stderr
    assert query(store, "select count(*), max(attempts) from trials") == [(8, 1)]


@pytest.mark.thorough
def test_a_second_ctrl_c_stops_at_once(tmp_path):
    """The first Ctrl-C says that it waits; the second ends trials that would go on for minutes, exit 130, all owed."""
    store, may_go_on = tmp_path / "store", tmp_path / "may go on"
    source = f"while not os.path.exists({str(may_go_on)!r}): time.sleep(0.1)\nwork(1)\n"
    experiment = tmp_path / "a.toml"
    experiment.write_text(
        described(scripted(tmp_path, source), conditions=["full", "underspecified"], limits={"max_seconds": 1800.0})
    )
    process = start("run", experiment, "--store", store)
    wait_until(lambda: count_events(store, "trial_started") >= 2, "both trials run", process)
    interrupt(process)
    first_words = _read_until(process, "again")
    assert process.poll() is None
    interrupt(process)
    done = end(process)
    assert done.returncode == 130, first_words + done.stderr
    assert f"lhaw-record run {experiment} --store {store}" in done.stderr
    assert "Traceback" not in first_words + done.stderr
    failed = "select boundary, error_kind, is_retry_owed from stg_trials_failed"
    assert query(store, failed) == [("recorder", "interrupted", True)] * 2
    verify(store)

    may_go_on.touch()
    done = called("run", experiment, "--store", store)
    assert done.returncode == 0, done.stderr
    assert query(store, "select count(*), min(attempts), max(attempts) from trials") == [(2, 2, 2)]


@pytest.mark.thorough
def test_sigterm_is_an_interrupt(tmp_path):
    """SIGTERM, which service managers send, stops a run in order like Ctrl-C."""
    experiment = write_experiment(tmp_path / "a.toml", conditions=ALL_KINDS, trials=2, agents=[BALANCED])
    process = start("run", experiment, "--store", tmp_path / "store")
    wait_until(lambda: count_events(tmp_path / "store", "trial_started") >= 1, "a trial was started", process)
    os.kill(process.pid, signal.SIGTERM)
    done = end(process)
    assert done.returncode == 130, done.stderr
    verify(tmp_path / "store")


def _wait_for_trials(process, store, started):
    """Wait until more than so many attempts were started, or until the run is over."""

    def is_time():
        return count_events(store, "trial_started") > started or process.poll() is not None

    wait_until(is_time, f"more than {started} attempts were started")


def _read_until(process, word):
    """Read standard error up to the line that holds a word."""
    lines = []
    while not lines or word not in lines[-1]:
        line = process.stderr.readline()
        assert line, f"the program ended without the word {word!r}: {lines}"
        lines.append(line)
    return "".join(lines)


@pytest.mark.thorough
def test_a_run_killed_with_a_question_open_asks_again(tmp_path):
    """After SIGKILL while a person is asked, the trial is missing data; the next run asks, and the terminal answers."""
    more = '\n[user_simulator]\nkind = "person"\n'
    experiment = write_experiment(tmp_path / "a.toml", conditions=("ask_user",), more=more)
    store = tmp_path / "store"
    process = start("run", experiment, "--store", store)
    wait_until(lambda: list(store.glob("questions/*.json")), "a person was asked", process)
    process.send_signal(signal.SIGKILL)
    end(process)
    assert lhaw_record("answer", store, "--once").stderr.count("The agent asks") == 0
    process = start("run", experiment, "--store", store)
    wait_until(lambda: open_questions(store / "questions"), "a person was asked again", process)
    assert lhaw_record("answer", store, "--by", "anna", "--once", input="?\n-\n").stderr.count("The agent asks") == 1
    assert end(process).returncode == 0
    asked = "select attempt, response_state, answered_by, saw_values from questions order by all"
    assert query(store, asked) == [(1, None, None, None), (2, "declined", "anna", True)]
    assert query(store, "select count(*) from trials") == [(1,)]
    verify(store)
