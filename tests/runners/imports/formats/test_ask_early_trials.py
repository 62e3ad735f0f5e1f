"""The timing paper's trial JSON: tolerant of types, strict about meaning."""

import json

import pytest

from lhaw_record.recorder.events import (
    ActionFinished,
    ClarificationInjected,
    ModelCalled,
    QuestionAnswered,
    QuestionAsked,
)
from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from lhaw_record.runners.imports import ImportFailed
from lhaw_record.runners.imports.foreign_trial import KnownRecords
from lhaw_record.runners.imports.formats.ask_early_trials import condition_of_trial
from lhaw_record.runners.imports.streams import assemble
from tests.runners.imports.files import (
    broken_claims,
    conversation,
    dataset_row,
    early_trial,
    imported,
    parsed,
    query,
    write,
)


def only(trial, **options):
    """The one trial of a file."""
    (found,) = parsed("ask-early-trials", trial, **options).trials
    return found


@pytest.mark.parametrize(
    ("condition", "point", "expected"),
    [
        ("oracle", None, "full"),
        ("No-Clarification", None, "underspecified"),
        ("NC", "", "underspecified"),
        ("natural_ask", None, "ask_user"),
        ("inject_10", 0.1, "inject_10"),
        ("inject-30", "0.3", "inject_30"),
        ("Inj-50", None, "inject_50"),
        ("70%", None, "inject_70"),
        ("injection", 0.9, "inject_90"),
        ("inject_0.1", 10, "inject_10"),
    ],
)
def test_names_of_conditions(condition, point, expected):
    """The ways of writing the seven conditions, and the point where the name leaves it to that."""
    assert condition_of_trial(condition, point) == (expected, None)


def test_a_point_may_be_an_action():
    """Beside a named percentage another whole number is the target action."""
    assert condition_of_trial("inject_30", 4) == ("inject_30", 4.0)


@pytest.mark.parametrize(
    ("condition", "point"), [("inject_10", 0.5), ("inject_20", None), ("injection", None), ("later", 0.1)]
)
def test_conditions_that_say_nothing_certain(condition, point):
    """A contradiction and an unknown name are refused, never guessed."""
    with pytest.raises(ValueError, match="condition"):
        condition_of_trial(condition, point)


@pytest.mark.parametrize("success", [True, "true", "True", 1, "1"])
def test_truth_and_numbers_may_be_texts(success):
    """Types are not stated by the paper: booleans, integers and texts mean the same."""
    found = only(early_trial(task_success=success, total_actions="4", duration_seconds="12.5"))
    assert (found.end.is_success, found.end.duration_ms) == (True, 12500.0)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"task_success": None}, "task_success"),
        ({"task_success": 2}, "task_success"),
        ({"total_actions": 5}, "total_actions"),
        ({"model": None}, "model"),
        ({"condition": "inject_20"}, "percent"),
        ({"variant_id": None}, "variant_id"),
    ],
)
def test_what_is_missing_or_contradicts_is_skipped(fields, reason):
    """A trial that does not say what happened is left out with its reason."""
    found = parsed("ask-early-trials", [early_trial(**fields), early_trial()])
    assert len(found.trials) == 1
    assert reason in found.skipped[0].reason


def test_an_action_after_the_injection_is_never_before_it():
    """Marks that go back and forth are skipped, and so is a count that is not theirs."""
    trial = early_trial("inject_50", before=2, injection_point=0.5)
    trial["actions"][3]["is_pre_injection"] = True
    other = early_trial("inject_50", before=2, injection_point=0.5, pre_injection_actions=3)
    found = parsed("ask-early-trials", [trial, other])
    assert (len(found.trials), sum(each.count for each in found.skipped)) == (0, 2)


def test_a_conversation_becomes_model_calls():
    """The chat is kept as deltas with right digests, each call beside its actions, results stored once."""
    trial = early_trial("inject_50", before=2, injection_point=0.5)
    trial["conversation"] = conversation(trial, "By the way, since 2001.")
    found = only(trial)
    requests = rebuild_requests(found.trajectory)
    assert [len(messages) for messages in requests.values()] == [1, 3, 6, 8, 10]
    assert [each.content for each in list(requests.values())[-1] if each.role == "user"][1] == "By the way, since 2001."
    assert "rows 1" not in "".join(each.new_messages_json for each in found.trajectory if isinstance(each, ModelCalled))
    assert found.injected.message == "By the way, since 2001."
    assert found.end.final_answer == "Two crimes."


def test_a_conversation_that_tells_another_story_is_left_out():
    """Where the tool calls of the chat are not the actions, the actions count and the reason is named."""
    trial = early_trial()
    trial["conversation"] = conversation(early_trial(length=3))
    found = parsed("ask-early-trials", trial)
    assert [(each.kind, each.count) for each in found.skipped] == [("conversations", 1)]
    assert sum(isinstance(event, ActionFinished) for event in found.trials[0].trajectory) == 4


