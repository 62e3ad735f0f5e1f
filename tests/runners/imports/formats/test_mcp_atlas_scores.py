"""Scored rows of MCP-Atlas: coverage rule, null coverage, errors, and underspecified rows."""

import json

import pytest

from lhaw_record.runners.imports import ImportFailed
from lhaw_record.runners.imports.foreign_trial import Failure
from tests.runners.imports.files import (
    MCP_TASK,
    as_csv,
    broken_claims,
    dataset_row,
    imported,
    parsed,
    query,
    scored_row,
    write,
)

VARIANT = {
    "original_prompt": "List crimes since 2001 as CSV.",
    "PROMPT": "List crimes.",
    "removed_value": '["since 2001"]',
}


def only(row, **options):
    """The one trial of a file."""
    (trial,) = parsed("mcp-atlas-scores", as_csv(row), name="scored_m.csv", **options).trials
    return trial


@pytest.mark.parametrize(
    ("scores", "passes"),
    [((1, 1, 0.5, 0.5), True), ((1, 0.5), True), ((1, 1, 0), False), ((1,) * 2 + (0.5,) * 2 + (0.5,), False)],
)
def test_a_row_passes_at_three_quarters(scores, passes):
    """Half credit counts, and the mean of the claims decides at 0.75."""
    trial = only(scored_row(tuple(map(float, scores))))
    assert (trial.end.is_success, [each.score for each in trial.end.results]) == (passes, list(scores))


@pytest.mark.parametrize("fields", [{"coverage_score": ""}, {"coverage_score": "nan"}, {"coverage_score": "None"}])
def test_null_coverage_is_missing_data(fields):
    """No coverage is a failed trial at the grader, never a score of zero."""
    assert only(scored_row(**fields)).end.boundary == "grader"


@pytest.mark.parametrize(
    "fields",
    [{"script_model_response": "ERROR: timeout"}, {"script_model_response": "", "errors": "connection lost"}],
)
def test_an_error_is_missing_data(fields):
    """What the harness scores 0 after an error of its own is a failed trial here."""
    assert isinstance(only(scored_row((0.0,), **fields)).end, Failure)


def test_an_empty_answer_without_an_error_is_a_zero():
    """An agent that says nothing has the score that the claims give it."""
    end = only(scored_row((0.0,), script_model_response="")).end
    assert (end.is_success, end.final_answer) == (False, "")


def current_row(claims, judged, **fields):
    """A row as the harness of version 1.2.7 writes it: its runner's three columns, its scorer's and the dataset's."""
    details = [{"claim": claim, "score": 1.0, "covered": True, "reason": "r"} for claim in judged]
    return {
        "TASK": MCP_TASK,
        "PROMPT": "List crimes since 2001.",
        "ENABLED_TOOLS": "[]",
        "TRAJECTORY": "[]",
        "GTFA": "Two.",
        "GTFA_CLAIMS": json.dumps(claims),
        "SPLIT": "public",
        "raw_conversation_history": "",
        "response": "Two crimes.",
        "coverage_score": "1.0",
        "fully_covered_claims": str(len(claims)),
        "partially_covered_claims": "0",
        "total_claims": str(len(claims)),
        "coverage_details_json": json.dumps({"per_claim": details, "coverage_score": 1.0}),
        "evaluation_confidence": "0.9",
        **fields,
    }


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({}, "Two crimes."),
        ({"m_response": "Of the model's own column."}, "Of the model's own column."),
        ({"m_response": "", "script_model_response": "Of the older script."}, "Of the older script."),
    ],
)
def test_the_answer_stands_where_the_scorer_looks_for_it(fields, answer):
    """<label>_response, script_model_response, response: the first that is filled in, in the scorer's order."""
    end = only(current_row(["a claim"], ["a claim"], **fields)).end
    assert (end.is_success, end.final_answer) == (True, answer)


def test_an_error_in_the_column_response_is_missing_data():
    """The runner's own failures stand in the same column."""
    row = current_row(["a claim"], ["a claim"], response="ERROR: timeout after 900s", coverage_score="0.0")
    assert isinstance(only(row).end, Failure)


