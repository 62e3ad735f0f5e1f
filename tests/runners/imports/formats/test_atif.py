"""ATIF documents: which are valid, what is an action, and which files are one run."""

import json
import re

import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.events import ActionStarted, ModelCalled, ModelResponded, TrialFailed, TrialStarted
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from lhaw_record.runners.imports import ImportFailed
from lhaw_record.runners.imports.formats.atif_document import VERSIONS
from tests.runners.imports.files import REAL, broken_claims, dataset_row, imported, parsed, query, write
from tests.support.needs import needs

FOLDER = REAL / "harbor" / "atif" / "terminus-2"


def step(number, source="agent", message="text", **fields):
    """One step."""
    return {"step_id": number, "source": source, "message": message, **fields}


def call(number, name="bash", **arguments):
    """One tool call."""
    return {"tool_call_id": f"c{number}", "function_name": name, "arguments": arguments}


def result(content, number=None, **fields):
    """One result, of a call if it has a number."""
    return {**({} if number is None else {"source_call_id": f"c{number}"}), "content": content, **fields}


def acting(number, *calls, results=(), **fields):
    """A turn of the agent with calls and results."""
    return step(number, tool_calls=list(calls), observation={"results": list(results)}, **fields)


def document(*steps, **fields):
    """One document."""
    agent = {"name": "a", "version": "1", "model_name": "m"}
    return {"schema_version": "ATIF-v1.7", "agent": agent, "steps": list(steps), **fields}


PLAIN = document(
    step(1, "user", "List crimes."),
    acting(
        2,
        call(1, cmd="ls"),
        call(2, cmd="pwd"),
        results=[result("b", 2), result("a", 1)],
        reasoning_content="hm",
        metrics={"prompt_tokens": 10, "completion_tokens": 3, "cached_tokens": 4, "cost_usd": 0.5},
    ),
    step(3, message="Two crimes."),
)
RICH = document(
    step(1, "system", "Be brief.", timestamp="2026-01-01T00:00:00Z", extra={"a": 1}),
    step(
        2,
        "user",
        [{"type": "text", "text": "Look."}, {"type": "image", "source": {"media_type": "image/png", "path": "x.png"}}],
    ),
    acting(
        3,
        {**call(1, cmd="ls"), "extra": {"t": 1}},
        results=[result("a", 1, extra={"s": 1}), result(None, subagent_trajectory_ref=[{"trajectory_id": "s"}])],
        model_name="n",
        reasoning_effort="high",
        reasoning_content="hm",
        metrics={"prompt_tokens": 10, "completion_tokens": 3, "logprobs": [0.1], "prompt_token_ids": [1], "extra": {}},
        llm_call_count=1,
        is_copied_context=False,
    ),
    acting(4, call(2), results=[result("b", 2)], llm_call_count=0),
    session_id="s",
    trajectory_id="t",
    notes="n",
    final_metrics={"total_prompt_tokens": 10, "total_cost_usd": 0.5, "total_steps": 4},
    extra={},
    subagent_trajectories=[document(step(1, "user", "go"), step(2), trajectory_id="s")],
)


def events(store, *kinds):
    """The events of some types."""
    return [each.event for each in read_envelopes(store) if isinstance(each.event, kinds)]


def only(content, **options):
    """The one trial of a document."""
    (trial,) = parsed("atif", content, **options).trials
    return trial


def of(trial, kind):
    """The events of one type in a trial."""
    return [each for each in trial.trajectory if isinstance(each, kind)]


def test_calls_results_tokens_and_reasoning_are_kept():
    """Two calls of one step are two actions; each has the result that names it, and the model call its usage."""
    trial = only(PLAIN)
    assert [(each.name, each.arguments_json) for each in of(trial, ActionStarted)] == [
        ("bash", '{"cmd":"ls"}'),
        ("bash", '{"cmd":"pwd"}'),
        ("message", "{}"),
    ]
    first, last = of(trial, ModelResponded)
    assert (
        first.usage.input_tokens,
        first.usage.output_tokens,
        first.usage.cached_input_tokens,
        first.usage.cost_usd,
    ) == (10, 3, 4, 0.5)
    assert (first.reasoning.text, first.latency_ms, last.usage.input_tokens, last.usage.cost_usd) == (
        "hm",
        None,
        None,
        None,
    )
    request = list(rebuild_requests(trial.trajectory).values())[-1]
    assert [(each.role, each.content) for each in request[2:]] == [("tool", "a"), ("tool", "b")]
    assert (trial.program, trial.task.prompt) == ("a 1", "List crimes.")