def test_questions_are_recorded_with_their_answers():
    """A call of ask_user under natural asking is a question; the paper's simulator is ``dump``."""
    trial = early_trial("natural_ask", length=1)
    trial["actions"][0] |= {"action_name": "ask_user", "parameters": {"question": "Since when?"}, "result": "2001."}
    found = only(trial)
    events = {type(event): event for event in found.trajectory}
    assert (events[QuestionAsked].question, events[QuestionAnswered].answer) == ("Since when?", "2001.")
    assert (found.user_simulator, events[QuestionAnswered].simulator) == ("dump", "dump")


def test_a_trial_that_ended_first_was_not_injected():
    """All actions before the injection and no message after them: skipped, not injected."""
    assert only(early_trial("inject_90", length=3, before=3, injection_point=0.9)).injected.after_action is None
    told = early_trial("inject_90", length=3, before=3, injection_point=0.9)
    told["conversation"] = conversation(told, "By the way.")
    assert only(told).injected.after_action == 3


def test_a_variant_that_nobody_knows(tmp_path):
    """An id of MCP-Atlas names its task; another one needs the dataset, and says how to get it."""
    assert only(early_trial()).task.benchmark == "mcp_atlas"
    path = write(tmp_path / "t.json", early_trial(variant_id="hr_task_V1"))
    with pytest.raises(ImportFailed, match="import lhaw-dataset"):
        imported("ask-early-trials", path, tmp_path / "s")
    row = dataset_row("hr_task_V1", original_task="hr", dataset="TheAgentCompany")
    imported("lhaw-dataset", write(tmp_path / "d.json", [row]), tmp_path / "s")
    imported("ask-early-trials", path, tmp_path / "s")
    (found,) = query(tmp_path / "s", "select benchmark, task_id, condition, oracle_scope from trials")
    assert found == ("tac", "hr", "full", "variant")


@pytest.mark.thorough
def test_budgets_follow_from_the_oracle_trials(tmp_path):
    """B is the rounded mean of the full trials of the unit, the target its share; a later import keeps B."""
    trials = [early_trial(length=count, duration_seconds=count) for count in (4, 5, 6)]
    injected = early_trial("inject_50", before=2, injection_point=0.5)
    lines = "\n".join(map(json.dumps, [*trials, injected]))
    imported("ask-early-trials", write(tmp_path / "t.jsonl", lines), tmp_path / "s")
    later = early_trial("inject_90", length=6, before=4, injection_point=0.9)
    imported(
        "ask-early-trials", write(tmp_path / "u.json", [later, early_trial(length=9, trial_index=7)]), tmp_path / "s"
    )
    rows = query(
        tmp_path / "s", "select condition, budget_actions, target_action, after_action from injections order by 1"
    )
    assert rows == [("inject_50", 5, 2, 2), ("inject_90", 5, 4, 4)]
    indexes = query(tmp_path / "s", "select trial_index from trials where condition = 'full' order by 1")
    assert [index for (index,) in indexes] == [0, 1, 2, 7]
    assert query(tmp_path / "s", "select budget_actions from budgets") == [(5,)]
    assert broken_claims(tmp_path / "s") == []


@pytest.mark.thorough
def test_an_injection_without_a_budget_is_kept(tmp_path):
    """Without full trials the budget is null, the trial valid, and no claim about the store broken."""
    trial = early_trial("inject_50", before=2, injection_point=0.5)
    imported("ask-early-trials", write(tmp_path / "t.json", trial), tmp_path / "s")
    assert query(tmp_path / "s", "select trial_state, budget_actions, is_injected from trials") == [
        ("valid", None, True)
    ]
    assert broken_claims(tmp_path / "s") == []


def test_the_injection_stands_behind_its_action():
    """In the stream the injection follows the result of the action that it came after."""
    trial = only(early_trial("inject_50", before=2, injection_point=0.5))
    (stream,) = assemble("ask-early-trials", "run", (), [trial], KnownRecords()).trials
    location = next(n for n, event in enumerate(stream.events) if isinstance(event, ClarificationInjected))
    before = stream.events[location - 1]
    assert isinstance(before, ActionFinished)
    assert before.action_index == 2


def test_actions_that_nobody_knows_are_unknown():
    """Null says that the source does not know what the agent did; an empty list that it did nothing."""
    unknown, nothing = (only(early_trial(actions=each, total_actions=None)) for each in (None, []))
    assert (unknown.trajectory, nothing.trajectory) == (None, ())
    assert unknown.end.is_success is nothing.end.is_success
