"""The hand-written rewritings of desk: each is whole, keeps its secret, and stands beside others or is refused."""

import re
from itertools import combinations

import anyio
import pytest

from lhaw_record.generators.errors import RewritingFailed
from lhaw_record.generators.extraction import RuleExtractor
from lhaw_record.generators.extraction.written import WrittenExtractor
from lhaw_record.generators.generation.generate import GenerationSettings
from lhaw_record.generators.generation.removals import RemovalSettings, priority
from lhaw_record.generators.generation.variant_plan import VariantPlan
from lhaw_record.generators.protocol import Grounding, Removal
from lhaw_record.generators.rewriting import RuleRewriter
from lhaw_record.generators.rewriting.written import WrittenRewriter
from lhaw_record.generators.sources.desk import DeskSource
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks

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


@pytest.mark.sampled(4)
@pytest.mark.parametrize("task_id", TASKS)
def test_what_is_written_passes_the_gate(task_id):
    """Each text passes the gate and differs from the other severities; what generation takes has one."""
    source = TASKS[task_id]
    for written in source.written:
        prompts = [made.prompt for made in every_rewriting(source, written)]
        assert len(set(prompts)) == len(prompts), written.segment
        assert prompts or priority(written.segment) < RemovalSettings().min_priority, written.segment


@pytest.mark.sampled(4)
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


@pytest.mark.sampled(8)
@pytest.mark.parametrize("task_id", TASKS)
def test_two_segments_together_are_whole_or_refused(task_id):
    """Passages that overlap need a rewriter; others stand beside each other, with neither value left."""
    source, made_count, refusals = TASKS[task_id], 0, set()
    for left, right in combinations(source.written, 2):
        try:
            removal, made = rewriting(source, [left.segment, right.segment], "delete")
        except RewritingFailed as error:
            refusals.add(str(error).rpartition("; ")[2])
            continue
        made_count += 1
        assert findings(source, removal, made) == (), (left.segment, right.segment)
    assert made_count > 0
    assert refusals <= {"needs a rewriter"}


def test_every_parameter_of_a_task_can_be_removed():
    """Whatever differs between instances of a task is a segment; only the seed of its workspace is not."""
    for task in desk_tasks():
        removable = {written.segment.value for written in TASKS[task.task_id].written}
        texts = " ".join(removable)
        for name in type(task.parameters).__struct_fields__:
            assert name == "seed" or str(getattr(task.parameters, name)) in texts, (task.task_id, name)


def test_hand_written_prompts_go_before_rules():
    """A task that somebody rewrote needs neither rules nor a model; other tasks keep what the settings name."""
    settings = GenerationSettings(
        experiment_id="e",
        extractor=RuleExtractor(),
        rewriter=RuleRewriter(),
        caller_of=lambda *_: None,
        config={},
        redactor=None,
    )
    source = TASKS["log-triage"]
    assert isinstance(settings.extractor_of(source), WrittenExtractor)
    assert isinstance(settings.rewriter_of(source), WrittenRewriter)
    found = anyio.run(settings.extractor_of(source).extract, source, Grounding(), None)
    assert [each.segment_id for each in found.segments] == [f"S{n}" for n in range(1, len(source.written) + 1)]