def test_a_result_without_a_call_belongs_to_the_only_one():
    """Terminus names no call; a result that could belong to two calls, or to none, is a message."""
    alone = document(step(1, "user", "x"), acting(2, call(1), results=[result("a")]), step(3))
    request = list(rebuild_requests(only(alone).trajectory).values())[-1]
    assert [(each.role, each.content) for each in request[2:]] == [("tool", "a")]
    both = document(step(1, "user", "x"), acting(2, call(1), call(2), results=[result("a")]), step(3))
    request = list(rebuild_requests(only(both).trajectory).values())[-1]
    assert [(each.role, each.content) for each in request[2:]] == [("user", "a")]


def test_copied_steps_are_context_and_no_actions():
    """What a continuation repeats was counted before."""
    copied = acting(2, call(1), results=[result("a", 1)], is_copied_context=True)
    trial = only(document(step(1, "user", "x", is_copied_context=True), copied, acting(3, call(2))))
    assert len(of(trial, ActionStarted)) == len(of(trial, ModelCalled)) == 1
    assert [each.role for each in rebuild_requests(trial.trajectory)["m1"]] == ["user", "assistant", "tool"]


def test_what_needed_no_model_is_an_action_without_a_call():
    """``llm_call_count`` 0: the agent acted, its model did not answer."""
    trial = only(document(step(1, "user", "x"), acting(2, call(1), llm_call_count=0), step(3)))
    assert [each.model_call_id for each in of(trial, ActionStarted)] == [None, "m2"]
    assert len(of(trial, ModelCalled)) == 1


def test_a_sub_agent_has_calls_and_no_actions():
    """Its turns are kept in a thread of their own; the action that started it is the trial's."""
    trial = only(RICH)
    kinds = [(each.call_kind, each.thread_id, each.model) for each in of(trial, ModelCalled)]
    assert kinds == [("main", "main", "n"), ("sub_agent", "s", "m")]
    assert len(of(trial, ActionStarted)) == 2


def test_a_sub_agent_named_main_is_not_the_main_thread():
    """Its request shares nothing with that of the agent."""
    own = document(step(1, "user", "go"), step(2), trajectory_id="main")
    trial = only(document(step(1, "user", "x"), step(2), step(3), subagent_trajectories=[own]))
    kinds = [(each.call_kind, each.thread_id, each.parent_call_id) for each in of(trial, ModelCalled)]
    assert kinds == [("main", "main", None), ("main", "main", "m1"), ("sub_agent", "sub_agent-main", None)]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_read(version):
    """1.0 to 1.8."""
    assert only({**PLAIN, "schema_version": version}).agent == "a"


def test_a_cost_of_nothing_for_tokens_is_no_cost():
    """Agents write 0 if they do not know the price."""
    steps = [step(1, "user", "x"), step(2, metrics={"prompt_tokens": 5, "cost_usd": 0.0})]
    assert [each.usage.cost_usd for each in of(only(document(*steps)), ModelResponded)] == [None]


@pytest.mark.thorough
def test_without_a_reward_it_is_missing_data(tmp_path):
    """The trajectory is kept, nothing is scored, and ``show`` prints it; with a reward it counts."""
    imported("atif", write(tmp_path / "x.json", PLAIN), tmp_path / "s")
    (failed,) = events(tmp_path / "s", TrialFailed)
    assert (failed.boundary, failed.error_kind) == ("grader", "no_reward")
    assert query(tmp_path / "s", "select trial_state, is_success from trials") == [("missing", None)]
    imported("atif", write(tmp_path / "x.json", PLAIN), tmp_path / "t", reward=1.0)
    assert query(tmp_path / "t", "select is_success, action_count from trials") == [(True, 3)]


