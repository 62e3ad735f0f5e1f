"""The door of an endpoint from the command line: a rate limit costs no trial, and a dead address is named."""

import pytest

from lhaw_record.runners.agents.scripted import ScriptedModel
from tests.cli.experiments import PLAIN_PROCESS, write_experiment
from tests.cli.program import called, query, verify
from tests.support.chat_server import server_beside
from tests.support.limits import RequestLimit

SERVED = {"name": "served", "model": "local-model", "api_base": "${CHAT_URL}"}


def balanced(seed):
    """The model that the server serves."""
    return ScriptedModel("scripted/balanced", seed)


@pytest.mark.thorough
def test_a_dead_address_pauses_the_run_and_is_named(tmp_path):
    """With a preflight nothing begins; without it the run pauses, charges no attempt, and goes on later."""
    store = tmp_path / "store"
    experiment = write_experiment(
        tmp_path / "a.toml",
        conditions=["full"],
        concurrency=4,
        trials=4,
        agents=[SERVED],
        sandbox=PLAIN_PROCESS,
        has_preflight=True,
        more="[retry]\nmax_attempts = 1\n",
    )
    dead = {"CHAT_URL": "http://127.0.0.1:9/v1"}
    refused = called("run", experiment, "--store", store, extra=dead)
    assert refused.returncode == 2
    assert "nothing answers at http://127.0.0.1:9/v1" in refused.stderr
    assert not store.exists()
    checked = called("check", experiment, extra=dead)
    assert (checked.returncode, "http://127.0.0.1:9/v1" in checked.stdout) == (1, True)
    paused = called("run", experiment, "--store", store, "--no-preflight", extra=dead)
    assert paused.returncode == 1
    assert "paused: local-model at http://127.0.0.1:9/v1 cannot be reached" in paused.stderr
    assert query(store, "select distinct error_kind from stg_trials_failed") == [("endpoint_down",)]
    with server_beside(balanced) as server:
        done = called("run", experiment, "--store", store, extra={"CHAT_URL": server.url})
    assert done.returncode == 0, done.stderr
    assert "preflight: " in done.stderr
    assert query(store, "select count(*) from trials") == [(4,)]
    verify(store)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["bare", "openai"])
def test_a_rate_limit_costs_no_trial(tmp_path, dialect):
    """8 trials at concurrency 8 against 5 requests a second: all finish, and refusals are the exception.

    How few they are, test_pace.py judges on a clock of its own: here a busy machine bunches requests that left apart.
    """
    store = tmp_path / "store"
    limit = RequestLimit(5.0, 1, dialect)
    experiment = write_experiment(
        tmp_path / "a.toml", conditions=["full"], concurrency=8, trials=8, agents=[SERVED], sandbox=PLAIN_PROCESS
    )
    with server_beside(balanced, limit=limit) as server:
        done = called("run", experiment, "--store", store, extra={"CHAT_URL": server.url})
    assert done.returncode == 0, done.stderr
    assert query(store, "select count(*), max(attempts) from trials") == [(8, 1)]
    assert limit.refused < limit.accepted
    assert "refused by its rate limit" in done.stderr
    assert query(store, "select max(charged_seconds) < min(waited_seconds) from trials") == [(True,)]
