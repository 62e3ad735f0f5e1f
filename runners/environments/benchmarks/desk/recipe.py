"""Describes how a scripted model solves one kind of task: the parameters it must know, and the steps that use them.

A recipe contains the method, never the answers. Each value is found in the conversation or the workspace, or guessed.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

import msgspec

Values = Mapping[str, str]
"""Parameter name -> the value that the model works with."""
Memory = Mapping[str, str]
"""Step name -> what its call returned. Functions of a recipe must accept any text there, even an error message."""

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_STEP = re.compile(r"^## ([^\n]+)\n((?:- [^\n]+\n)*)```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class RecipeParameter(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the model must know to solve the task.

    Regular expressions are searched in text with white space reduced to single spaces. The value is the groups of the
    match, joined by spaces, so a period can be one parameter with two dates.

    Args:
        name: Used as ``{{name}}`` in the steps; its key in :func:`recipe_of`.
        question: The question with which the model asks for it.
        patterns: Regular expressions that find the value in a sentence that names it, ignoring case. They are tried on
            everything that the user says.
        shape: A regular expression that finds the bare value, respecting case. It is tried on the reply to the
            question, and on any later message while the value is unknown. It must not match a polite refusal such as
            "Use your best judgment."
        guesses: Returns possible values, given what the model has read. The seed picks one.
        find: Looks the value up in what the model has read. Returns None if no file contains it.
        criticality: How wrong the result is without the value: 0, 0.5 or 1.
        usual: The default for a value that nobody would state, such as the name of a column.
        shown_by: The step whose result lists the candidates. The model doubts a stated value that is not among them.
        rule: Finds what a note or a policy in the files demands. A careful model doubts a request that says otherwise.
        reopened_by: Regular expressions for later messages that withdraw the value without giving another.
    """

    name: str = ""
    question: str
    patterns: tuple[str, ...]
    shape: str
    guesses: Callable[[Memory], Sequence[str]]
    find: Callable[[Memory], str | None] | None = None
    criticality: float = 1.0
    usual: str | None = None
    shown_by: str | None = None
    rule: Callable[[Memory], str | None] | None = None
    reopened_by: tuple[str, ...] = ()


