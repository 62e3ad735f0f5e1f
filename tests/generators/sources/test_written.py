"""The hand-written rewritings of desk: each is whole, keeps its secret, and stands beside others or is refused."""

import re
from itertools import combinations

import anyio
import pytest

from lhaw_record.command_line import main
from lhaw_record.generators.errors import RewritingFailed
from lhaw_record.generators.generation.generate import Generation, GenerationSettings
from lhaw_record.generators.generation.removals import RemovalSettings, priority
from lhaw_record.generators.generation.variant_plan import VariantKinds, VariantPlan, preview
from lhaw_record.generators.protocol import Removal
from lhaw_record.generators.sources.desk import DeskSource
from lhaw_record.generators.sources.written import WrittenRewriter
from lhaw_record.recorder.events import VariantGenerated
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.redaction import Redactor
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks
from tests.generators.sources.own_tasks import VARIANTS, only_task, write_folder

SEVERITIES = ("delete", "vaguify", "genericize")
TASKS = {source.task.task_id: source for source in DeskSource().tasks()}
_DETAIL = re.compile(r"[^\s`\"',;:()]*\d[^\s`\"',;:()]*")


def details(text):
    """The names, numbers, dates and files of a text that hold a digit."""
    return {each.rstrip(".") for each in _DETAIL.findall(text)}


def rewriting(source, segments, severity):
    """The written prompt without these segments."""
    removal = Removal(segments=tuple(segments), severity=severity)
    return removal, anyio.run(WrittenRewriter(source).rewrite, source, removal)


def every_rewriting(source, written):
    """The prompts without this segment, of each severity that somebody wrote; the gate finds nothing against them."""
    for severity in SEVERITIES:
        removal = Removal(segments=(written.segment,), severity=severity)
        if WrittenRewriter(source).is_written(removal):
            _, made = rewriting(source, [written.segment], severity)
            assert findings(source, removal, made) == (), (written.segment, severity)
            yield made


def findings(source, removal, made):
    """What the gate finds against the variant that generation would make of this."""
    segments = tuple(each.segment for each in source.written)
    return VariantPlan(source=source, removal=removal, rewriter=WrittenRewriter(source), segments=segments).problems(
        made, {}
    )


@pytest.mark.sampled(8)
@pytest.mark.parametrize("task_id", TASKS)
def test_what_is_written_passes_the_gate(task_id):
    """Each text passes the gate and differs from the other severities; what generation takes has one."""
    source = TASKS[task_id]
    for written in source.written:
        prompts = [made.prompt for made in every_rewriting(source, written)]
        assert len(set(prompts)) == len(prompts), written.segment
        assert prompts or priority(written.segment) < RemovalSettings().min_priority, written.segment


@pytest.mark.sampled(8)
@pytest.mark.parametrize("task_id", TASKS)
def test_no_detail_of_a_removed_value_stays(task_id):
    """No name, number, date or file of the value is left in its passage, and no new one is put in."""
    source = TASKS[task_id]
    for written in source.written:
        before = details(source.task.prompt)
        for made in every_rewriting(source, written):
            assert details(made.prompt) <= before
            for detail in details(written.segment.value):
                assert made.prompt.count(detail) < source.task.prompt.count(detail), detail


@pytest.mark.thorough
@pytest.mark.parametrize("task_id", TASKS)
def test_two_segments_together_are_whole_or_refused(task_id):
    """Passages that overlap are refused; others stand beside each other, with neither value left."""
    source, made_count, refusals = TASKS[task_id], 0, set[str]()
    for left, right in combinations(source.written, 2):
        try:
            removal, made = rewriting(source, [left.segment, right.segment], "delete")
        except RewritingFailed as error:
            refusals.add(str(error))
            continue
        made_count += 1
        assert findings(source, removal, made) == (), (left.segment, right.segment)
    assert made_count > 0
    assert all(each.startswith(("two segments change the same words", "nobody wrote how to")) for each in refusals)


def test_every_parameter_of_a_task_can_be_removed():
    """Whatever differs between instances of a task is a segment; only the seed of its workspace is not."""
    for task in desk_tasks():
        removable = {written.segment.value for written in TASKS[task.task_id].written}
        texts = " ".join(removable)
        for name in type(task.parameters).__struct_fields__:
            assert name == "seed" or str(getattr(task.parameters, name)) in texts, (task.task_id, name)


async def test_hand_written_passages_are_previewed():
    """A task with rewritings by its author is previewed with these."""
    source = next(iter(TASKS.values()))
    made, _ = await preview(source, 2, ("delete", "vaguify"))
    variants = [each.variant for each in made]
    assert {each.severity for each in variants} == {"delete", "vaguify"}
    for each in variants:
        removal = Removal(segments=each.segments, severity=each.severity)
        assert each.prompt == WrittenRewriter(source).rewriting(removal).prompt


async def test_whole_prompts_that_a_person_wrote_become_variants(tmp_path):
    """They are registered as written by hand, with their difference, and stay as they are at the next call."""
    write_folder(tmp_path / "tasks", variants__toml=VARIANTS)
    source = only_task(tmp_path / "tasks")
    (previewed,), refused = await preview(source, 3, SEVERITIES)
    assert not refused
    settings = GenerationSettings(
        experiment_id="e",
        caller_of=lambda *_: None,
        config={},
        redactor=Redactor(),
        extras=VariantKinds(has_written=True),
    )
    for _ in range(2):
        await Generation(create_store(tmp_path / "store"), [source], settings).run()
    events = [each.event for each in read_envelopes(tmp_path / "store")]
    (made,) = [each for each in events if isinstance(each, VariantGenerated)]
    assert made == previewed
    assert (made.rewriter, made.variant.origin, made.variant.severity) == ("written", "hand_written", "delete")
    assert "-by name" in made.diff


@pytest.mark.parametrize("command", ["generate", "pipeline"])
def test_without_a_text_and_without_a_model_both_ways_out_are_named(command, tmp_path, capsys):
    """One line, exit code 2, and no store; a model that only finds segments is not enough."""
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"task_id": "guests", "prompt": "Sort the guests."}')
    words = ["own", "--from", str(path), "--store", str(tmp_path / "store")]
    assert main([command, *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert all(each in said for each in ("guests", "variants.toml", "--extractor", "--rewriter"))
    assert main(["generate", *words, "--extractor", "some-model"]) == 2
    assert "--extractor needs --rewriter" in capsys.readouterr().err
    assert main(["variants", "preview", "own", "--from", str(path), "guests"]) == 2
    assert "variants.toml" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()