def test_rewards_are_given_by_file_and_repetitions_are_numbered(tmp_path, capsys):
    """Two files of one prompt are two trials of a task; a second import goes on where the first ended."""
    for name, answer in (("a", "one"), ("b", "two"), ("later/c", "three")):
        write(tmp_path / f"{name}.trajectory.json", document(step(1, "user", "x"), step(2, message=answer)))
    store = str(tmp_path / "s")
    for path, reward, more in (("a", 1, []), ("b", 0.5, ["--trial-index", "1"])):
        rewards = write(tmp_path / f"{path}.txt", json.dumps({f"{path}.trajectory.json": reward}))
        given = ["import", "atif", str(tmp_path / f"{path}.trajectory.json"), "--store", store]
        assert main([*given, "--rewards", str(rewards), *more]) == 0
    assert main(["import", "atif", str(tmp_path / "later"), "--store", store, "--trial-index", "2"]) == 0
    rows = query(tmp_path / "s", "select trial_index, scores, is_success from trials")
    assert sorted(rows, key=lambda row: row[0]) == [(0, [1.0], True), (1, [0.5], False), (2, None, None)]
    (stream,) = {each.stream_id for each in read_envelopes(tmp_path / "s") if isinstance(each.event, TrialFailed)}
    capsys.readouterr()
    assert main(["show", store, stream]) == 0
    assert "three" in capsys.readouterr().out


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ({"a/x.trajectory.json": 1.0, "y.trajectory.json": 0.0}, "y.trajectory.json, which is not a file"),
        ({"x.trajectory.json": 1.0}, "a/x.trajectory.json or b/x.trajectory.json; give the path"),
        ({"z.trajectory.json": 1.0, "c/z.trajectory.json": 1.0}, "c/z.trajectory.json twice"),
        ({"c/z.trajectory.json:2": 1.0}, "but no trajectory begins there"),
        ({"z.trajectory.cont-1.json": 1.0}, "but no trajectory begins there"),
    ],
)
def test_a_reward_that_belongs_to_no_trajectory_is_refused(rewards, message, tmp_path):
    """Otherwise a name with a slip in it would be lost, and one of several files counted for all of them."""
    for name in ("a/x", "b/x", "c/z"):
        write(tmp_path / "d" / f"{name}.trajectory.json", document(step(1, "user", name), step(2)))
    last = document(step(1, "user", "c"), step(2), continued_trajectory_ref="trajectory.cont-1.json")
    write(tmp_path / "d" / "c" / "z.trajectory.json", last)
    write(tmp_path / "d" / "c" / "z.trajectory.cont-1.json", document(step(1, "user", "sum"), step(2)))
    with pytest.raises(ImportFailed, match=re.escape(message)):
        imported("atif", tmp_path / "d", tmp_path / "s", rewards=rewards)
    given = {"b/x.trajectory.json": 0.5, "z.trajectory.json": 1.0}
    imported("atif", tmp_path / "d", tmp_path / "s", rewards=given)
    assert sorted(query(tmp_path / "s", "select scores from trials"), key=str) == [(None,), ([0.5],), ([1.0],)]


@pytest.mark.thorough
def test_a_reward_may_come_later(tmp_path):
    """The trajectory without it stays, as an attempt without a result; the one with it counts, and is not replaced."""
    path = write(tmp_path / "x.json", PLAIN)
    imported("atif", path, tmp_path / "s")
    assert query(tmp_path / "s", "select trial_state, is_success from trials") == [("missing", None)]
    assert imported("atif", path, tmp_path / "s", reward=1.0).trials == 1
    row = ("valid", True, 2, 1)
    rows = "select trial_state, is_success, attempts, failed_attempts from trials"
    assert query(tmp_path / "s", rows) == [row]
    assert imported("atif", path, tmp_path / "s", reward=1.0).is_known
    assert imported("atif", path, tmp_path / "s").is_known
    with pytest.raises(StoreError, match="with different content"):
        imported("atif", path, tmp_path / "s", reward=0.0)
    assert query(tmp_path / "s", rows) == [row]
    assert verify(tmp_path / "s").findings == ()


def test_questions_of_a_variant_count(tmp_path):
    """With the variant and the channel, a call of ``ask_user`` is a question; without them it is refused."""
    row = dataset_row()
    imported("lhaw-dataset", write(tmp_path / "d.json", [row]), tmp_path / "s")
    asking = acting(2, call(1, "ask_user", question="Since when?"), results=[result("2001", 1)])
    path = write(tmp_path / "x.json", document(step(1, "user", "List crimes."), asking, step(3)))
    with pytest.raises(ImportFailed, match="--condition ask_user"):
        imported("atif", path, tmp_path / "s")
    with pytest.raises(ImportFailed, match="needs --variant"):
        imported("atif", path, tmp_path / "s", condition="ask_user")
    imported("atif", path, tmp_path / "s", condition="ask_user", variant=row["variant_id"], reward=1.0)
    rows = query(tmp_path / "s", "select benchmark, question_count, first_ask_pct from trials")
    assert rows == [("mcp_atlas", 1, 50.0)]


