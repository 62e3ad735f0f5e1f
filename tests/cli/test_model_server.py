"""Models behind real HTTP: the same results as in process, through every fault, and nothing scored that is missing."""

import contextlib
import itertools
import json

import pytest

from lhaw_record.runners.agents.scripted import ScriptedModel
from tests.cli.experiments import BALANCED, PLAIN_PROCESS, Verbatim, write_experiment
from tests.cli.program import called, query, verify
from tests.support.canned_model import CannedModel, text_reply, tool_reply
from tests.support.chat_server import server_beside
from tests.support.depth import IS_QUICK
from tests.support.faults import Fault
from tests.support.model_limits import FILTERED, OVERFLOWS, REPLIES

TRIALS = 1 if IS_QUICK else 2
IMPATIENT = "[retry]\nmax_attempts = 1\nrequest_attempts = {attempts}\nrequest_timeout_s = {timeout_s}\n"
SUBMIT = tool_reply(("z", "submit", '{"answer": "done"}'))


def balanced(seed):
    """The model that the server serves: the very one that runs in process as scripted/balanced."""
    return ScriptedModel("scripted/balanced", seed)


def run(experiment, store, *words, **options):
    """Run the program in this process beside a server in a thread."""
    return called("run", experiment, "--store", store, *words, **options)


@pytest.mark.slow
@pytest.mark.thorough
def test_a_model_behind_http_gives_what_it_gives_in_process(tmp_path):
    """A model served over HTTP, found through ${CHAT_URL}: success, actions, questions of each trial as in process."""
    store = tmp_path / "store"
    served = {"name": "served", "model": "local-model", "api_base": "${CHAT_URL}"}
    conditions = ("full", "underspecified", "ask_user", "inject_50")
    experiment = write_experiment(
        tmp_path / "a.toml",
        conditions=conditions,
        trials=TRIALS,
        concurrency=3,
        agents=[BALANCED, served],
        sandbox=PLAIN_PROCESS,
    )
    with server_beside(balanced) as server:
        url = server.url
        done = run(experiment, store, extra={"CHAT_URL": url})
    assert done.returncode == 0, done.stderr
    columns = "condition, variant_id, trial_index, is_success, scores, action_count, question_count, ended_by"
    found = {
        name: query(store, f"select {columns} from trials where agent_name = '{name}' order by all")
        for name in ("balanced", "served")
    }
    assert len(found["served"]) == 4 * TRIALS
    assert found["served"] == found["balanced"]
    assert url not in query(store, "select string_agg(trial_started::varchar) from events")[0][0]
    verify(store)


@pytest.mark.thorough
def test_requests_are_shown_as_the_server_got_them(tmp_path):
    """``show --requests`` prints messages, tools and parameters of each request that arrived, and its reply."""
    store = tmp_path / "store"
    agents = [{"name": "served", "model": "local-model", "api_base": "${CHAT_URL}"}]
    experiment = write_experiment(
        tmp_path / "a.toml", conditions=["ask_user"], trials=1, agents=agents, sandbox=PLAIN_PROCESS
    )
    fault = Fault(kind="server_error")
    with server_beside(balanced, faults=[fault]) as server:
        assert run(experiment, store, extra={"CHAT_URL": server.url}).returncode == 0
        arrived = list(server.requests)
    (stream,) = (row[0] for row in query(store, "select stream_id from trials"))
    shown = [json.loads(line) for line in called("show", store, stream, "--requests").stdout.splitlines()]
    assert [(each["reply"] is None, each["failure"] is None) for each in shown[:2]] == [(True, False), (False, True)]
    for request, body in zip(shown, arrived, strict=True):
        filled = [{key: value for key, value in each.items() if value} for each in request["messages"]]
        assert filled == [{key: value for key, value in each.items() if value} for each in body["messages"]]
        assert request["tools"] == body["tools"]
        assert request["parameters"].items() <= body.items()
    for before, after in itertools.pairwise(shown[1:]):
        assert before["reply"]["message"] in after["messages"]
    assert shown[-1]["reply"]["message"]["tool_calls"][0]["function"]["name"] == "submit"


