"""The judges' wordings: complete, replaceable, and part of what identifies a judgement."""

import pytest

from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.events import ActionFinished, ActionStarted, ModelResponded, QuestionAnswered, QuestionAsked
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.judging.failure_modes import (
    COMPUTED,
    FLAGS,
    JUDGED,
    FailureModes,
    actions_text,
    questions_text,
)
from lhaw_record.runners.models.llm_jobs.prompt_template import PromptTemplate
from tests.analytics.views.test_views import busy_store


def test_the_prompt_names_the_judged_flags_only():
    """Each judged flag is explained once, no computed one is."""
    lines = FailureModes("j", {}).template.system.splitlines()
    explained = [line.removeprefix("- ").partition(".")[0] for line in lines if line.startswith("- ") and "_" in line]
    assert [name for name in explained if name in JUDGED] == list(JUDGED)
    assert not COMPUTED & set(explained)


@pytest.mark.thorough
def test_the_queries_know_the_same_catalogue():
    """Categories, flags and who decides them are the same in SQL."""
    connection = connect(busy_store().snapshot(), only={"question_flags"})
    try:
        rows = connection.execute("select distinct category, flag, source from question_flags").fetchall()
    finally:
        connection.close()
    wanted = {
        (category, flag, "computed" if flag in COMPUTED else "judged")
        for category, flags in FLAGS.items()
        for flag in flags
    }
    assert set(rows) == wanted


def test_another_wording_is_another_prompt(tmp_path):
    """A file of one's own replaces the prompt; it and the parameters are in the digest, the judge's name is not."""
    own = tmp_path / "own.md"
    placeholders = "{full_prompt} {sent_prompt} {removed} {questions} {actions} {outcome}"
    own.write_text(f"Judge.\n---\n{placeholders}\n---\nAgain: {{problem}}\n")
    mine = FailureModes("j", {}, own)
    assert mine.template.system == "Judge."
    digests = {mine.prompt_digest, FailureModes("j", {}).prompt_digest, FailureModes("j", {"seed": 1}).prompt_digest}
    assert len(digests) == 3
    assert FailureModes("k", {}).prompt_digest == FailureModes("j", {}).prompt_digest


@pytest.mark.parametrize(
    "text", ["no parts", "s\n---\n{answers}\n---\n{problem}", "s\n---\n{sent_prompt} {answers}\n---\nx"]
)
def test_a_prompt_that_lacks_something_is_refused(tmp_path, text):
    """The error names the file and what belongs into it."""
    path = tmp_path / "own.md"
    path.write_text(text)
    with pytest.raises(ExperimentError, match=r"own.md: this prompt has .* \{sent_prompt\}, \{answers\}"):
        PromptTemplate(("judges", "new_task.md"), path, ("sent_prompt", "answers"))


def test_values_are_put_in_at_once():
    """What looks like a placeholder inside a value stays as it is."""
    template = PromptTemplate(("judges", "new_task.md"), None, ("sent_prompt", "answers"))
    text = template.user({"sent_prompt": "write {answers}", "answers": "{sent_prompt}"})
    assert "write {answers}" in text
    assert text.count("{sent_prompt}") == 1


def acted(count, result="done"):
    """Some actions with a word before each."""
    for number in range(1, count + 1):
        yield ModelResponded(
            call_id=f"m{number}", role="agent", text=f"Now {number}.", finish_reason="", latency_ms=1.0
        )
        yield ActionStarted(action_index=number, kind="tool", name="bash", arguments_json="{}", model_call_id="m")
        yield ActionFinished(action_index=number, is_error=False, result=result, duration_ms=1.0)


def test_a_transcript_has_words_actions_and_results():
    """What was said, done and given back stands in order."""
    text = actions_text(acted(2))
    assert text.splitlines()[:3] == ["says: Now 1.", "action 1: bash {}", "  gives: done"]


def test_a_transcript_says_what_is_unknown():
    """What a source does not tell is said to be unknown: it is no empty result, and no answer of nothing."""
    events = [
        ActionStarted(action_index=1, kind="tool", name="ask_user", arguments_json="{}", model_call_id=None),
        QuestionAsked(question_id="q1", question="Which?", action_index=1),
        QuestionAnswered(question_id="q1", answer=None, simulator="unknown", latency_ms=None, revealed=None),
        ActionFinished(action_index=1, is_error=None, result=None, duration_ms=None),
    ]
    assert actions_text(events).splitlines() == ["action 1: ask_user {}", "  gives: (unknown)"]
    assert questions_text(events).endswith("answer: (unknown)")


def test_a_long_transcript_is_cut_in_its_middle():
    """The beginning and the end stay, and what is left out is counted; a long result is cut too."""
    text = actions_text(acted(400, "x" * 5_000))
    assert len(text) < 70_000
    assert text.startswith("says: Now 1.")
    assert "action 400: bash" in text
    assert "entries are left out here" in text
    assert "[... 4200 characters ...]" in text
