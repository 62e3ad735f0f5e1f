"""Generation as a whole, with an extractor and a rewriter that are told what to do."""

import pytest

from lhaw_record.generators.errors import ExtractionFailed, NotRemovable, RewritingFailed
from lhaw_record.generators.generation.generate import Generation, GenerationSettings
from lhaw_record.generators.generation.removals import RemovalSettings
from lhaw_record.generators.protocol import Extraction, Grounding, Rewriting, SourceTask, TrajectoryStep
from lhaw_record.recorder.events import RunFinished, SegmentsExtracted, VariantGenerated, VariantRejected
from lhaw_record.recorder.events.values import Checkpoint, ExpectedQuestions, Segment, Task, Usage
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.redaction import Redactor
from lhaw_record.runners.base.errors import ModelBoundaryError

PROMPT = "Read orders.csv and write the 20 newest orders to report.xlsx."


def _task(task_id="report", prompt=PROMPT):
    return SourceTask(
        task=Task(
            benchmark="mine",
            benchmark_version="1",
            task_id=task_id,
            prompt=prompt,
            checkpoints=(Checkpoint(checkpoint_id="c1", label="report.xlsx is there"),),
            environment_digest="",
        ),
        trajectory=(
            TrajectoryStep(name="bash", arguments_json='{"command":"ls"}'),
            TrajectoryStep(name="bash", arguments_json='{"command":"head\\norders.csv"}'),
        ),
    )


class _Extractor:
    """Finds three segments, or fails for the tasks that it is told."""

    name = "told"
    digest = "e1"

    def __init__(self, failing=()):
        self.calls = []
        self.failing = failing

    async def extract(self, source, grounding, caller):
        """Count the call."""
        self.calls.append((source.task.task_id, grounding))
        if source.task.task_id in self.failing:
            raise ExtractionFailed("the reply was prose")
        values = (("S1", "orders.csv", "input"), ("S2", "20", "constraint"), ("S3", "report.xlsx", "goal"))
        return Extraction(
            segments=tuple(
                Segment(
                    segment_id=segment_id,
                    value=value,
                    dimension=dimension,
                    subdimension="target",
                    criticality=1.0,
                    guessability=0.0,
                )
                for segment_id, value, dimension in values
            )
        )


class _Rewriter:
    """Replaces each value by other words; keeps it for the values that it is told."""

    name = "told"
    digest = "r1"

    def __init__(self, keeping=(), refusing=()):
        self.calls = []
        self.keeping = keeping
        self.refusing = refusing

    async def rewrite(self, source, removal, caller, problems=()):
        """Count the call."""
        values = [segment.value for segment in removal.segments]
        self.calls.append((*values, tuple(problems)))
        if set(values) & set(self.refusing):
            raise RewritingFailed("it cannot be taken out")
        prompt = source.task.prompt
        for value in values:
            if value not in self.keeping:
                prompt = prompt.replace(f"the {value} ", "some ").replace(value, "some file")
        questions = tuple(
            ExpectedQuestions(segment_id=segment.segment_id, questions=(f"What about {segment.dimension}?",))
            for segment in removal.segments
        )
        return Rewriting(prompt=prompt, expected_questions=questions, failure_mode="It guesses.")


def _generation(tmp_path, extractor=None, rewriter=None, sources=None, **changes):
    settings = {
        "experiment_id": "mine",
        "extractor": extractor or _Extractor(),
        "rewriter": rewriter or _Rewriter(),
        "caller_of": lambda *_: None,
        "config": {},
        "redactor": Redactor(),
        "candidates": RemovalSettings(sizes=(1,), severities=("vaguify",)),
        **changes,
    }
    return Generation(create_store(tmp_path / "store"), sources or [_task()], GenerationSettings(**settings))


def _events(tmp_path, kind):
    return [each.event for each in read_envelopes(tmp_path / "store") if isinstance(each.event, kind)]


async def test_every_step_is_recorded_with_its_grounding(tmp_path):
    """Segments get first use and checkpoints from what there is; every variant has its diff and its maker."""
    generation = _generation(tmp_path)
    await generation.run()
    (extracted,) = _events(tmp_path, SegmentsExtracted)
    assert extracted.grounding == ("trajectory", "checkpoints")
    by_value = {segment.value: segment for segment in extracted.segments}
    assert by_value["orders.csv"].first_use_pct == 0.5
    assert by_value["orders.csv"].is_used_in_trajectory
    assert not by_value["20"].is_used_in_trajectory
    assert by_value["report.xlsx"].checkpoint_refs == ("c1",)
    made = _events(tmp_path, VariantGenerated)
    assert len(made) == 3
    assert all(each.rewriter == "told" and each.diff and each.task_digest for each in made)
    assert {each.variant.origin for each in made} == {"generated"}
    assert verify(tmp_path / "store").findings == ()


async def test_what_is_decided_is_not_done_again(tmp_path):
    """The same command after the end calls nobody and writes nothing; another rewriter makes variants of its own."""
    await _generation(tmp_path).run()
    before = len(read_envelopes(tmp_path / "store"))
    extractor, rewriter = _Extractor(), _Rewriter()
    await _generation(tmp_path, extractor, rewriter).run()
    assert (extractor.calls, rewriter.calls) == ([], [])
    assert len(read_envelopes(tmp_path / "store")) == before
    other = _Rewriter()
    other.digest = "r2"
    await _generation(tmp_path, extractor, other).run()
    assert extractor.calls == []
    assert len(other.calls) == 3
    assert len({each.variant.variant_id for each in _events(tmp_path, VariantGenerated)}) == 6