@pytest.mark.thorough
def test_faults_of_the_server_are_retried_and_recorded(tmp_path):
    """429 with retry-after, no reply in time, 500, prose, a cut connection: each is one model_failed, and retried.

    What was refused with an error costs nothing. What the others cost is unknown, and so is the cost of their trials;
    the run, also the next one, says that its limit does not cover them.
    """
    store = tmp_path / "store"
    faults = [
        Fault(kind="rate_limit", retry_after="1"),
        Fault(kind="hang"),
        Fault(kind="server_error"),
        Fault(kind="not_json"),
        Fault(kind="drop"),
    ]
    price = "{ input_usd_per_million_tokens = 1.0, output_usd_per_million_tokens = 2.0 }"
    agents = [{"name": "served", "model": "local-model", "api_base": "${CHAT_URL}", "price": Verbatim(price)}]
    experiment = write_experiment(
        tmp_path / "a.toml",
        conditions=["full"],
        trials=5,
        concurrency=5,
        agents=agents,
        sandbox=PLAIN_PROCESS,
        more=IMPATIENT.format(attempts=5, timeout_s=8.0) + "[budget]\nmax_cost_usd = 100.0\n",
    )
    with server_beside(balanced, faults) as server:
        done = run(experiment, store, extra={"CHAT_URL": server.url})
        experiment.write_text(experiment.read_text().replace("trials = 5", "trials = 6"))
        again = run(experiment, store, extra={"CHAT_URL": server.url})
    assert (done.returncode, again.returncode) == (0, 0), done.stderr
    ((slow,),) = query(store, "select count(*) - 1 from stg_models_failed where error_kind = 'timeout'")
    unknown = f"not in this sum: {3 + slow} failed requests of unknown cost; the cost limit does not cover them"
    assert slow or unknown in done.stderr  # a busy machine is slow in either run
    assert unknown in again.stderr
    assert f" USD, and unknown costs of {3 + slow} more\n" in again.stderr
    lost = "select trial_id from stg_models_failed where http_status is null"
    assert query(store, f"select distinct (cost_usd is null) = (trial_id in ({lost})) from trials") == [(True,)]
    reasons = "select distinct cost_reason from trial_counts_and_cost where purpose = 'agent'"
    assert query(store, reasons) == [("unknown_tokens",)]
    failures = """select error_kind, http_status, is_retried from stg_models_failed
        qualify row_number() over (partition by error_kind order by is_retried) = 1 or error_kind <> 'timeout'
        order by error_kind"""
    assert query(store, failures) == [
        ("connection", None, True),
        ("malformed_reply", None, True),
        ("rate_limit", 429, True),
        ("server_error", 500, True),
        ("timeout", None, True),
    ]
    assert query(store, "select count(*), sum(is_success::int), max(attempts) from trials") == [(6, 6, 1)]
    assert query(store, "select count(*) from stg_models_called where call_kind = 'retry'") == [(5,)]
    verify(store)


@pytest.mark.thorough
def test_a_server_that_stays_broken_leaves_missing_data_not_zeros(tmp_path):
    """Every trial fails at ``model``, exit 1, the tables count them as missing; once it is healthy the rest runs."""
    store = tmp_path / "store"
    served = {"name": "served", "model": "local-model", "api_base": "${CHAT_URL}"}
    experiment = write_experiment(
        tmp_path / "a.toml",
        agents=[BALANCED, served],
        sandbox=PLAIN_PROCESS,
        more=IMPATIENT.format(attempts=1, timeout_s=30.0),
    )
    with server_beside(balanced, [Fault(kind="server_error", times=None)]) as server:
        done = run(experiment, store, extra={"CHAT_URL": server.url})
    assert done.returncode == 1, done.stderr
    assert "failed at model (server_error) in served" in done.stderr
    assert f"lhaw-record run {experiment} --store {store}" in done.stderr
    assert query(store, "select distinct boundary, error_kind from stg_trials_failed") == [("model", "server_error")]
    scored = "select agent_name, count(is_success) from trials group by all order by all"
    assert dict(query(store, scored)).get("served", 0) == 0
    assert "missing trials of desk: 2" in called("tables", store, "overall").stdout

    with server_beside(balanced) as server:
        done = run(experiment, store, extra={"CHAT_URL": server.url})
    assert done.returncode == 0, done.stderr
    assert query(store, "select agent_name, count(*) from trials group by all order by all") == [
        ("balanced", 2),
        ("served", 2),
    ]
    verify(store)