class RecipeStep(msgspec.Struct, frozen=True, kw_only=True):
    """One action. It is done once the conversation contains exactly this call, after the steps that it builds on.

    Args:
        name: What it does, in words that fit "Next I …".
        tool: The tool to call.
        arguments: The tool's arguments with ``{{parameter}}`` where a value goes: quoted as a literal in Python and
            as a word in the shell, plain elsewhere.
        after: Earlier steps that make this one stale when they are repeated.
        is_extra: Careful models take this step and hasty ones skip it. It must not use a parameter if a ``find``
            reads its result.
        is_delivery: Whether the step writes what the user asked for.
        joins_previous: Whether the step can share a turn with the step before it.
    """

    name: str
    tool: str
    arguments: Mapping[str, str]
    after: tuple[str, ...] = ()
    is_extra: bool = False
    is_delivery: bool = False
    joins_previous: bool = False

    def needed(self) -> tuple[str, ...]:
        """Return the names of the values that the arguments use."""
        return tuple(dict.fromkeys(name for text in self.arguments.values() for name in _PLACEHOLDER.findall(text)))

    def filled(self, values: Values) -> dict[str, str]:
        """Return the arguments of the call, with the values filled in."""
        quote = {"python": repr, "bash": shlex.quote}.get(self.tool, str)
        return {
            key: _PLACEHOLDER.sub(lambda match: quote(values[match[1]]), text) for key, text in self.arguments.items()
        }


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of task is solved, given its parameters.

    Args:
        name: The id of the task.
        recognise: A regular expression that matches prompts of this task and no other, whatever a variant removes.
        parameters: The parameters, in the order in which a careful person would ask for them.
        steps: The steps, in working order. The first one looks around and uses no parameter.
        deliverables: The parameters that name the files to hand in.
        results: Name -> a value that a step takes from the output of earlier steps. The model never asks for it.
        answer: The final answer.
    """

    name: str
    recognise: str
    parameters: tuple[RecipeParameter, ...]
    steps: tuple[RecipeStep, ...]
    deliverables: tuple[str, ...] = ()
    results: Mapping[str, Callable[[Memory], str | None]] = {}
    answer: str = "Finished."


@cache
def desk_recipes() -> tuple[Recipe, ...]:
    """Return the recipes of all desk tasks, sorted by name."""
    names = sorted(path.parent.name for path in (Path(__file__).parent / "tasks").glob("*/recipe.py"))
    return tuple(
        import_module(f"lhaw_record.runners.environments.benchmarks.desk.tasks.{name}.recipe").RECIPE for name in names
    )


def recipe_of(
    recipe_file: str,
    *,
    recognise: str,
    deliverables: tuple[str, ...],
    results: Mapping[str, Callable[[Memory], str | None]] = {},
    **parameters: RecipeParameter,
) -> Recipe:
    """Return the recipe of the task in whose folder the file is, with the steps beside it and named parameters."""
    return Recipe(
        name=Path(recipe_file).parent.name.replace("_", "-"),
        recognise=recognise,
        parameters=tuple(msgspec.structs.replace(each, name=name) for name, each in parameters.items()),
        steps=read_steps(recipe_file),
        deliverables=deliverables,
        results=results,
    )


def read_steps(recipe_file: str) -> tuple[RecipeStep, ...]:
    """Read the ``steps.md`` next to a recipe: a heading, notes and a block of code for each step.

    The notes are ``- after: STEP``, ``- extra``, ``- delivery`` and ``- joins the step before``. The language of the
    code block names the tool. ``write_file`` is followed by the path.
    """
    text = Path(recipe_file).with_name("steps.md").read_text(encoding="utf-8")
    rest = _STEP.sub("", text)
    if "```" in rest or "## " in rest:
        raise ValueError(f"a step in the folder of {recipe_file} is malformed: {rest.split('## ', 1)[-1][:80]!r}")
    return tuple(_step(*match.groups()) for match in _STEP.finditer(text))


def _step(name: str, notes: str, tool: str, path: str | None, block: str) -> RecipeStep:
    marks = [line.removeprefix("- ") for line in notes.splitlines()]
    after = tuple(mark.removeprefix("after: ") for mark in marks if mark.startswith("after: "))
    unknown = {*marks} - {f"after: {each}" for each in after} - {"extra", "delivery", "joins the step before"}
    if unknown:
        raise ValueError(f"step {name!r} has unknown notes: {', '.join(sorted(unknown))}")
    arguments = {
        "bash": {"command": block.strip()},
        "python": {"code": block},
        "read_file": {"path": block.strip()},
        "write_file": {"path": path or "", "content": block},
    }[tool]
    return RecipeStep(
        name=name,
        tool=tool,
        arguments=arguments,
        after=after,
        is_extra="extra" in marks,
        is_delivery="delivery" in marks,
        joins_previous="joins the step before" in marks,
    )


def file_with(content: str, pattern: str, endings: str, *guesses: str) -> RecipeParameter:
    """Return a parameter for the name of a file with some content. ``endings`` is a pattern such as ``xlsx|csv``."""
    return _file(f"What should the file with {content} be called?", pattern, endings, guesses)


def file_for(text: str, pattern: str, endings: str, *guesses: str) -> RecipeParameter:
    """Return a parameter for the name of the file to save a text in. ``endings`` is a pattern such as ``txt|md``."""
    return _file(f"Under which file name should I save {text}?", pattern, endings, guesses)


def _file(question: str, pattern: str, endings: str, guesses: tuple[str, ...]) -> RecipeParameter:
    shape = rf"([\w./-]+\.(?:{endings}))\b"
    return RecipeParameter(question=question, patterns=(pattern,), shape=shape, guesses=among(*guesses))


def among(*choices: str) -> Callable[[Memory], Sequence[str]]:
    """Return a function that guesses among fixed choices, which are what people in this field usually mean."""
    return lambda memory: choices


def seen(step: str, pattern: str, *otherwise: str) -> Callable[[Memory], Sequence[str]]:
    """Return a function that guesses among the distinct matches of a pattern in a step's result, else fixed choices."""
    return lambda memory: (
        tuple(dict.fromkeys(match_value(match) for match in re.finditer(pattern, memory.get(step, "")))) or otherwise
    )


def looked_up(step: str, pattern: str) -> Callable[[Memory], str | None]:
    """Return a function that finds the first match of a pattern in a step's result."""

    def find(memory: Memory) -> str | None:
        match = re.search(pattern, memory.get(step, ""))
        return match_value(match) if match else None

    return find


def match_value(match: re.Match[str]) -> str:
    """Return the value of a match: its groups joined by a space, or all of it if it has no groups."""
    return " ".join(group for group in match.groups() if group is not None) if match.re.groups else match[0]