@pytest.mark.thorough
async def test_a_variant_that_fails_its_checks_is_given_up_with_the_reason(tmp_path):
    """A value that stays, or a rewriter that refuses, is a rejection with its checks, and is not tried again."""
    generation = _generation(tmp_path, rewriter=_Rewriter(keeping=("20",), refusing=("report.xlsx",)))
    await generation.run()
    rejected = {each.segments[0].value: each for each in _events(tmp_path, VariantRejected)}
    assert set(rejected) == {"20", "report.xlsx"}
    assert rejected["20"].checks
    assert rejected["20"].is_final
    assert rejected["report.xlsx"].prompt is None
    assert rejected["report.xlsx"].reason == "it cannot be taken out"
    again = _Rewriter()
    await _generation(tmp_path, rewriter=again).run()
    assert again.calls == []


async def test_a_model_is_told_what_failed_and_a_resumed_run_goes_on_counting(tmp_path):
    """Attempts end at the limit, also over several runs; each but the first knows all before, with text and faults."""
    rewriter = _Rewriter(keeping=("20",))
    source = [_task(prompt="Write the 20 newest orders.")]

    class _Caller:
        total_usage = usage_with_recalled = Usage(cost_usd=0.0)
        unknown_cost_calls = 0

    async def only_number(self, source, grounding, caller):
        found = await _Extractor.extract(self, source, grounding, caller)
        return Extraction(segments=found.segments[1:2])

    extractor = _Extractor()
    extractor.extract = only_number.__get__(extractor)
    arguments = {"extractor": extractor, "rewriter": rewriter, "sources": source, "caller_of": lambda *_: _Caller()}
    await _generation(tmp_path, rewrite_attempts=2, **arguments).run()
    assert [len(call[-1]) for call in rewriter.calls] == [0, 1]
    (seen,) = rewriter.calls[1][-1]
    assert "Write the 20 newest orders." in seen
    assert [each.attempt for each in _events(tmp_path, VariantRejected)] == [1, 2]
    assert [each.is_final for each in _events(tmp_path, VariantRejected)] == [False, True]


@pytest.mark.thorough
async def test_what_no_wording_mends_is_not_tried_again(tmp_path):
    """The rewriter says so, or the files tell the value: the first attempt is the last, and the reason is counted."""

    class _Caller:
        total_usage = usage_with_recalled = Usage(cost_usd=0.0)
        unknown_cost_calls = 0

    class _Honest(_Rewriter):
        async def rewrite(self, source, removal, caller, problems=()):
            if removal.segments[0].value == "20":
                raise NotRemovable("it is a whole rule without the number")
            return await super().rewrite(source, removal, caller, problems)

    source = SourceTask(task=_task().task, files={"orders.csv": "", "report.xlsx": ""})
    generation = _generation(tmp_path, rewriter=_Honest(), sources=[source], caller_of=lambda *_: _Caller())
    await generation.run()
    ends = {each.segments[0].value: each for each in _events(tmp_path, VariantRejected)}
    assert [check.check for check in ends["20"].checks] == ["can_be_taken_out"]
    assert "files_keep_the_secret" in {check.check for check in ends["orders.csv"].checks}
    assert {(each.attempt, each.is_final) for each in ends.values()} == {(1, True)}


@pytest.mark.thorough
async def test_one_task_that_fails_leaves_the_others_alone(tmp_path):
    """A failed extraction is owed and reported; the other tasks get their variants."""
    sources = [_task("first"), _task("second")]
    generation = _generation(tmp_path, _Extractor(failing=("first",)), sources=sources)
    await generation.run()
    assert [source.task.task_id for source in generation.owed_extractions()] == ["first"]
    assert generation.work.failures == ["first: the reply was prose"]
    assert {each.variant.task_id for each in _events(tmp_path, VariantGenerated)} == {"second"}
    (finished,) = _events(tmp_path, RunFinished)
    assert finished.outcome == "failed"


async def test_a_key_that_is_refused_ends_the_run(tmp_path):
    """No other call would end differently, so none is made."""

    class _Refused(_Extractor):
        async def extract(self, source, grounding, caller):
            self.calls.append(source.task.task_id)
            raise ModelBoundaryError("the key is refused", kind="authentication", is_retry_owed=False)

    extractor = _Refused()
    generation = _generation(tmp_path, extractor, sources=[_task(f"t{place}") for place in range(9)], concurrency=1)
    await generation.run()
    assert len(extractor.calls) == 1
    assert generation.work.stop_reason == "failed"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("grounding", "looked_at"),
    [
        (Grounding(), ("trajectory", "checkpoints")),
        (Grounding(has_trajectory=False), ("checkpoints",)),
        (Grounding(has_trajectory=False, has_checkpoints=False, has_environment=False), ()),
    ],
)
async def test_grounding_is_part_of_what_an_extraction_is(tmp_path, grounding, looked_at):
    """What may not be looked at is not, and the event says what was."""
    await _generation(tmp_path, grounding=grounding).run()
    (extracted,) = _events(tmp_path, SegmentsExtracted)
    assert extracted.grounding == looked_at
    if not grounding.has_trajectory:
        assert all(segment.first_use_pct is None for segment in extracted.segments)


@pytest.mark.thorough
async def test_severities_that_are_written_at_once_differ(tmp_path):
    """Of equal prompts for one removal only the first is a variant, also where jobs run side by side."""
    severities = ("delete", "vaguify", "genericize")
    generation = _generation(
        tmp_path, candidates=RemovalSettings(sizes=(1,), severities=severities), sources=[_task("one"), _task("two")]
    )
    await generation.run()
    made = _events(tmp_path, VariantGenerated)
    assert len({(each.task_digest, each.variant.segments) for each in made}) == len(made) == 6
    rejected = _events(tmp_path, VariantRejected)
    assert {check.check for each in rejected for check in each.checks} == {"severities_differ"}
    assert len(rejected) == 12