@pytest.mark.thorough
def test_a_limit_of_the_model_is_graded_and_not_paid_again(tmp_path):
    """A conversation that is too long, refused or cut replies: each its own ending, and the next run sends nothing."""
    store = tmp_path / "store"
    answers = {
        "full": OVERFLOWS["llama.cpp"],
        "filtered": FILTERED["azure"],
        "refusing": REPLIES["refused in a field of its own"][0],
        "cut": REPLIES["cut in hidden reasoning"][0],
    }
    with contextlib.ExitStack() as stack:
        faults = {
            name: Fault(kind="answer", times=None, status=status, body=body) for name, (status, body) in answers.items()
        }
        servers = {name: stack.enter_context(server_beside(balanced, [fault])) for name, fault in faults.items()}
        dropping = CannedModel([text_reply('<tool_call>\n{"name": "bash", "arguments": {}}\n</tool_call>')])
        servers["toolless"] = stack.enter_context(server_beside(dropping))
        experiment = write_experiment(
            tmp_path / "a.toml",
            conditions=["full"],
            concurrency=5,
            agents=[{"name": name, "model": f"local-{name}", "api_base": at.url} for name, at in servers.items()],
            sandbox=PLAIN_PROCESS,
        )
        done = run(experiment, store)
        sent = query(store, "select count(*) from stg_models_called")
        again = run(experiment, store)
    assert (done.returncode, again.returncode) == (0, 0), done.stderr
    assert query(store, "select agent_name, trial_state, ended_by, is_success from trials order by all") == [
        ("cut", "valid", "output_limit", False),
        ("filtered", "valid", "refused", False),
        ("full", "valid", "context_limit", False),
        ("refusing", "valid", "refused", False),
        ("toolless", "valid", "gave_up", False),
    ]
    shown = called("tables", store, "endings").stdout
    for caution in (
        "replies were cut off at their length limit",
        "the conversation became too long for the model",
        "no tool was ever called: ",
        "tool calls were left in the text, because the server did not recognise them",
        "desk, toolless: 1 of 1 trials (100 %)",
    ):
        assert caution in shown
    assert sent == [(1 + 1 + 1 + 3 + 3,)] == query(store, "select count(*) from stg_models_called")
    verify(store)


@pytest.mark.parametrize("kind", ["bad_request"])
@pytest.mark.thorough
def test_what_a_model_refuses_is_not_paid_again(tmp_path, kind):
    """The next run sends nothing, plans nothing and names the way to try all the same; with --retry-refused it runs."""
    store = tmp_path / "store"
    served = {"name": "served", "model": "local-model", "api_base": "${CHAT_URL}"}
    experiment = write_experiment(
        tmp_path / "a.toml",
        conditions=["full"],
        agents=[served],
        sandbox=PLAIN_PROCESS,
        more="[retry]\nmax_attempts = 3",
    )
    requests = "select count(*) from stg_models_called"
    with server_beside(balanced, [Fault(kind=kind, times=None)]) as server:
        first = run(experiment, store, extra={"CHAT_URL": server.url})
        again = run(experiment, store, extra={"CHAT_URL": server.url})
    assert query(store, requests) == [(1,)]
    for done in (first, again):
        assert done.returncode == 1
        assert f"failed at model ({kind}) in served, full, log-triage" in done.stderr
        assert f"lhaw-record run {experiment} --store {store} --retry-refused" in done.stderr
    with server_beside(balanced) as server:
        planned = run(experiment, store, "--dry-run", "--format", "json", extra={"CHAT_URL": server.url})
        done = run(experiment, store, "--retry-refused", extra={"CHAT_URL": server.url})
    assert {row["to_run"] for row in json.loads(planned.stdout)} == {0}
    assert done.returncode == 0, done.stderr
    assert query(store, "select trial_state, attempts from trials") == [("valid", 2)]


@pytest.mark.thorough
def test_a_new_key_is_tried_by_the_next_run(tmp_path):
    """A key that was not known costs nothing: the same command attempts the trials again."""
    store = tmp_path / "store"
    served = {"name": "served", "model": "local-model", "api_base": "${CHAT_URL}"}
    experiment = write_experiment(tmp_path / "a.toml", conditions=["full"], agents=[served], sandbox=PLAIN_PROCESS)
    with server_beside(balanced, [Fault(kind="unauthorised")]) as server:
        assert run(experiment, store, extra={"CHAT_URL": server.url}).returncode == 1
        done = run(experiment, store, extra={"CHAT_URL": server.url})
    assert (done.returncode, "--retry-refused" in done.stderr) == (0, False), done.stderr


