"""The requests with a fault: each has exactly its fault, its questions are answered, nothing else looks like one."""

import re
from collections import Counter
from typing import get_args

import msgspec
import pytest

from lhaw_record.generators.gate.decision import findings_against
from lhaw_record.recorder.events.values import Fault
from lhaw_record.runners.agents.scripted.beliefs import read_stated
from lhaw_record.runners.agents.scripted.model import recipe_for
from lhaw_record.runners.agents.scripted.transcript import Transcript
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.recipe import desk_recipes
from lhaw_record.runners.environments.benchmarks.desk.task import (
    desk_tasks,
    environment_variants,
    faulty_requests,
    prompt_variants,
)
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import apply_change
from lhaw_record.runners.environments.benchmarks.expected_answers import answer_problems
from lhaw_record.runners.users.simulated_user.answers import answer_with

FAULTY = [(task, variant) for task in desk_tasks() for variant in faulty_requests(task)]
NAMES = [variant.variant_id for _, variant in FAULTY]


def doubted(prompt):
    """The parameters that a scripted model doubts when it reads a prompt."""
    transcript = Transcript(system="", prompt=prompt, statements=(), calls=(), text_turns=0)
    return read_stated(recipe_for(prompt).parameters, transcript).doubted


def test_every_fault_has_five_tasks():
    """Five requests on five tasks: fewer clusters give no interval."""
    assert Counter(variant.fault for _, variant in FAULTY) == dict.fromkeys(get_args(Fault), 5)
    assert len({(variant.fault, task.task_id) for task, variant in FAULTY}) == len(FAULTY)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("task", "variant"), FAULTY, ids=NAMES)
def test_it_has_its_fault_and_no_other(task, variant):
    """The gate finds nothing, and every expected question is answered, also in other words."""
    assert findings_against(variant, task.prompt(), ()) == ()
    recorded = next(each for each in DeskBenchmark().tasks() if each.task_id == task.task_id)
    assert list(answer_problems(variant, recorded)) == []


@pytest.mark.parametrize(("task", "variant"), FAULTY, ids=NAMES)
def test_its_passages_and_files_fit_the_task(task, variant):
    """Every replaced passage is once in the full prompt, and files that show the fault say what the user means."""
    entry = next(each for each in task.variants_file().variants if variant.variant_id.endswith(f"/{each.name}"))
    assert [task.prompt().count(task.fill(each.text)) for each in entry.replacements] == [1] * len(entry.replacements)
    (segment,) = entry.segments
    assert set(segment.checkpoint_refs) <= {item.checkpoint_id for item in task.checkpoints}
    files = task.build(task.parameters)
    changed = {
        name: content
        for name, content in apply_change(files, variant.environment_change).items()
        if content != files.get(name)
    }
    assert bool(changed) == (variant.fault in ("stale_information", "missing_authority"))
    (parameter,) = segment.parameters
    meant = msgspec.structs.asdict(task.parameters)[parameter]
    assert all(meant in content for content in changed.values())


@pytest.mark.parametrize(("task", "variant"), FAULTY, ids=NAMES)
def test_what_the_files_show_is_in_sight_and_against_the_request(task, variant):
    """No evidence lies in an archive only, and who alone may allow it is not who asks for it."""
    files = task.build(task.parameters)
    for name, content in apply_change(files, variant.environment_change).items():
        if content == files.get(name):
            continue
        assert not name.startswith("archive/")
        for holder in re.findall(r"[Oo]nly the ([\w ]+?) may", content):
            assert holder not in variant.prompt


@pytest.mark.parametrize(("task", "variant"), FAULTY, ids=NAMES)
def test_what_a_user_orders_without_authority_is_no_slip(task, variant):
    """The user owns up to a slip where the request says something wrong, but not where it was meant."""
    is_slip = variant.fault in ("conflicting_instructions", "stale_information")
    assert ("slip" in answer_with(variant.segments)) == is_slip


def test_no_list_has_both_minimums():
    """A list of only those with 4 or more lacks some with 2 or more; with 9 or more it could have obeyed both."""
    (segment,) = next(each for _, each in FAULTY if each.variant_id.endswith("/two-minimums")).segments
    assert int(segment.decoy.split()[0]) < int(segment.value.split()[0])


def test_only_conflicts_are_doubted_at_once():
    """A scripted model doubts a prompt that gives two values, and no other prompt of desk."""
    for _, variant in FAULTY:
        assert bool(doubted(variant.prompt)) == (variant.fault == "conflicting_instructions"), variant.variant_id
    for task in desk_tasks():
        for variant in (*prompt_variants(task), *environment_variants(task)):
            assert not doubted(variant.prompt), variant.variant_id


def test_no_file_of_a_task_is_a_rule_against_its_prompt():
    """What reveals a fault is only in the workspaces of faulty requests, so other trials are as they were."""
    for task in desk_tasks():
        recipe = next(each for each in desk_recipes() if each.name == task.task_id)
        texts = "\n".join(text for text in task.build(task.parameters).values() if isinstance(text, str))
        memory = {step.name: texts for step in recipe.steps}
        assert [item.name for item in recipe.parameters if item.rule and item.rule(memory)] == []


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"prompt": "Sort the rows by {value}."}, "value_is_gone"),
        ({"prompt": "Do the audit."}, "decoy_is_there"),
        ({"follow_up": "Better {value}."}, "value_is_gone"),
    ],
)
def test_the_gate_finds_what_is_no_such_fault(change, check):
    """A stale request that tells what the user means, or whose fault is not there, is found."""
    task, variant = next(each for each in FAULTY if each[1].fault == "stale_information")
    value = variant.segments[0].value
    broken = msgspec.structs.replace(variant, **{name: text.format(value=value) for name, text in change.items()})
    assert check in {each.check for each in findings_against(broken, task.prompt(), ())}
