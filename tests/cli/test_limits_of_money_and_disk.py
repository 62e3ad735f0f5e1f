"""When something runs out, money or disk: the run says so, keeps what it has, and goes on when there is more."""

import subprocess

import msgspec
import pytest

from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.agents.scripted import ScriptedModel
from tests.cli.experiments import PLAIN_PROCESS, Verbatim, write_experiment
from tests.cli.program import all_tables, assert_same_tables, called, count_events, lhaw_record, query, verify
from tests.support.canned_model import CannedModel, tool_reply
from tests.support.chat_server import server_beside
from tests.support.faults import Fault
from tests.support.needs import require


def test_the_cost_limit_of_an_experiment_stops_new_trials(tmp_path):
    """Nothing starts that the budget cannot pay for: exit 1, the key is named, and a higher limit finishes the rest."""
    limit = "[budget]\nmax_cost_usd = {total}\nmax_cost_usd_per_trial = 0.2\n"
    store = tmp_path / "store"
    experiment = write_experiment(tmp_path / "a.toml", trials=2, concurrency=1, more=limit.format(total=0.21))
    done = called("run", experiment, "--store", store)
    assert done.returncode == 1, done.stderr
    assert "budget.max_cost_usd" in done.stderr
    assert query(store, "select sum(cost_usd) <= 0.21, count(distinct trial_id) < 4 from costs") == [(True, True)]
    assert query(store, "select run_finished.outcome from events where type = 'run_finished'") == [("cost_limit",)]

    write_experiment(experiment, trials=2, concurrency=1, more=limit.format(total=9.0))
    done = called("run", experiment, "--store", store)
    assert done.returncode == 0, done.stderr
    assert query(store, "select count(*), max(attempts) from trials") == [(4, 1)]
    verify(store)


@pytest.mark.thorough
def test_running_trials_stop_at_the_limit_too(tmp_path):
    """A limit of a third of a trial, or one that eight at once hold: it is passed by at most one request of each.

    What was stopped is missing data and owed. The eight hold what the first trial cost, and each of them costs more.
    """
    slow = [Fault(kind="slow", times=None, seconds=0.05)]
    price = Verbatim("{ input_usd_per_million_tokens = 1.0, output_usd_per_million_tokens = 1.0 }")
    agent = {"name": "served", "model": "m", "api_base": "${CHAT_URL}", "price": price}
    wanted = {"conditions": ["full"], "concurrency": 8, "agents": [agent], "sandbox": PLAIN_PROCESS}

    def run(store, model, trials, max_cost_usd):
        budget = f"[budget]\nmax_cost_usd = {max_cost_usd}\n"
        experiment = write_experiment(tmp_path / "a.toml", **wanted, trials=trials, more=budget)
        with server_beside(model, slow) as server:
            return called("run", experiment, "--store", store, extra={"CHAT_URL": server.url})

    def stopped(store, trials, max_cost_usd):
        done = run(store, lambda seed: ScriptedModel("scripted/balanced", seed), trials, max_cost_usd)
        assert done.returncode == 1, done.stderr
        assert "budget.max_cost_usd" in done.stderr
        calls = "select sum(model_responded.usage.cost_usd), max(model_responded.usage.cost_usd) from events"
        ((spent, largest),) = query(store, calls)
        verify(store)
        return spent, largest

    store = tmp_path / "one"
    spent, largest = stopped(store, 8, 0.003)  # nothing is known of a trial's cost: one is tried alone
    assert 0.003 <= spent <= 0.003 + largest
    assert query(store, "select count(*) from trials where ended_by is not null") == [(0,)]
    failed = "select trial_failed.error_kind, trial_failed.is_retry_owed from events where type = 'trial_failed'"
    assert query(store, failed) == [("run_cost_limit", True)]

    store = tmp_path / "eight"
    submits = tool_reply(("c1", "submit", '{"answer":"done"}'))
    submits = msgspec.structs.replace(submits, usage=Usage(input_tokens=600, output_tokens=0))
    done = run(store, CannedModel([submits]), 1, 0.0057)
    assert done.returncode == 0, done.stderr
    spent, largest = stopped(store, 9, 0.0057)
    assert 0.0057 <= spent <= 0.0057 + 8 * largest
    (kinds,) = query(store, "select list(distinct trial_failed.error_kind) from events where type = 'trial_failed'")
    assert kinds == (["run_cost_limit"],)


