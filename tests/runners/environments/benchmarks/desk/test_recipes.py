"""Every recipe reads its task's parameters from what the user says and nothing else."""

import ast
from pathlib import Path
from typing import get_args

import pytest

import lhaw_record.runners.agents.scripted
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.agents.scripted.beliefs import read_stated
from lhaw_record.runners.agents.scripted.model import recipe_for
from lhaw_record.runners.agents.scripted.transcript import Statement, Transcript
from lhaw_record.runners.environments.benchmarks.desk import recipe as recipe_module
from lhaw_record.runners.environments.benchmarks.desk.recipe import desk_recipes, read_steps
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks, prompt_variants
from lhaw_record.runners.experiment.prompts import InjectionTemplates
from lhaw_record.runners.experiment.tables import Deferral
from lhaw_record.runners.users.simulated_user.answers import deferral

TASKS = {task.task_id: task for task in desk_tasks()}
RECIPES = {recipe.name: recipe for recipe in desk_recipes()}
VARIANTS = [variant for task in TASKS.values() for variant in prompt_variants(task)]
EMPTY_PHRASES = (
    "Use your best judgment.",
    "I am not sure about that detail. Please proceed with a reasonable default.",
    "I have nothing to add to that.",
    "Sorry, I do not remember. Continue.",
    *map(deferral, get_args(Deferral)),
)


def _stated(recipe, prompt, *said):
    statements = tuple(said)
    transcript = Transcript(system="", prompt=prompt, statements=statements, calls=(), text_turns=0)
    return read_stated(recipe.parameters, transcript)


def test_every_task_has_its_recipe():
    """Each desk task has a recipe of its name, and each recipe has a task."""
    assert RECIPES.keys() == TASKS.keys()


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_is_consistent(name):
    """Steps use declared parameters, build on earlier steps, and begin by looking around."""
    recipe = RECIPES[name]
    parameters = [parameter.name for parameter in recipe.parameters]
    assert len(set(parameters)) == len(parameters)
    assert len({parameter.question for parameter in recipe.parameters}) == len(parameters)
    earlier = set()
    for step in recipe.steps:
        assert set(step.needed()) <= {*parameters, *recipe.results}, step.name
        assert set(step.after) <= earlier, step.name
        assert step.name not in earlier
        earlier.add(step.name)
    assert recipe.steps[0].needed() == ()
    assert set(recipe.deliverables) <= set(parameters)
    assert any(step.is_delivery for step in recipe.steps)


@pytest.mark.parametrize("name", RECIPES)
def test_full_prompt_states_every_parameter(name):
    """A well-specified prompt states every parameter that has no usual value."""
    recipe = RECIPES[name]
    said = {item.name for item in recipe.parameters if item.usual is None}
    assert _stated(recipe, TASKS[name].prompt()).values.keys() == said


@pytest.mark.parametrize("name", RECIPES)
def test_only_its_own_prompts_are_recognised(name):
    """A recipe recognises every prompt of its task, whatever a variant removes, and no other prompt."""
    own = [TASKS[name].prompt(), *(variant.prompt for variant in VARIANTS if variant.task_id == name)]
    others = [task.prompt() for task in TASKS.values() if task.task_id != name]
    assert all(recipe_for(prompt).name == name for prompt in own)
    assert all(recipe_for(prompt).name != name for prompt in others)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.variant_id)
def test_removed_value_is_missed_and_understood_when_given(variant):
    """A variant leaves something open; an injected message, or a reply with all values, restores the full task."""
    recipe = RECIPES[variant.task_id]
    full = _stated(recipe, TASKS[variant.task_id].prompt()).values
    without = _stated(recipe, variant.prompt).values
    missing = [item for item in recipe.parameters if item.name not in without]
    assert len(missing) >= len(variant.segments)
    assert without == {name: full[name] for name in without}
    injected = Statement(text=InjectionTemplates().message(variant.segments))
    assert _stated(recipe, variant.prompt, injected).values == full
    everything = "; ".join(segment.value for segment in variant.segments)
    for parameter in missing:
        reply = Statement(text=f"It is {everything}.", question=parameter.question)
        assert _stated(recipe, variant.prompt, reply).values == full


@pytest.mark.sampled(5)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.variant_id)
def test_empty_phrases_say_nothing(variant):
    """A refusal, a nudge or a notice is never taken for a value."""
    recipe = RECIPES[variant.task_id]
    nothing = [Statement(text=data_path("prompts", "nudge.md").read_text())]
    for parameter in recipe.parameters:
        nothing += [Statement(text=phrase, question=parameter.question) for phrase in EMPTY_PHRASES]
    stated = _stated(recipe, variant.prompt, *nothing)
    assert stated.values == _stated(recipe, variant.prompt).values
    assert stated.change_count == 0


@pytest.mark.parametrize("name", RECIPES)
def test_functions_of_a_recipe_accept_any_memory(name):
    """Guesses, finders and results accept any output of a tool."""
    recipe = RECIPES[name]
    values = dict.fromkeys([*(parameter.name for parameter in recipe.parameters), *recipe.results], "x")
    for text in ("", "Error: nothing works\n[exit code 1]", "\0 ,, || 12 .csv ./a.log :: \n" * 3):
        memory = {step.name: text for step in recipe.steps}
        for known in ({}, memory):
            for parameter in recipe.parameters:
                assert all(isinstance(guess, str) for guess in parameter.guesses(known))
                assert parameter.find is None or isinstance(parameter.find(known), str | None)
            assert all(isinstance(step.filled(values), dict) for step in recipe.steps)
            assert all(isinstance(find(known), str | None) for find in recipe.results.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("## look\n- extra\n\n```bash\nls\n```\n", "malformed: 'look"),
        ("## look\n```bash\nls\n```\n\n## read\n", "malformed: 'read"),
        ("## look\n- someday\n```bash\nls\n```\n", "'look' has unknown notes: someday"),
    ],
)
def test_a_malformed_step_is_refused_by_name(tmp_path, text, message):
    """A step is never dropped silently."""
    (tmp_path / "steps.md").write_text(f"# task, step by step\n\n{text}")
    with pytest.raises(ValueError, match=message):
        read_steps(str(tmp_path / "recipe.py"))


def test_models_know_no_answers():
    """No scripted model or recipe imports a task, a grader or bundled data, so none can contain an answer."""
    desk = Path(recipe_module.__file__).parent
    modules = [
        *Path(lhaw_record.runners.agents.scripted.__file__).parent.rglob("*.py"),
        *desk.glob("tasks/*/recipe.py"),
        desk / "recipe.py",
    ]
    assert len(modules) > len(RECIPES)
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            foreign = [name for name in names if "benchmarks" in name and "desk.recipe" not in name]
            assert not foreign, path.name
            assert not any("resources" in name for name in names), path.name


def test_recipes_hold_no_published_answer():
    """Guesses are not answers: fewer than half of a task's values are its first guesses."""
    for name, recipe in RECIPES.items():
        full = _stated(recipe, TASKS[name].prompt()).values
        first = [item for item in recipe.parameters if list(item.guesses({}))[:1] == [full.get(item.name)]]
        assert 2 * len(first) < len(recipe.parameters), name