@pytest.mark.thorough
def test_a_server_that_never_answers_is_missing_data(tmp_path):
    """However short the agent's own time is, its three trials are missing; a server that is slow is scored."""
    store = tmp_path / "store"
    limits = "\n[limits]\nmax_seconds = 0.2\n"
    faults = {"silent": Fault(kind="hang", times=None), "slow": Fault(kind="slow", times=None, seconds=0.4)}
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(server_beside(balanced, [fault])) for name, fault in faults.items()}
        experiment = write_experiment(
            tmp_path / "a.toml",
            conditions=["full"],
            trials=3,
            concurrency=6,
            agents=[{"name": name, "model": f"local-{name}", "api_base": at.url} for name, at in servers.items()],
            more=IMPATIENT.format(attempts=1, timeout_s=20.0) + limits,
        )
        anywhere = 'kind = "process"\nallow_unisolated = true'
        experiment.write_text(experiment.read_text().replace('kind = "auto"', anywhere))
        done = run(experiment, store)
    assert done.returncode == 1, done.stderr
    assert "failed at model (timeout) in silent" in done.stderr
    found = (
        "select agent_name, trial_state, ended_by, charged_seconds > 0.2, count(*) from trials group by all order by 1"
    )
    assert query(store, found) == [("silent", "missing", None, None, 3), ("slow", "valid", "time_limit", True, 3)]
    waited = "select bool_and(waited_ms > 19500 and charged_ms < waited_ms) from stg_trials_failed"
    assert query(store, waited) == [(True,)]
    assert "missing trials of desk: 3" in called("tables", store, "overall").stdout
    verify(store)


@pytest.mark.thorough
def test_what_models_do_wrong_is_data(tmp_path):
    """Nonsense, unknown tools, broken arguments, two calls at once, no submit, and no answer end as they should."""
    listing = '{"command": "ls"}'
    minds = {
        "rambler": CannedModel([text_reply("Colourless green ideas sleep furiously.")]),
        "inventor": CannedModel([tool_reply(("a", "open_the_pod_bay_doors", "{}")), SUBMIT]),
        "mumbler": CannedModel([tool_reply(("a", "bash", '{"command": "ls')), SUBMIT]),
        "juggler": CannedModel([tool_reply(("a", "bash", listing), ("b", "bash", listing)), SUBMIT]),
        "wanderer": CannedModel([tool_reply(("a", "bash", listing))]),
    }
    store = tmp_path / "store"
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(server_beside(mind)) for name, mind in minds.items()}
        servers["silent"] = stack.enter_context(server_beside(balanced, [Fault(kind="hang", times=None)]))
        agents = [{"name": name, "model": f"local-{name}", "api_base": at.url} for name, at in servers.items()]
        experiment = write_experiment(
            tmp_path / "a.toml",
            conditions=["full"],
            concurrency=6,
            agents=agents,
            sandbox=PLAIN_PROCESS,
            more=IMPATIENT.format(attempts=1, timeout_s=20.0) + "\n[limits]\nmax_turns = 6\n",
        )
        done = run(experiment, store)
    assert done.returncode == 1, done.stderr
    assert "failed at model (timeout) in silent" in done.stderr

    ended = "select agent_name, ended_by, action_count, is_success from trials where ended_by is not null order by all"
    assert query(store, ended) == [
        ("inventor", "submitted", 2, False),
        ("juggler", "submitted", 3, False),
        ("mumbler", "submitted", 2, False),
        ("rambler", "gave_up", 3, False),
        ("wanderer", "turn_limit", 6, False),
    ]
    first = (
        "select t.agent_name, a.kind, a.is_error from actions as a join trials as t using (stream_id) "
        "where a.action_index = 1 order by all"
    )
    assert query(store, first) == [
        ("inventor", "tool", True),
        ("juggler", "tool", False),
        ("mumbler", "malformed", True),
        ("rambler", "text", False),
        ("wanderer", "tool", False),
    ]
    verify(store)


@pytest.mark.thorough
def test_the_key_of_a_local_server_is_sent_and_never_recorded(tmp_path):
    """``api_key_env`` names the variable; its value reaches the server and is nowhere in the store or the output."""
    agents = [{"name": "served", "model": "local-model", "api_base": "${CHAT_URL}", "api_key_env": "LOCAL_KEY"}]
    experiment = write_experiment(tmp_path / "a.toml", conditions=["full"], agents=agents, sandbox=PLAIN_PROCESS)
    secret = "sk-local-4f1c9b7a2e"
    with server_beside(balanced) as server:
        done = run(experiment, tmp_path / "store", extra={"CHAT_URL": server.url, "LOCAL_KEY": secret})
    assert done.returncode == 0, done.stderr
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {secret}"}
    assert secret not in done.stderr
    assert query(tmp_path / "store", f"select count(*) from events where events::varchar like '%{secret}%'") == [(0,)]
