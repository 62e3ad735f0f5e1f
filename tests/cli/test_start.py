"""Help, usage and what the program does not load before it needs it."""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from lhaw_record.command_line import _program, build_parser, main
from lhaw_record.recorder.resources import bundled_texts, pages
from tests.cli.experiments import write_experiment
from tests.cli.program import called

ROOT = Path(__file__).parents[2]
ALWAYS = {"anyio", "lhaw_record", "msgspec", "typing_extensions"}
ARROW = {"numpy", "pyarrow", "dateutil", "six"}
ANALYSIS = {*ARROW, "duckdb", "pytz"}
LOADED = {
    "--help": ALWAYS,
    "run": {*ALWAYS, *ARROW, "re2", "rich", "sniffio"},
    "demo": {*ALWAYS, *ANALYSIS, "re2", "rich", "scipy", "charset_normalizer", "sniffio"},
    "tables": {*ALWAYS, *ANALYSIS, "scipy", "charset_normalizer"},
    "sql": {*ALWAYS, *ANALYSIS},
    "log verify": {*ALWAYS, *ARROW},
}
"""The packages that each command may load on scripted models, besides the standard library and private modules."""
HEAVY = ("litellm", "mcp", "duckdb", "pyarrow", "openpyxl", "numpy", "rich")


def test_help_loads_no_heavy_library():
    """--help answers without importing models, protocols, databases or workbooks."""
    code = (
        "import sys\nfrom lhaw_record import command_line\n"
        "try:\n    command_line.main(['--help'])\n"
        "except SystemExit as done:\n    assert done.code == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Record what agents do" in done.stdout
    assert done.stderr.strip() == "[]"


@pytest.mark.thorough
@pytest.mark.parametrize("command", LOADED)
def test_a_command_loads_only_what_it_uses(command, reference, tmp_path):
    """Each package that a command loads is one that the list above allows it."""
    path, store = reference
    arguments = {
        "--help": [],
        "run": [write_experiment(tmp_path / "small.toml", conditions=("full", "ask_user")), "--store", tmp_path / "s"],
        "demo": ["--store", store],
        "sql": [store, "-c", "select count(*) from trials"],
    }.get(command, [store])
    code = (
        "import sys\nfrom lhaw_record import command_line\n"
        f"command_line.experiment_path = lambda _: {str(path)!r}\n"
        f"sys.argv = {['lhaw-record', *command.split(), *map(str, arguments)]!r}\n"
        "try:\n    command_line.main()\nexcept SystemExit:\n    pass\n"
        "standard = {*sys.stdlib_module_names, 'sitecustomize'}\n"  # the latter is Debian's
        "packages = {name.partition('.')[0] for name in sys.modules} - standard\n"
        "print(*sorted(name for name in packages if not name.startswith(('_', 'cython_'))), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stderr.splitlines()[-1].split()) <= LOADED[command], done.stderr


def test_help_lists_every_command_once_by_section():
    """The help starts with what a newcomer runs, names each command below one title, and puts the options last."""
    text = called("--help").stdout
    listed = re.findall(r"^  ([a-z][a-z-]+)\b", text, re.MULTILINE)
    (commands,) = [each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction)]
    assert listed == list(commands.choices)
    assert listed[:2] == ["demo", "run"]
    assert [each for each in re.findall(r"^(\w.*):$", text, re.MULTILINE) if "positional" in each] == []
    assert text.index("\nmaintenance:") < text.index("\noptions:")


@pytest.mark.thorough
def test_pandas_is_loaded_by_what_needs_it_and_by_nothing_else(reference):
    """Reading a store does without it, though pyarrow asks for it; the model of all effects together still has it."""
    code = (
        "import sys\nfrom lhaw_record import command_line\n"
        f"sys.argv = ['lhaw-record', 'tables', {str(reference[1])!r}, 'overall', '--fresh']\n"
        "assert command_line.main() == 0\n"
        "assert 'pyarrow' in sys.modules and 'pandas' not in sys.modules\n"
        f"assert command_line.main(['tables', {str(reference[1])!r}, 'effects', '--fresh']) == 0\n"
        "assert 'statsmodels' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, "log_odds_ratio" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("command", ["run", "tables", "sql", "mcp-atlas", "log tail", "log verify"])
def test_every_command_has_help_with_an_example(command):
    """Each command's help says what it does and ends with one example that names the command."""
    done = called(*command.split(), "--help")
    assert done.returncode == 0
    assert f"example: lhaw-record {command}" in done.stdout


@pytest.mark.parametrize("arguments", [["fly"], ["run"], ["tables"], ["run", "x.toml", "--format", "yaml"]])
def test_wrong_usage_exits_2(arguments):
    """Usage errors exit 2, say what is wrong on standard error, and print no data."""
    done = called(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: lhaw-record" in done.stderr


def test_under_uvx_the_next_commands_are_those_of_uvx(tmp_path, monkeypatch):
    """Only the process that uvx started has its environment on the PATH, so the reader's shell has no lhaw-record."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "archive-v0" / "x"))
    monkeypatch.setenv("UV", "/usr/bin/uv")
    for origin, words in ((None, []), ('{"url": "file:///a.whl"}', ["--from", "file:///a.whl"])):
        found = Mock(**{"read_text.return_value": origin})
        monkeypatch.setattr("importlib.metadata.distribution", lambda _, found=found: found)
        assert _program() == ["uvx", *words, "lhaw-record"]
    monkeypatch.delenv("UV")
    assert _program()[0] != "uvx"


def test_help_prints_commands_and_pages(capsys):
    """A command's help, a page as messages name it, and for a bare call everything."""
    assert main(["help", "docs/recovery.md"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/recovery.md").read_text()
    with pytest.raises(SystemExit):
        main(["help", "log", "verify"])
    assert "usage: lhaw-record log verify" in capsys.readouterr().out
    assert main([]) == 0
    assert "pages: ab, asking, " in capsys.readouterr().out
    assert main(["help", "data/user/responses.toml"]) == 0
    assert capsys.readouterr().out == (ROOT / "data/user/responses.toml").read_text()
    assert main(["help", "recover"]) == 2
    assert "did you mean 'recovery'?" in capsys.readouterr().err


def test_every_page_that_a_message_names_exists():
    """As `lhaw-record help` finds it, in a wheel too."""
    sources = [
        path for layer in ("recorder", "runners", "analytics", "generators") for path in (ROOT / layer).rglob("*.py")
    ]
    named = {name for path in sources for name in re.findall(r"docs/([\w/-]+)\.md", path.read_text(encoding="utf-8"))}
    assert named <= pages().keys()


def test_every_file_that_a_page_names_can_be_printed():
    """Who has the wheel has no folder ``data`` or ``experiments``."""
    named = {
        name
        for path in pages().values()
        for name in re.findall(r"(?:`data|experiments)/(?!new_)[\w/-]+\.(?:md|toml)", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert {name.strip("`") for name in named} <= bundled_texts().keys()


def test_a_word_that_means_something_else_says_what_there_is(capsys):
    """Nothing is deleted from a store."""
    with pytest.raises(SystemExit):
        main(["delete", "store"])
    assert "'discard' takes trials out of every number" in capsys.readouterr().err
