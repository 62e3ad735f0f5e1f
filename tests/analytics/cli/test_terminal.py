"""On a terminal every line fits, the main tables come first and names are answered; pipes get whole cells."""

import csv
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from functools import partial
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.analytics.cli.table_output import run_queries
from lhaw_record.analytics.tables.catalogue import GROUPS
from lhaw_record.analytics.tables.render import to_terminal, to_text
from lhaw_record.analytics.tables.tables import TABLES, table
from lhaw_record.command_line import build_parser, main
from lhaw_record.recorder.cli.output import FORMATS
from lhaw_record.recorder.cli.terminal import fitting_widths, painted, shortened
from lhaw_record.runners.base.conversation.messages import ToolCall
from lhaw_record.runners.cli.attempt_text import _Style
from tests.analytics.make_store import write_events
from tests.analytics.views.test_views import busy_store
from tests.cli.program import called
from tests.support.once import made_once

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store with the busy store's events."""
    return made_once(
        tmp_path_factory, "busy-store", lambda folder: anyio.run(write_events, folder, busy_store().envelopes)
    )


def plain(text, _style=""):
    """A text without a style."""
    return text


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", TABLES)
def test_every_table_fits_and_loses_no_number(connection, name):
    """At 80 columns no line is longer, and every number of the wide text stands in the narrow one, too."""
    one = table(connection, name)
    narrow = to_terminal(one, 80, plain)
    assert max(map(len, narrow.splitlines())) <= 80
    if "value" in one.columns:
        numbers = partial(re.findall, r"\d+\.\d+")
        assert set(numbers(to_text(one).partition("\n\n  ")[0])) <= set(numbers(narrow))


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.integers(40, 200))
def test_columns_fit(widths, width):
    """What is shown fits, nothing grows, and no column that would fit is left out."""
    shown, hidden = fitting_widths(widths, width)
    assert sum(shown) + 2 * (len(shown) - 1) <= width
    assert len(shown) + hidden == len(widths)
    assert all(0 < one <= other for one, other in zip(shown, widths, strict=False))
    if sum(widths) + 2 * (len(widths) - 1) <= width:
        assert shown == widths


def test_styles_are_for_terminals_that_take_them(monkeypatch, capsys):
    """A pipe, NO_COLOR and a dumb terminal get plain text; a text is cut with a mark."""
    assert painted("x", "1", sys.stdout) == "x"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert painted("x", "1", sys.stdout) == "\x1b[1mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted("x", "1", sys.stdout) == "x"
    assert shortened("abcdef", 4) == "abc…"


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_obeys_no_text_of_an_agent(stored):
    """Clipboard, cursor and line start are shown as escapes, in every format and in ``show``; a pipe gets them."""
    hostile = "\x1b]52;c;ZXZpbA==\x07 \x9b2J safe\rgone\x7f\ttab\nline"
    control = re.compile(r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[\d;]*m)")
    query = f"select '{hostile}' as x"
    for form in FORMATS:
        shown, piped = _Terminal(), io.StringIO()
        run_queries(stored, query, form, shown)
        run_queries(stored, query, form, piped)
        assert not control.search(shown.getvalue()), form
        if form != "json":
            assert "\\x1b]52;c;ZXZpbA==\\x07 \\x9b2J" in shown.getvalue()
            assert "\x1b]52;c;ZXZpbA==\x07 \x9b2J" in piped.getvalue()
    failed = _Style(_Terminal(), ("gone",))(hostile)
    assert not control.search(failed)
    assert failed.endswith("\ttab\nline")
    assert _Style(io.StringIO(), ())(hostile) == hostile


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tabels", "s"], "argument COMMAND: invalid choice: 'tabels'; did you mean 'tables'?"),
        (["tables", "s", "--agnet", "a"], "unrecognized arguments: --agnet; did you mean '--agent'?"),
        (["log", "verfy", "s"], "did you mean 'verify'?"),
    ],
)
def test_a_wrong_word_is_answered(words, said, capsys):
    """Commands, verbs and options that are not there name the nearest one that is."""
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.rstrip().endswith(said)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_its_lines(shell, capsys):
    """The lines name the program; what asks for words is argcomplete."""
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert "lhaw-record" in text
    assert "_ARGCOMPLETE" in text


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("lhaw-record pap", "paper"),
        ("lhaw-record tables s over_", "over_asking"),
        ("lhaw-record tables s --agen", "--agent"),
        ("lhaw-record tables STORE --condition ask", "ask_user ask_user_late"),
        ("lhaw-record trials STORE --task ", "t u"),
        ("lhaw-record trials nowhere --task ", ""),
    ],
)
def test_the_tab_key_completes(stored, tmp_path, line, completed):
    """Asked as a shell asks, the program answers with what begins like the word, also with the names in a store."""
    line = line.replace("STORE", str(stored))
    answers = tmp_path / "answers"
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(answers), "_ARGCOMPLETE_SHELL": "bash"}
    asked |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9", "IFS": "\v"}
    command = [sys.executable, "-m", "lhaw_record"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **asked}, capture_output=True, check=True)
    assert answers.read_text().split() == completed.split()


