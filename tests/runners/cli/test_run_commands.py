"""The command that a stopped run prints to go on with."""

import shlex
from unittest.mock import ANY

import pytest

from lhaw_record.analytics.comparison.looks import GroupSequentialRule
from lhaw_record.command_line import build_parser
from lhaw_record.runners.cli.run_commands import _again, run_commands

GIVEN = {
    "--store": ["--store", "stores/x y"],
    "--concurrency": ["--concurrency", "3"],
    "--executor": ["--executor", "ray"],
    "--workers": ["--executor", "ray", "--workers", "2"],
    "--wire": ["--wire", "full"],
    "--retry-refused": ["--retry-refused"],
    "--no-preflight": ["--no-preflight"],
    "--format": ["--format", "json"],
}
EVERY = [word for name, words in GIVEN.items() if name != "--executor" for word in words]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("words", [[], *GIVEN.values(), EVERY])
def test_going_on_means_every_option_that_was_given(words):
    """The printed command is read as the one that was typed."""
    given = ["run", "e.toml", *words]
    options = build_parser().parse_args(given)
    program, *again = shlex.split(_again(options, str(options.store)))
    if options.store is None:
        again = [word for word in again if word not in ("--store", "None")]
    assert program == "lhaw-record"
    assert vars(build_parser().parse_args(again)) == {**vars(options), "function": ANY}


def test_no_option_of_run_is_forgotten():
    """A new option is either repeated or ends before anything runs."""
    (run,) = (command for command in run_commands(GroupSequentialRule(), lambda *_: "") if command.name == "run")
    names = {name for argument in run.arguments for name in argument.names if name.startswith("--")}
    assert names == {*GIVEN, "--dry-run"}
