"""Declares commands, and translates library and system errors into errors that name the store and the next step.

Each layer lists its commands, and ``lhaw_record/command_line.py`` builds one argparse program from them.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import msgspec

from lhaw_record.recorder.errors import DamagedStore, StoreError, refusal
from lhaw_record.recorder.sharing.address import store_name
from lhaw_record.recorder.wording import did_you_mean

PROGRAM = "lhaw-record"


_BY_OPTION = "here a store is named by --store"
_ONE_PATH = "to import several files together, put them into one folder and name that"


class Parser(argparse.ArgumentParser):
    """A parser whose errors suggest the closest known command, option or choice.

    Attributes:
        hints: The hints for words that people try but that name no command.
    """

    hints: Mapping[str, str] = MappingProxyType({})

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message with a suggestion, and exit with code 2."""
        if found := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message, re.DOTALL):
            choices = [each.strip("' ") for each in found[2].split(",")]
            hint = self.hints.get(found[1]) or did_you_mean(found[1], choices)
            message = message.replace(f" (choose from {found[2]})", hint) if hint else message
        elif "required:" in message or ("unrecognized" in message and ";" not in message):
            message = f"{message}; " + (self.epilog or f"'{self.prog} --help' lists them").partition(". ")[0]
        super().error(message)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse arguments; an unknown one is an error that suggests the closest option or shows an example."""
        found, extras = super().parse_known_args(args, namespace)
        known = [name for action in self._actions for name in action.option_strings]
        places = [action.dest for action in self._actions if not action.option_strings]
        for each in extras:
            if each.partition("=")[0] == "--store" and "store" in places:
                self.error(f"unrecognized arguments: {each}; here the store is named without it: {self.prog} STORE")
            if "--store" in known and not any(extra.startswith("-") for extra in extras):
                self.error(f"unrecognized arguments: {each}; {_ONE_PATH if 'path' in places else _BY_OPTION}")
            if each.startswith("--") and (hint := did_you_mean(each.partition("=")[0], known)):
                self.error(f"unrecognized arguments: {each}{hint}")
        if extras:
            self.error(f"unrecognized arguments: {' '.join(extras)}")
        return found, extras


class Argument(msgspec.Struct, frozen=True):
    """One argument: its names, the keyword arguments for ``add_argument``, and its shell completer."""

    names: tuple[str, ...]
    keywords: dict[str, Any]
    completer: Callable[..., Iterable[str]] | None = None

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        action = parser.add_argument(*self.names, **self.keywords)
        if self.completer is not None:
            action.completer = self.completer  # type: ignore[attr-defined]  # argcomplete looks for it


class ArgumentGroup(msgspec.Struct, frozen=True):
    """Arguments that the help text lists under a separate title."""

    title: str
    arguments: tuple[Argument, ...]

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        group = parser.add_argument_group(self.title)
        for each in self.arguments:
            each.add_to(group)


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command.

    Attributes:
        description: The text at the top of the command's own help. If None, ``help`` is shown as a sentence.
        example: An example command line without the program's name.
        function: Runs the command and returns the exit code.
    """

    name: str
    help: str
    description: str | None = None
    example: str
    arguments: tuple[Argument | ArgumentGroup, ...] = ()
    function: Callable[[argparse.Namespace], int]

    def add_to(self, commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
        parser = commands.add_parser(
            self.name,
            help=self.help,
            description=f"{self.help[0].upper()}{self.help[1:]}." if self.description is None else self.description,
            epilog=f"example: {PROGRAM} {self.example}",
        )
        for each in self.arguments:
            each.add_to(parser)
        parser.set_defaults(function=self.function)


class CommandGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Commands that share their first word.

    Attributes:
        example: An example command line without the program's name.
        metavar: What the help text calls the second word.
    """

    name: str
    help: str
    description: str
    example: str | None = None
    metavar: str = "VERB"
    commands: tuple[Command, ...]

    def add_to(self, commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
        epilog = None if self.example is None else f"example: {PROGRAM} {self.example}"
        parser = commands.add_parser(self.name, help=self.help, description=self.description, epilog=epilog)
        add_commands(parser, self.commands, self.metavar)


class Section(msgspec.Struct, frozen=True):
    """Commands that the program's help lists under one title, in this order."""

    title: str
    commands: tuple[Command | CommandGroup, ...]


def add_sections(parser: argparse.ArgumentParser, sections: Iterable[Section]) -> None:
    """Add commands to a program whose help lists them by section, before the options."""
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    parser._positionals._group_actions.remove(subparsers)  # the flat list
    for section in sections:
        listed = len(subparsers._choices_actions)
        for each in section.commands:
            each.add_to(subparsers)
        parser.add_argument_group(section.title)._group_actions += subparsers._choices_actions[listed:]
    parser._action_groups.remove(parser._optionals)
    parser._action_groups.append(parser._optionals)


def add_commands(parser: argparse.ArgumentParser, commands: Iterable[Command | CommandGroup], metavar: str) -> None:
    """Add commands to a parser, one of which is required."""
    subparsers = parser.add_subparsers(required=True, metavar=metavar)
    for each in commands:
        each.add_to(subparsers)


def argument(*names: str, completer: Callable[..., Iterable[str]] | None = None, **keywords: Any) -> Argument:
    """Declare an argument with keyword arguments for ``argparse.ArgumentParser.add_argument``."""
    if keywords.get("nargs") == "*":
        keywords.setdefault("default", [])  # else argparse calls it required
    return Argument(names, keywords, completer)


def flag(name: str, help_text: str) -> Argument:
    """Declare an option without a value."""
    return argument(name, action="store_true", help=help_text)


def repeatable(name: str, metavar: str, help_text: str, **keywords: Any) -> Argument:
    """Declare an option that may be repeated and whose value is a list."""
    return argument(name, action="append", default=[], metavar=metavar, help=help_text, **keywords)


@contextmanager
def clear_errors(doing: str, root: Path) -> Iterator[None]:
    """Translate library and system errors raised in a ``with`` block into recorder errors."""
    import pyarrow as pa

    if root.is_file():
        raise StoreError(f"{root} is a file, not a store; name the store's directory")
    try:
        yield
    except BrokenPipeError:
        raise
    except pa.ArrowException as error:
        advice = "'lhaw-record log verify' names the file"
        raise DamagedStore(f"cannot {doing} {store_name(root)} ({error}); {advice}") from error
    except OSError as error:
        raise StoreError(f"cannot {doing} {store_name(root)}: {refusal(error)}. No recorded data is lost") from error