def on_a_terminal(columns, *arguments):
    """The output of the program on a terminal of so many columns, without styles."""
    outer, inner = pty.openpty()
    ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "lhaw_record", *map(str, arguments)],
        cwd=ROOT,
        stdin=inner,
        stdout=inner,
        stderr=subprocess.DEVNULL,
        env=environment,
        close_fds=True,
    ) as process:
        os.close(inner)
        parts = []
        while True:
            try:
                parts.append(os.read(outer, 65536))
            except OSError:
                break
    os.close(outer)
    assert process.returncode in (0, 1)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", b"".join(parts).decode()).replace("\r", "")


@pytest.mark.thorough
def test_a_terminal_gets_the_main_tables_and_the_names_of_the_others(stored):
    """Without names: overall, by_class, voi, then all others in their groups, in 80 columns."""
    text = on_a_terminal(80, "tables", stored)
    assert re.findall(r"^(\w+): ", text, re.MULTILINE)[:1] == ["overall"]
    others = text.partition("Other tables")[2]
    assert set(others.split()) >= {name for names in GROUPS.values() for name in names} - {"overall", "by_class", "voi"}
    assert max(map(len, text.splitlines())) <= 80
    assert called("tables", stored).stdout.partition("Other tables")[2].split() == others.split()
    assert max(map(len, on_a_terminal(80, "findings", stored).splitlines())) <= 80


@pytest.mark.thorough
def test_a_query_shows_what_fits(stored):
    """Rows are capped and lines fit."""
    lines = on_a_terminal(80, "sql", stored, "-c", "select * from events").splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 200


@pytest.mark.thorough
def test_trials_are_listed_by_what_they_are(stored, capsys):
    """Each filter keeps its trials; an unknown value is answered; the ids are those of show."""
    assert main(["trials", str(stored), "--format", "csv", "--agent", "a", "--condition", "ask_user"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows
    assert {(row["agent"], row["condition"]) for row in rows} == {("a", "ask_user")}
    assert main(["show", str(stored), rows[0]["stream_id"]]) in (0, 1)
    capsys.readouterr()
    assert main(["trials", str(stored), "--format", "csv", "--outcome", "success", "--limit", "2"]) == 0
    assert [row["is_success"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))] == ["True", "True"]
    assert main(["trials", str(stored), "--condition", "ask_usr"]) == 1
    assert "no trial has the condition 'ask_usr'; did you mean 'ask_user'?" in capsys.readouterr().err
    assert main(["trials", str(stored), "--state", "running"]) == 1
    assert capsys.readouterr() == ("", "no trial matches these options\n")
    assert max(map(len, on_a_terminal(80, "trials", stored).splitlines())) <= 80


def test_what_was_removed_is_marked(monkeypatch):
    """On a terminal the removed values stand out wherever they stand; a pipe gets the same text without colours."""
    from lhaw_record.runners.cli.attempt_text import _Style

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    line = "use data from Q3 (a+b) only"
    marked = _Style(Terminal(), ("Q3 (a+b)", ""))(line)
    assert marked == "use data from \x1b[30;43mQ3 (a+b)\x1b[0m only"
    assert _Style(io.StringIO(), ("Q3 (a+b)",))(line) == line
    assert _Style(Terminal(), ())("\n--- user") == "\n\x1b[1;36m--- user\x1b[0m"
    assert _Style(Terminal(), ())("checkpoint c: 2 of 2 (x)").startswith("\x1b[32m")
    assert _Style(Terminal(), ())("checkpoint c: 1 of 2 (x)").startswith("\x1b[31m")


@pytest.mark.thorough
def test_a_call_shows_code_as_code(monkeypatch):
    """On a terminal code stands as it was written, in colours, and obeys nothing; a pipe gets the recorded JSON."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    code = "for x in rows:\n    print(x, 'Q3')  # \x1b]52;c;ZXZpbA==\x07 [red]"
    call = ToolCall(call_id="c1", name="python", arguments_json=json.dumps({"code": code, "limit": 3}))
    shown = _Style(_Terminal(), ("Q3",)).call(call)
    assert re.sub(r"\x1b\[[\d;]*m", "", shown).splitlines() == [
        "c1: python",
        "  code:",
        "    for x in rows:",
        r"        print(x, 'Q3')  # \x1b]52;c;ZXZpbA==\x07 [red]",
        "  limit: 3",
    ]
    assert re.search(r"\x1b\[30;43(;\d+)*mQ3", shown)
    assert re.search(r"\x1b\[[\d;]+mfor\x1b", shown)
    assert _Style(io.StringIO(), ("Q3",)).call(call) == f"c1: python {call.arguments_json}"
    broken = ToolCall(call_id="c2", name="python", arguments_json="{")
    assert _Style(_Terminal(), ()).call(broken) == "c2: python {"
