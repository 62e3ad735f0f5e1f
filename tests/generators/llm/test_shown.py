"""What a model is shown: the bundled wordings or one's own, with the grounding that it may look at and nothing else."""

import json
import shutil

import pytest

from lhaw_record.generators.llm import LlmExtractor, LlmRewriter, PromptTemplates
from lhaw_record.generators.llm.extractor import grounding_texts
from lhaw_record.generators.llm.rewriter import segments_text
from lhaw_record.generators.protocol import Grounding, SourceTask, TrajectoryStep
from lhaw_record.recorder.events.values import Checkpoint, Segment, Task
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError

STEPS = (
    TrajectoryStep(name="read", arguments_json='{"path": "a.csv"}', result="x" * 5_000),
    TrajectoryStep(name="write", arguments_json='{"path": "b.csv"}'),
)


def source(steps=STEPS, **changes):
    """A task with everything that generation may know."""
    task = Task(
        benchmark="own",
        benchmark_version="1",
        task_id="t",
        prompt="Copy a.csv to b.csv.",
        checkpoints=(Checkpoint(checkpoint_id="CP1", label="b.csv is there", total=2.0),),
        environment_digest="0",
    )
    known = {"files": {"b/z.txt": "", "a.csv": "1,2"}, "checkpoint_notes": "All rows.", "trajectory": steps, **changes}
    return SourceTask(task=task, **known)


def test_everything_is_shown_by_default():
    """Checkpoints with ids and points, the paths of files without their contents, steps with their places."""
    texts = grounding_texts(source(), Grounding())
    assert texts["checkpoints"] == "- CP1: b.csv is there; 2\nAll rows."
    assert texts["files"] == "a.csv\nb/z.txt"
    first, gives, second = texts["trajectory"].splitlines()
    assert first == 'step 1 of 2: read {"path": "a.csv"}'
    assert gives.startswith("  gives: xxx")
    assert len(gives) < 500
    assert second == 'step 2 of 2: write {"path": "b.csv"}'


def test_what_may_not_be_looked_at_is_not_in_the_request():
    """Each kind of grounding goes with its heading; a prompt alone shows the prompt alone."""
    template = PromptTemplates().extraction
    for flag, heading in (
        ("trajectory", "How the task was"),
        ("checkpoints", "What is graded"),
        ("environment", "What lies"),
    ):
        grounding = Grounding(**{f"has_{flag}": False})
        shown = template.user({"task": "Do it.", **grounding_texts(source(), grounding)})
        assert heading not in shown
        assert shown.count("<data>") == 3
    nothing = Grounding(has_trajectory=False, has_checkpoints=False, has_environment=False)
    assert (
        template.user({"task": "Do it.", **grounding_texts(source(), nothing)}) == "The task:\n<data>\nDo it.\n</data>"
    )


def test_nothing_to_show_is_like_nothing_allowed():
    """A task without steps, files and checkpoints has no empty headings."""
    bare = SourceTask(task=source().task)
    texts = grounding_texts(bare, Grounding())
    assert (texts["files"], texts["trajectory"]) == (None, None)


def test_a_long_trajectory_keeps_its_places():
    """Results go first, then steps in the middle; the rest keeps its number, within the budget."""
    steps = tuple(
        TrajectoryStep(name="run", arguments_json=json.dumps({"command": f"echo {'y' * 300}"}), result="x" * 400)
        for _ in range(400)
    )
    text = grounding_texts(source(steps), Grounding())["trajectory"]
    assert len(text) < 40_000
    assert text.startswith("step 1 of 400: run")
    assert "entries are left out here" in text
    assert "step 400 of 400: run" in text
    assert "gives:" not in text


def test_many_files_are_counted():
    """Of very many paths the first are shown."""
    text = grounding_texts(source(files={f"f{number:04}": "" for number in range(500)}), Grounding())["files"]
    assert text.endswith("f0199\n(and 300 more)")


def test_segments_are_shown_as_json_lines():
    """A value with quotes or line breaks is plain, and no score is told."""
    segment = Segment(
        segment_id="S1", value='a "b"\nc', dimension="goal", subdimension="target", criticality=1.0, synonyms=("d",)
    )
    (line,) = segments_text([segment]).splitlines()
    assert json.loads(line) == {
        "segment_id": "S1",
        "kind": "goal, target",
        "value": 'a "b"\nc',
        "other_expressions": ["d"],
    }


def test_a_folder_of_ones_own_replaces_files(tmp_path):
    """What the folder lacks is the bundled one; another wording or parameter is another digest, files apart."""
    folder = data_path("generation", "prompts")
    shutil.copy(folder / "extract.md", tmp_path)
    (tmp_path / "severity_delete.md").write_text("Cross them out.\n")
    own, bundled = PromptTemplates(tmp_path), PromptTemplates()
    assert own.severities == {**bundled.severities, "delete": "Cross them out."}
    digests = [LlmExtractor("m", {}, wordings).digest for wordings in (own, bundled)]
    digests += [LlmExtractor("m", {"seed": 1}).digest, LlmExtractor("n", {}).digest]
    assert len(set(digests)) == 3
    assert LlmRewriter("m", {}, own).digest != LlmRewriter("m", {}, bundled).digest


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("extract.md", "no parts", "extract.md: this prompt has"),
        ("rewrite.md", "s\n---\n{task} {segments} {severity}\n---\n{problem}", "rewrite.md: this prompt has"),
        ("severity_delete.md", " \n", "severity_delete.md: the wording is empty"),
        ("extraction.md", "x", "extraction.md is no prompt of generation; the files are ask.md, assess.md, extract.md"),
        ("notes.txt", "x", "no prompt is there; the files are ask.md"),
    ],
)
def test_a_folder_that_lacks_something_is_refused(tmp_path, name, text, problem):
    """The error names the file and what belongs into it."""
    (tmp_path / name).write_text(text)
    with pytest.raises(ExperimentError, match=problem):
        PromptTemplates(tmp_path)
