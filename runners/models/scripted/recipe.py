"""What a scripted model knows about one kind of task: the parameters it needs, and the steps that solve it.

A recipe holds skill, never answers: each value comes from the conversation, from the workspace, or is a guess.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

Values = Mapping[str, str]
"""Parameter name -> the value that the model works with."""
Memory = Mapping[str, str]
"""Step name -> what its call gave back. Functions of a recipe must accept any text there, also an error."""

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a task must say.

    Regular expressions are searched in text whose white space is single spaces; the value is the groups of the match
    joined by a space, so a period can be one parameter with two dates.

    Args:
        name: Used as ``{{name}}`` in the steps.
        question: How the model asks for it, in natural words.
        patterns: Where the value stands in a sentence that names it, letter case aside; tried on everything that the
            user says.
        shape: What a bare value looks like, letter case regarded; tried on a reply to the question, and on any later
            message while the value is unknown. It must not match a polite refusal such as "Use your best judgment."
        guesses: What it could be, given what was read; the seed picks one.
        find: Looks for it in what was read; None where no file can tell.
        criticality: How wrong the result is without it: 0, 0.5 or 1.
        usual: What it is where nobody says it, because nobody would: the name of a column, for example.
        shown_by: The step whose result shows what there is to choose from; a value that is not among it is doubted.
    """

    name: str
    question: str
    patterns: tuple[str, ...]
    shape: str
    guesses: Callable[[Memory], Sequence[str]]
    find: Callable[[Memory], str | None] | None = None
    criticality: float = 1.0
    usual: str | None = None
    shown_by: str | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One action. It is done when exactly this call stands in the conversation, later than the steps it builds on.

    Args:
        name: What it does, in words that fit "Next I …".
        tool: The tool to call.
        arguments: The tool's arguments with ``{{parameter}}`` where a value goes: quoted as a literal in Python and
            as a word in the shell, plain elsewhere. Or a function of values and memory that returns the arguments.
        uses: The parameters a function uses; those of a template are found by themselves.
        after: Earlier steps whose repetition makes this one stale.
        is_extra: Careful people do it, hasty ones skip it. It may use no parameter if a ``find`` reads its result.
        is_delivery: It writes what the user asked for.
        joins_previous: It can share a turn with the step before it.
    """

    name: str
    tool: str
    arguments: Mapping[str, str] | Callable[[Values, Memory], Mapping[str, str]]
    uses: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    is_extra: bool = False
    is_delivery: bool = False
    joins_previous: bool = False

    def needed(self) -> tuple[str, ...]:
        """Return the names of the parameters that its arguments depend on."""
        if callable(self.arguments):
            return self.uses
        found = [name for text in self.arguments.values() for name in _PLACEHOLDER.findall(text)]
        return tuple(dict.fromkeys((*self.uses, *found)))

    def filled(self, values: Values, memory: Memory) -> dict[str, str]:
        """Return the arguments of the call."""
        if callable(self.arguments):
            return dict(self.arguments(values, memory))
        quote = {"python": repr, "bash": shlex.quote}.get(self.tool, str)
        return {
            key: _PLACEHOLDER.sub(lambda match: quote(values[match[1]]), text) for key, text in self.arguments.items()
        }


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of task is solved, given its parameters.

    Args:
        name: A word for it.
        recognise: A regular expression that only prompts of this kind contain, however much was removed from them.
        parameters: In the order in which a careful person would ask.
        steps: In the order of the work; the first looks around and uses no parameter.
        deliverables: The parameters that name the files to hand in.
        answer: The final answer; everything of importance lies in the files otherwise.
    """

    name: str
    recognise: str
    parameters: tuple[Parameter, ...]
    steps: tuple[Step, ...]
    deliverables: tuple[str, ...] = ()
    answer: Callable[[Values, Memory], str] = lambda values, memory: "Finished."


def bash(name: str, command: str, **more: Any) -> Step:
    """Return a step that runs a shell command."""
    return Step(name=name, tool="bash", arguments={"command": command}, **more)


def python(name: str, code: str, **more: Any) -> Step:
    """Return a step that runs Python code; the interpreter keeps its names from step to step."""
    return Step(name=name, tool="python", arguments={"code": code.strip() + "\n"}, **more)


def read_file(name: str, path: str, **more: Any) -> Step:
    """Return a step that reads a file."""
    return Step(name=name, tool="read_file", arguments={"path": path}, **more)


def among(*choices: str) -> Callable[[Memory], Sequence[str]]:
    """Return a guess among fixed choices: what people in this trade usually mean."""
    return lambda memory: choices


def seen(step: str, pattern: str, *otherwise: str) -> Callable[[Memory], Sequence[str]]:
    """Return a guess among the different matches of a pattern in a step's result, else among fixed choices."""
    return lambda memory: (
        tuple(dict.fromkeys(match_value(match) for match in re.finditer(pattern, memory.get(step, "")))) or otherwise
    )


def looked_up(step: str, pattern: str) -> Callable[[Memory], str | None]:
    """Return a finder: the first match of a pattern in a step's result."""

    def find(memory: Memory) -> str | None:
        match = re.search(pattern, memory.get(step, ""))
        return match_value(match) if match else None

    return find


def match_value(match: re.Match[str]) -> str:
    """Return the value of a match: its groups joined by a space, or all of it where it has none."""
    return " ".join(group for group in match.groups() if group is not None) if match.re.groups else match[0]
