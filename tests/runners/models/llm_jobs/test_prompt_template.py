"""Prompts as files: what is put in, and what is left out where there is nothing to put in."""

from lhaw_record.runners.models.llm_jobs.prompt_template import PromptTemplate


def template(tmp_path, user):
    """A template with a user prompt that has two placeholders."""
    path = tmp_path / "own.md"
    path.write_text(f"System.\n---\n{user}\n---\nAgain: {{problem}}\n")
    return PromptTemplate(("judges", "new_task.md"), path, ("task", "hints"))


def test_a_paragraph_without_anything_to_show_is_left_out(tmp_path):
    """None takes the whole paragraph with it, its heading included; blank lines in a value are no paragraphs."""
    prompt = template(tmp_path, "The task:\n<data>\n{task}\n</data>\n\nHints:\n{hints}\n\nThe end.")
    assert prompt.user({"task": "a\n\nb {hints}", "hints": None}) == (
        "The task:\n<data>\na\n\nb {hints}\n</data>\n\nThe end."
    )
    assert "Hints:\nlook" in prompt.user({"task": "a", "hints": "look"})


def test_nothing_else_of_the_wording_changes(tmp_path):
    """An empty value is put in like any other, and several blank lines stay where nothing is left out."""
    prompt = template(tmp_path, "{task}\n\n\n\n{hints}")
    assert prompt.user({"task": "a", "hints": ""}) == "a\n\n\n\n"
