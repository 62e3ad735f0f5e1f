"""Parameters fill prompt, workspace and variants alike, and a variant really removes its value."""

import re

import msgspec
import pytest

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks, environment_digest, prompt_variants
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import write_files
from tests.runners.environments.benchmarks.desk.solutions import grade_after, solutions_of

TASKS = desk_tasks()
IDS = [task.task_id for task in TASKS]
ENTRIES = [(task, entry) for task in TASKS for entry in task.variants_file().variants if entry.prompt is not None]
ENTRY_IDS = [f"{task.task_id}/{entry.name}" for task, entry in ENTRIES]
INSTANCES = [
    pytest.param(task, name, value, id=f"{task.task_id}-{name}-{value}")
    for task in TASKS
    for name, values in solutions_of(task).ALTERNATIVES.items()
    for value in values
]


@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_workspace_depends_on_parameters_alone(task):
    """Building twice gives the same files, another seed gives others, and every prompt is filled."""
    built = task.build(task.parameters)
    assert digest(built) == digest(task.build(task.parameters)) == environment_digest(task)
    other = msgspec.structs.replace(task, parameters=msgspec.structs.replace(task.parameters, seed=5))
    assert digest(other.build(other.parameters)) != digest(built)
    assert not re.search(r"[{}]", task.prompt())


@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_every_parameter_but_the_seed_is_said(task):
    """The full prompt states every parameter but the seed."""
    for name, value in msgspec.structs.asdict(task.parameters).items():
        assert name == "seed" or str(value) in task.prompt()


@pytest.mark.sampled(47)
@pytest.mark.parametrize(("task", "name", "value"), INSTANCES)
def test_other_instances_are_solvable_and_graded(task, name, value, tmp_path):
    """With another value of a parameter, a correct solution still passes, and the prompt states the value."""
    parameters = msgspec.structs.replace(task.parameters, **{name: value})
    instance = msgspec.structs.replace(task, parameters=parameters)
    grade = grade_after(instance, solutions_of(task).CORRECT[0], tmp_path / "right")
    assert [result.details for result in grade.results if not result.score] == []
    assert name == "seed" or str(value) in instance.prompt()


@pytest.mark.parametrize(("task", "entry"), ENTRIES, ids=ENTRY_IDS)
def test_variant_takes_its_values_away(task, entry):
    """A removed value is in the full prompt, contains its parameters, and is absent from the underspecified prompt."""
    variant = next(each for each in prompt_variants(task) if each.variant_id.endswith(f"/{entry.name}"))
    for segment, written in zip(variant.segments, entry.segments, strict=True):
        assert segment.value in task.prompt()
        assert set(re.findall(r"\{(\w+)\}", written.value)) == set(written.parameters)
        assert not re.search(rf"(?<!\w){re.escape(segment.value)}(?!\w)", variant.prompt)
    kept = set(task.parameters.__struct_fields__) - {name for item in entry.segments for name in item.parameters}
    assert set(re.findall(r"\{(\w+)\}", entry.prompt)) == kept - {"seed"}


@pytest.mark.parametrize(("task", "entry"), ENTRIES, ids=ENTRY_IDS)
def test_variant_is_complete(task, entry):
    """One or two segments, scores of 0, 0.5 or 1, known checkpoints, and a question for each segment."""
    names = {item.checkpoint_id for item in task.checkpoints}
    assert 1 <= len(entry.segments) <= 2
    for segment in entry.segments:
        assert {segment.criticality, segment.guessability} <= {0.0, 0.5, 1.0}
        assert segment.checkpoint_refs
        assert set(segment.checkpoint_refs) <= names
        assert segment.expected_questions


def test_benchmark_lists_everything_once():
    """Tasks and variants have different names, and equal calls give equal digests."""
    benchmark, again = DeskBenchmark(), DeskBenchmark()
    task_ids = [task.task_id for task in benchmark.tasks()]
    variant_ids = [variant.variant_id for variant in benchmark.variants()]
    assert len(set(task_ids)) == len(task_ids)
    assert len(set(variant_ids)) == len(variant_ids)
    assert {variant.task_id for variant in benchmark.variants()} == set(task_ids)
    assert [task.task_digest for task in benchmark.tasks()] == [task.task_digest for task in again.tasks()]
    assert [item.variant_digest for item in benchmark.variants()] == [item.variant_digest for item in again.variants()]


def test_the_variants_cover_the_field():
    """Every dimension, every severity, and both one and two segments occur."""
    variants = [variant for variant in DeskBenchmark().variants() if variant.fault is None]
    assert {segment.dimension for variant in variants for segment in variant.segments} == {
        "goal",
        "constraint",
        "input",
        "context",
    }
    assert {len(variant.segments) for variant in variants} == {1, 2}
    assert {variant.severity for variant in variants} == {"delete", "vaguify", "genericize"}


def test_workbooks_and_folders_are_written(tmp_path):
    """Text, nested folders and workbooks arrive as real files."""
    write_files({"a/b.csv": "x;y\n", "book.xlsx": {"One": [["n"], [1]], "Two": []}}, tmp_path)
    assert (tmp_path / "a" / "b.csv").read_bytes() == b"x;y\n"
    assert (tmp_path / "book.xlsx").read_bytes().startswith(b"PK")
