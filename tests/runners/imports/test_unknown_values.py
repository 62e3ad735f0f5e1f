"""A value that the source lacks is null in the events, and everything that reads a store copes with it."""

import json

import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    ClarificationInjected,
    ModelCalled,
    ModelResponded,
    QuestionAnswered,
    TrialFailed,
    TrialFinished,
    TrialStarted,
)
from lhaw_record.recorder.reading.reader import read_envelopes
from tests.runners.imports.files import (
    as_csv,
    broken_claims,
    conversation,
    dataset_row,
    early_trial,
    eval_log,
    imported,
    inspect_header,
    inspect_sample,
    query,
    scored_row,
    write,
)

KEYS = ("seed", "limits_json", "parameters_json", "prompts_digest")
END = ("ended_by", "final_answer", "action_count", "duration_ms", "cost_usd")
ASKING = {
    "action_name": "ask_user",
    "parameters": {"question": "Since when?"},
    "result": None,
    "is_pre_injection": None,
}
VARIANT = {"original_prompt": "List crimes since 2001 as CSV.", "PROMPT": "List crimes."}


def of(store, kind):
    """The events of one type."""
    return [each.event for each in read_envelopes(store) if isinstance(each.event, kind)]


def fields(event, names):
    """Some fields of an event."""
    return tuple(getattr(event, name) for name in names)