def test_a_run_in_several_documents_is_one_trial(tmp_path):
    """The continuation adds its actions; the sub-agent in a file adds its calls."""
    reference = {"trajectory_path": "trajectory.sub.json"}
    first = document(
        step(1, "user", "x"),
        acting(2, call(1), results=[result("a", 1, subagent_trajectory_ref=[reference])]),
        continued_trajectory_ref="trajectory.cont-1.json",
    )
    write(tmp_path / "d" / "trajectory.json", first)
    write(tmp_path / "d" / "trajectory.cont-1.json", document(step(1, "user", "sum", is_copied_context=True), step(2)))
    write(tmp_path / "d" / "trajectory.sub.json", document(step(1, "user", "do"), step(2)))
    done = imported("atif", tmp_path / "d", tmp_path / "s", reward=1.0)
    assert done.trials == 1
    assert query(tmp_path / "s", "select action_count from trials") == [(2,)]
    assert [each.call_kind for each in events(tmp_path / "s", ModelCalled)] == ["main", "sub_agent", "main"]
    alone = parsed("atif", first, name="trajectory.json")
    assert (alone.trials, alone.skipped[0].reason.startswith("the trajectory continues in")) == ((), True)


def test_documents_that_refer_to_each_other_in_a_circle(tmp_path):
    """No sub-agent is read twice, and no run continues in itself."""
    reference = {"trajectory_path": "trajectory.b.json"}
    inner = {"trajectory_path": "trajectory.c.json"}
    for name, to in (("a", reference), ("b", inner), ("c", reference)):
        write(
            tmp_path / "d" / f"trajectory.{name}.json",
            document(step(1, "user", "x"), acting(2, call(1), results=[result("r", 1, subagent_trajectory_ref=[to])])),
        )
    assert imported("atif", tmp_path / "d", tmp_path / "s").trials == 1
    assert len(events(tmp_path / "s", ModelCalled)) == 3


def test_documents_without_a_beginning_are_skipped(tmp_path):
    """Two that refer to each other are named with the reason, and the run beside them is imported."""
    for name, to in (("a", "b"), ("b", "a")):
        reference = {"trajectory_path": f"trajectory.{to}.json"}
        acted = acting(2, call(1), results=[result("r", 1, subagent_trajectory_ref=[reference])])
        write(tmp_path / "d" / f"trajectory.{name}.json", document(step(1, "user", "x"), acted))
    write(tmp_path / "d" / "trajectory.json", PLAIN)
    done = imported("atif", tmp_path / "d", tmp_path / "s")
    reasons = {label: file.skipped for label, file in zip(done.labels, done.files, strict=True)}
    assert done.trials == 1
    assert ["in a circle" in str(reasons[label]) for label in sorted(reasons)] == [True, True, False]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(PLAIN)[:200], "not a whole JSON document"),
        (document(step(1, "user", "x"), step(3)), "step 2 has step_id 3: steps are missing"),
        ({**PLAIN, "schema_version": "ATIF-v2.0"}, "schema_version is 'ATIF-v2.0'"),
        ([{"role": "user", "content": "x"}], "It looks like openai-messages"),
        ({"info": {}, "messages": [], "trajectory_format": "mini-swe-agent-1"}, "It looks like mini-swe-agent"),
        ([{"id": 1, "source": "agent", "action": "run", "args": {}}], "It looks like openhands"),
        ({"i": True}, "It looks like swebench-pro-results"),
    ],
)
def test_what_is_no_document_is_refused(content, message, tmp_path):
    """A cut file, a gap, a version of the future, and another format, which is named."""
    with pytest.raises(ImportFailed, match=message):
        imported("atif", write(tmp_path / "x.json", content), tmp_path / "s")
    assert not (tmp_path / "s").exists()


@needs("published")
@pytest.mark.thorough
def test_real_documents(tmp_path):
    """Eight files are four runs, with as many actions as their steps have calls."""
    imported("atif", FOLDER, tmp_path / "ungraded")
    assert broken_claims(tmp_path / "ungraded") == []
    done = imported("atif", FOLDER, tmp_path / "s", reward=1.0)
    assert done.trials == 4
    assert sorted(query(tmp_path / "s", "select action_count from trials")) == [(3,), (4,), (7,), (7,)]
    assert {each.agent for each in events(tmp_path / "s", TrialStarted)} == {"terminus-2"}
    assert broken_claims(tmp_path / "s") == []