@pytest.mark.thorough
def test_a_limit_of_models_stops_their_trials_only(tmp_path):
    """Eight at once pass a limit of 0.001 USD by at most one request each; the other agent's trials are finished."""
    price = Verbatim("{ input_usd_per_million_tokens = 1.0, output_usd_per_million_tokens = 1.0 }")
    served = {"api_base": "${CHAT_URL}", "price": price}
    agents = [{"name": "dear", "model": "dear/m", **served}, {"name": "other", "model": "scripted/balanced"}]
    wanted = {"conditions": ["full"], "trials": 8, "concurrency": 8, "agents": agents, "sandbox": PLAIN_PROCESS}
    limit = '[budget.models]\n"dear/*" = 0.001\n'
    experiment, store = write_experiment(tmp_path / "a.toml", **wanted, more=limit), tmp_path / "store"
    with server_beside(lambda seed: ScriptedModel("scripted/balanced", seed), []) as server:
        words = ["run", experiment, "--store", store]
        plan = called(*words, "--dry-run", extra={"CHAT_URL": server.url})
        assert "budget.models.'dear/*': at most 0.001 USD for dear/m." in plan.stderr
        for _ in range(2):  # what was spent before counts
            done = called(*words, extra={"CHAT_URL": server.url})
            assert done.returncode == 1, done.stderr
            assert "Raise budget.models.'dear/*' in" in done.stderr

    cost = "select sum(model_responded.usage.cost_usd), max(model_responded.usage.cost_usd) from events semi join "
    cost += "(select stream_id, model_called.call_id as id from events where model_called.model = 'dear/m') as own "
    cost += "on events.stream_id = own.stream_id and model_responded.call_id = own.id"
    ((spent, largest),) = query(store, cost)
    assert 0.001 <= spent <= 0.001 + 8 * largest

    assert query(store, "select count(*) from trials where agent = 'other' and ended_by is not null") == [(8,)]
    failed = (
        "select distinct trial_failed.error_kind, trial_failed.is_retry_owed from events where type = 'trial_failed'"
    )
    assert query(store, failed) == [("model_cost_limit", True)]


@pytest.mark.thorough
def test_the_cost_limit_of_a_trial_ends_it_as_data(tmp_path):
    """A trial that spends its share ends with ``cost_limit``, is graded like any other, and the run exits 0."""
    experiment = write_experiment(
        tmp_path / "a.toml", conditions=["full"], more="[budget]\nmax_cost_usd_per_trial = 0.01\n"
    )
    done = called("run", experiment, "--store", tmp_path / "store")
    assert done.returncode == 0, done.stderr
    ((ended_by, score_count),) = query(tmp_path / "store", "select ended_by, len(scores) from trials")
    assert (ended_by, score_count > 0) == ("cost_limit", True)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, and how to make it larger."""
    require("mount")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", folder], check=True)

    def grow():
        subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)

    yield folder, grow
    subprocess.run(["umount", folder], check=True)


@pytest.mark.thorough
def test_a_file_system_that_turns_read_only_loses_nothing(small_disk, tmp_path):
    """The run exits 1 and says so, tables still come; once it can be written again the same command finishes."""
    folder, grow = small_disk
    grow()
    experiment = write_experiment(tmp_path / "a.toml", conditions=["full"], trials=1)
    assert called("run", experiment, "--store", folder / "store").returncode == 0
    write_experiment(experiment, conditions=["full"], trials=2)
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    done = called("run", experiment, "--store", folder / "store")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "Read-only file system; name a place" in done.stderr
    assert f"cannot write to the store at {folder / 'store'}: " in done.stderr
    assert called("tables", folder / "store", "trial_counts_and_cost").returncode == 0
    subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
    done = called("run", experiment, "--store", folder / "store")
    assert done.returncode == 0, done.stderr
    assert query(folder / "store", "select count(*), max(attempts) from trials") == [(2, 1)]
    verify(folder / "store")


@pytest.mark.thorough
@pytest.mark.slow
def test_a_full_disk_stops_the_run_and_spares_the_store(small_disk, reference, reference_tables):
    """Disk full while recording: exit 1 and a plain reason; the store stays readable; with more room it finishes."""
    folder, grow = small_disk
    experiment, _ = reference
    store = folder / "store"
    done = lhaw_record("run", experiment, "--store", store)
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    started = count_events(store, "trial_started")
    assert 0 < started < 24
    assert called("tables", store, "trial_counts_and_cost").returncode == 0
    assert called("sql", store, "-c", "select count(*) from trials").returncode == 0

    grow()
    done = lhaw_record("run", experiment, "--store", store)
    assert done.returncode == 0, done.stderr
    assert_same_tables(all_tables(store), reference_tables)
    verify(store)