@pytest.fixture
def results(tmp_path):
    """A store with a result of SWE-bench Pro: a boolean, and no word about what the agent did."""
    imported("swebench-pro-results", write(tmp_path / "m" / "eval_results.json", {"i": True}), tmp_path / "s")
    return tmp_path / "s"


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A store with trials of four formats: bare results, lists of actions, conversations, a log, failures."""
    folder = tmp_path_factory.mktemp("everything")
    store = folder / "s"
    imported("lhaw-dataset", write(folder / "d.json", [dataset_row()]), store)
    trials = [early_trial(length=count, trial_index=count - 4, duration_seconds=None) for count in (4, 5, 6)]
    trials[0]["conversation"] = conversation(trials[0])
    for percent, before in ((10, 1), (50, 2), (90, 4)):
        trials += [
            early_trial(f"inject_{percent}", before=before, injection_point=percent / 100, trial_index=index, length=5)
            for index in range(3)
        ]
    trials += [early_trial("underspecified", trial_index=index, task_success=False) for index in range(3)]
    for index in range(3):
        asking = early_trial("ask_user", trial_index=index)
        trials.append({**asking, "actions": [*asking["actions"][:3], ASKING]})
    imported("ask-early-trials", write(folder / "t.json", trials), store)
    results = {name: index % 2 == 0 for index, name in enumerate(("i", "j", "k"))}
    imported("swebench-pro-results", write(folder / "m" / "eval_results.json", results), store)
    samples = {
        "samples/a_epoch_1.json": inspect_sample(),
        "samples/a_epoch_2.json": inspect_sample(2, error={"message": "OSError()"}, scores={}, total_time=None),
        "samples/a_epoch_3.json": inspect_sample(3, events=[], messages=[], output={}),
    }
    imported("inspect-eval", write(folder / "log.eval", eval_log({"header.json": inspect_header(), **samples})), store)
    return store


@pytest.mark.thorough
def test_a_bare_result_tells_nothing_else(results):
    """One boolean: no seed, no settings, no end, no answer, no time, and not that the agent did nothing."""
    (started,), (finished,) = of(results, TrialStarted), of(results, TrialFinished)
    assert fields(started, KEYS) == (None,) * len(KEYS)
    assert fields(finished, END) == (None,) * len(END)
    assert query(results, "select action_count, question_count from trials") == [(None, None)]
    assert broken_claims(results) == []


@pytest.mark.thorough
def test_a_list_of_actions_tells_no_calls(tmp_path):
    """What a tool gave back is known where the list has it, whether that was an error never, and no call of a model."""
    trial = early_trial("ask_user", duration_seconds=None)
    trial["actions"] = [trial["actions"][0], ASKING]
    trial["total_actions"] = 2
    imported("ask-early-trials", write(tmp_path / "t.json", trial), tmp_path / "s")
    assert [event.model_call_id for event in of(tmp_path / "s", ActionStarted)] == [None, None]
    finished = [fields(event, ("result", "is_error", "duration_ms")) for event in of(tmp_path / "s", ActionFinished)]
    assert finished == [("rows 1", None, None), (None, None, None)]
    (answered,) = of(tmp_path / "s", QuestionAnswered)
    assert fields(answered, ("answer", "latency_ms", "revealed")) == (None, None, None)
    (end,) = of(tmp_path / "s", TrialFinished)
    assert (end.action_count, end.duration_ms) == (2, None)
    assert broken_claims(tmp_path / "s") == []


def test_a_conversation_tells_no_usage(tmp_path):
    """Calls without tokens, times, parameters and finish reason; a cost of nobody knows what."""
    row = scored_row(raw_conversation_history=json.dumps(conversation(early_trial())), trajectory_time="")
    imported("mcp-atlas-scores", write(tmp_path / "scored_m.csv", as_csv(row)), tmp_path / "s")
    assert {event.parameters_json for event in of(tmp_path / "s", ModelCalled)} == {None}
    replies = of(tmp_path / "s", ModelResponded)
    assert {fields(event, ("finish_reason", "latency_ms")) for event in replies} == {(None, None)}
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd")
    assert {fields(event.usage, names) for event in replies} == {(None,) * len(names)}
    assert query(tmp_path / "s", "select n_calls, input_tokens, cost_usd from costs where purpose = 'agent'") == [
        (5, None, None)
    ]


@pytest.mark.thorough
def test_a_row_without_a_trajectory_tells_no_actions(tmp_path):
    """An empty list is no action, an empty cell is unknown."""
    cells = {"0": "[]", "1": ""}
    for index, cell in cells.items():
        path = write(tmp_path / f"scored_m{index}.csv", as_csv(scored_row(**VARIANT, trajectory=cell)))
        options = {"condition": "ask_user", "agent": "m", "trial_index": int(index)}
        imported("mcp-atlas-scores", path, tmp_path / "s", **options)
    rows = query(tmp_path / "s", "select trial_index, action_count, question_count from trials order by 1")
    assert rows == [(0, 0, 0), (1, None, None)]


def test_an_injection_tells_what_it_shows(tmp_path):
    """Without a conversation the message is unknown, without a budget the target, without a dataset the segments."""
    trial = early_trial("inject_50", before=2, injection_point=0.5)
    imported("ask-early-trials", write(tmp_path / "t.json", trial), tmp_path / "s")
    (told,) = of(tmp_path / "s", ClarificationInjected)
    assert fields(told, ("target_action", "message", "segment_ids", "after_action")) == (None, None, None, 2)


def test_an_error_without_a_boundary(everything):
    """A sample that ended in an error is missing data, and nobody knows whose fault it was or how long it took."""
    (failed,) = of(everything, TrialFailed)
    assert fields(failed, ("boundary", "error_kind", "duration_ms")) == (None, "OSError", None)


def test_tools_of_a_log_say_what_is_an_error(everything):
    """A tool call of a log is an error or not; only what a source does not tell is unknown."""
    known = [event for event in of(everything, ActionFinished) if event.is_error is not None]
    assert {event.result for event in known if event.result} == {"3 rows.csv"}


@pytest.mark.thorough
def test_everything_that_reads_a_store_copes(everything, tmp_path, capsys):
    """Checks, tables, report, exports, single trials, judging and grading say what is known and end well."""
    commands = (
        ("log", "verify", str(everything)),
        ("tables", str(everything), "--all"),
        ("report", str(everything), "-o", str(tmp_path / "report.html")),
        ("export", "trials", str(everything), "-o", str(tmp_path / "trials.json")),
        ("export", "trajectories", str(everything), "-o", str(tmp_path / "trajectories.json")),
        ("sql", str(everything), "-c", "select * from trials"),
        ("judge", str(everything), "--kind", "failure-modes", "--model", "m", "--dry-run"),
        ("judge", str(everything), "--kind", "new-task", "--model", "m", "--dry-run"),
        ("grade", str(everything), "--dry-run"),
    )
    for command in commands:
        assert main([*command]) == 0, command
    for stream_id, _ in query(everything, "select stream_id, ended_by from int_attempts"):
        assert main(["show", str(everything), stream_id]) == 0
    assert "unknown actions, ended by unknown" in capsys.readouterr().out
    assert broken_claims(everything) == []


@pytest.mark.thorough
def test_an_export_says_null_for_what_is_unknown(everything, tmp_path):
    """A trial of which only the result is known has no list of actions, not an empty one."""
    out = tmp_path / "trials.json"
    assert main(["export", "trials", str(everything), "-o", str(out)]) == 0
    records = json.loads(out.read_text())
    unknown = [each for each in records if each["benchmark"] == "swebench_pro"]
    names = ("actions", "total_actions", "duration_seconds", "seed")
    assert {tuple(each[name] for name in names) for each in unknown} == {(None,) * len(names)}
    known = next(each for each in records if each["condition"] == "ask_user")
    assert (known["total_actions"], known["actions"][-1]["result"]) == (4, None)
