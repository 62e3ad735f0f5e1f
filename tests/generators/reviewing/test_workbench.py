"""``variants review`` on a real terminal: single keys, the editor, stopping and going on."""

import os
import pty
import re
import select
import sys
import time
from pathlib import Path

import pytest

from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.command_line import main
from lhaw_record.generators.cli.review_command import comparison, panels
from lhaw_record.generators.reviewing.reviews import reviewable
from lhaw_record.recorder.reading.reader import read_snapshot
from tests.cli.program import called
from tests.generators.reviewing.test_reviews import review
from tests.generators.selection.stores import classified, to_disk

pytestmark = pytest.mark.thorough
PATIENCE_S = 180


class Terminal:
    """The program on a terminal of 140 by 40 characters."""

    def __init__(self, arguments, environment):
        self._child, self._file = pty.fork()
        if self._child == 0:
            os.environ.update(environment, COLUMNS="140", LINES="40", TERM="xterm")
            os.execv(sys.executable, [sys.executable, "-m", "lhaw_record", *map(str, arguments)])
        self._unread = ""

    def press(self, keys, until):
        """Type keys, then wait until a text has appeared after them."""
        os.write(self._file, keys.encode())
        return self.wait(until)

    def wait(self, until):
        """Wait for a text; return what the terminal showed since the last call, up to the end of that text."""
        began_s = time.monotonic()
        while until not in self._unread:
            assert time.monotonic() - began_s < PATIENCE_S, f"no {until!r} in {self._unread!r}"
            if select.select([self._file], [], [], 1.0)[0]:
                try:
                    shown = os.read(self._file, 65536).decode(errors="replace")
                except OSError as error:  # the program has ended
                    raise AssertionError(f"no {until!r} in {self._unread!r}") from error
                self._unread = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._unread + shown)
        before, found, self._unread = self._unread.partition(until)
        return before + found

    def end(self):
        """Wait for the program and return its exit code."""
        return os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])


@pytest.fixture
def store(tmp_path):
    """A store with three variants of three tasks and their trials."""
    return to_disk(tmp_path / "store", classified(**{f"{task}1": "benign delete goal" for task in "abc"}))


def decisions(store):
    """What was decided, in order of the variants."""
    connection = open_store(store, only={"variant_reviews"})
    try:
        query = "select decision, review_reason, note, edited_digest is not null, shown_s >= 0 from variant_reviews"
        return connection.execute(f"{query} order by recorded_at_us").fetchall()
    finally:
        connection.close()


def test_a_sitting(store, tmp_path):
    """Accept; stop with Ctrl-C; go on: reject after a note, edit. Each decision is there at once."""
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'Please do it well.\\n' > \"$1\"\n", encoding="utf-8")
    editor.chmod(0o755)
    arguments = ["variants", "review", store, "--reviewer", "anna"]
    terminal = Terminal(arguments, {"EDITOR": str(editor), "VISUAL": ""})
    assert "3 of 3 trials succeed" in terminal.wait("q quit")
    terminal.press("a", "2 of 3")
    terminal.wait("q quit")
    assert "1 decided, 2 left for anna" in terminal.press("\x03", "left for anna")
    assert terminal.end() == 0
    assert decisions(store) == [("accepted", None, None, False, True)]
    terminal = Terminal(arguments, {"EDITOR": str(editor), "VISUAL": ""})
    terminal.wait("1 of 2")
    terminal.wait("q quit")
    terminal.press("n", "note: ")
    terminal.press("odd\n", "q quit")
    terminal.press("r", "any other key: back")
    terminal.press("x", "q quit")  # taken back
    terminal.press("r", "any other key: back")
    terminal.press("1", "2 of 2")
    terminal.wait("q quit")
    assert "Please do it well." in terminal.press("e", "y keep this prompt")
    terminal.press("y", "any other key: back")
    assert "2 decided, 0 left for anna" in terminal.press("3", "left for anna")
    assert terminal.end() == 0
    assert decisions(store)[1:] == [
        ("rejected", "unnatural", "odd", False, True),
        ("edited", "collateral", None, True, True),
    ]
    again = Terminal(arguments, {})
    assert "none that anna has not decided about" in again.wait("decided about")
    assert again.end() == 0
    assert called("log", "verify", store).returncode == 0


def test_what_goes_wrong_at_the_terminal_ends_no_sitting(store):
    """No note after Ctrl-D or Ctrl-C; an editor that fails discards; keys typed ahead are kept."""
    terminal = Terminal(["variants", "review", store, "--reviewer", "anna"], {"EDITOR": "false", "VISUAL": ""})
    terminal.wait("q quit")
    for key in "\x04", "\x03\n":
        terminal.press("n", "note: ")
        terminal.press(key, "q quit")
    assert "nothing was changed" in terminal.press("e", "q quit")
    assert "2 decided, 1 left" in terminal.press("aaq", "left for anna")
    assert terminal.end() == 0
    assert [row[0] for row in decisions(store)] == ["accepted", "accepted"]


def test_nothing_of_that_name(store):
    """A benchmark that no variant has is an error that names those that have some."""
    terminal = Terminal(["variants", "review", store, "--reviewer", "anna", "--benchmark", "none"], {})
    assert "benchmarks with variants: desk" in terminal.wait("experiments: e")
    assert terminal.end() == 1


def test_every_variant_of_a_removal_is_shown(store, capsys):
    """An edit stands beside the variant that it was made of."""
    review(store, "anna", {"a1": "edited collateral"})
    assert main(["variants", "show", str(store), "a"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("[delete] a1") == 2
    assert "a: 2 variants" in printed


def test_without_a_terminal_it_says_so(store, capsys):
    """No traceback, and nothing is recorded."""
    assert main(["variants", "review", str(store), "--reviewer", "anna"]) == 1
    assert "run it on a terminal" in capsys.readouterr().err
    assert decisions(store) == []


def test_a_store_that_is_not_there_is_not_created(tmp_path):
    """A mistyped name is an error that names it."""
    terminal = Terminal(["variants", "review", tmp_path / "none", "--reviewer", "anna"], {})
    terminal.wait(str(tmp_path / "none"))
    assert terminal.end() != 0
    assert not Path(tmp_path / "none").exists()


@pytest.mark.parametrize("width", [60, 140])
def test_what_a_reviewer_sees(store, width):
    """Both prompts in full, what was removed, the questions; narrow terminals get one column."""
    from rich.console import Console

    item = reviewable(read_snapshot(store))[0]
    console = Console(width=width)
    with console.capture() as captured:
        console.print(*panels(item, [], width), sep="\n")
    text = captured.get()
    assert f"removed goal/{item.variant.segments[0].subdimension}" in text
    assert ("full prompt" in text) == (width == 140)
    assert item.variant.prompt in " ".join(text.split())
    with console.capture() as captured:
        console.print(*comparison("Say a, then b.", "Say b.", width))
    assert "a, then" in captured.get()