def test_the_trajectory_is_found_under_the_name_that_the_scorer_gives_it():
    """Merging renames the column trajectory to <label>_trajectory."""
    calls = json.dumps([{"tool_name": "git_git_log", "parameters": {}, "response": "abc", "error": None}])
    assert only(current_row(["a claim"], ["a claim"])).trajectory is None
    assert only(current_row(["a claim"], ["a claim"], m_trajectory=calls)).trajectory


@pytest.mark.parametrize(
    ("claim", "judged"),
    [
        ("1. Jane Austen wrote \u201cPride and Prejudice\u201d", 'Jane Austen wrote "Pride and Prejudice'),
        ("From 2022\u20132023 it\u2019s 6\u20149 %.", "From 2022-2023 it's 6-9 %."),
        ('In Spanish it is "hola, amigo".', 'In Spanish it is "hola, amigo'),
    ],
)
def test_claims_are_known_again_after_the_scorer_rewrote_them(claim, judged):
    """The scorer cuts off markers and last quotes and replaces quotes and dashes; other words are another claim."""
    assert only(current_row([claim], [judged])).end.is_success
    found = parsed("mcp-atlas-scores", as_csv(current_row([claim], [f"{judged} not"])), name="scored_m.csv")
    assert (found.trials, found.skipped[0].reason) == ((), "the judged claims are not those of GTFA_CLAIMS")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"coverage_score": "0.9"}, "not the mean"),
        ({"coverage_details_json": "{}"}, "per_claim"),
        ({"coverage_details_json": ""}, "coverage_details_json"),
        ({"GTFA_CLAIMS": '["another"]'}, "not those of GTFA_CLAIMS"),
        (
            {"coverage_details_json": json.dumps({"per_claim": [{"claim": "claim 0", "score": 1, "covered": False}]})},
            "",
        ),
        ({"trajectory": '[{"tool_name": "ask_user", "parameters": {}}]'}, "set --condition full_ask_user"),
    ],
)
def test_contradictions_are_skipped(fields, reason):
    """A row that contradicts itself is left out with its reason."""
    found = parsed("mcp-atlas-scores", as_csv(scored_row(**fields)))
    assert (found.trials, found.skipped[0].count) == ((), 1)
    assert reason in found.skipped[0].reason


def test_the_reference_trajectory_is_not_what_the_agent_did():
    """TRAJECTORY is the dataset's; trajectory, in small letters, gives the actions."""
    from lhaw_record.runners.imports.trajectory import action_count

    assert action_count(only(scored_row()).trajectory) == 1


def test_underspecified_rows_need_their_condition():
    """The file does not say whether the agent could ask, so a person has to."""
    with pytest.raises(ImportFailed, match="set --condition"):
        parsed("mcp-atlas-scores", as_csv(scored_row(**VARIANT)))
    with pytest.raises(ImportFailed, match="does not fit"):
        parsed("mcp-atlas-scores", as_csv(scored_row()), condition="underspecified")
    assert only(scored_row(**VARIANT), condition="ask_user").condition == "ask_user"


@pytest.mark.thorough
def test_a_known_prompt_gives_the_variant(tmp_path):
    """A row with the prompt of a variant in the store is a trial of that variant; questions count."""
    imported("lhaw-dataset", write(tmp_path / "d.json", [dataset_row()]), tmp_path / "s")
    call = {"id": "1", "function": {"name": "ask_user", "arguments": '{"question": "Since when?"}'}}
    chat = [
        {"role": "user", "content": "List crimes."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "2001"}]},
        {"role": "assistant", "content": "Two crimes."},
    ]
    row = scored_row(**VARIANT, raw_conversation_history=json.dumps(chat))
    imported("mcp-atlas-scores", write(tmp_path / "scored_m.csv", as_csv(row)), tmp_path / "s", condition="ask_user")
    rows = query(
        tmp_path / "s",
        "select trial_state, variant_id, agent, is_success, action_count, question_count, first_ask_action from trials",
    )
    assert rows == [("valid", f"{MCP_TASK}::V_S1_delete", "m", True, 2, 1, 1)]
    assert broken_claims(tmp_path / "s") == []
