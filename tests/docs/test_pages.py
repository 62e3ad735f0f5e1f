"""The documents agree with the program and with each other."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from lhaw_record.command_line import build_parser
from lhaw_record.runners.experiment import program
from lhaw_record.runners.experiment import tables as experiment
from lhaw_record.runners.experiment.decoding import load_experiment
from lhaw_record.runners.experiment.values import Price
from tests.docs.cli_reference import commands, page

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks(name, kind):
    """The fenced blocks of one kind in a page."""
    found = FENCE.findall((ROOT / name).read_text(encoding="utf-8"))
    return [body for language, body in found if language == kind]


def test_the_sites_page_of_commands_is_the_help():
    """It has the help of each command below its name, so that an option is described in one place."""
    text = page()
    for name, command in commands(build_parser()):
        assert f"\n## {name}\n" in text
        assert all(option in text for action in command._actions for option in action.option_strings)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    """Every relative link names a file or a folder that is there."""
    targets = re.findall(r"\]\(([^)#\s]+)", FENCE.sub("", path.read_text(encoding="utf-8")))
    assert [each for each in targets if "://" not in each and not (path.parent / each).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "docs/experiments.md"])
def test_examples_of_experiments_decode(name, tmp_path):
    """Every experiment file in the documents is accepted by the program."""
    blocks = _blocks(name, "toml")
    assert blocks
    for block in blocks:
        path = tmp_path / "example.toml"
        path.write_text(block, encoding="utf-8")
        assert load_experiment(path).name == tomllib.loads(block)["name"]


@pytest.mark.parametrize("name", ["README.md", "docs/recovery.md"])
def test_commands_parse(name):
    """Every command line in the documents is one that the program takes, and every make target is there."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lines = [line.split("#")[0].split() for block in _blocks(name, "") for line in block.splitlines()]
    for words in filter(None, lines):
        if words[0] == "lhaw-record" and "--version" not in words:
            build_parser().parse_args(words[1:])
        if words[0] == "make":
            assert f"\n{words[1]}:" in makefile


def test_every_key_of_an_experiment_file_is_described():
    """docs/experiments.md names each key that the program reads."""
    text = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert {name for name in _keys(experiment, Price) - {"options"} if name not in text} == set()


def test_every_key_and_placeholder_of_an_entry_is_described():
    """docs/external-agents.md names each key that an entry may have, and what may stand in its templates."""
    text = (ROOT / "docs" / "external-agents.md").read_text(encoding="utf-8")
    assert {name for name in _keys(program) - {*program.FOUND} if name not in text} == set()
    assert {name for name in program.PLACEHOLDERS if f"{{{name}}}" not in text} == set()


def _keys(module, *more):
    """The keys of every table that a module declares."""
    tables = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    found = [
        each for each in (*tables, *more) if issubclass(each, msgspec.Struct) and each is not program.FilledProgram
    ]
    return {field.name for table in found for field in msgspec.structs.fields(table)}


def test_the_bundled_experiments_decode(monkeypatch):
    """Every file in experiments/ is accepted, and is named as its experiment."""
    monkeypatch.setenv("LHAW_RECORD_MCP_ATLAS", "somewhere")
    for path in sorted((ROOT / "experiments").glob("*.toml")):
        assert load_experiment(path).name == path.stem


def test_the_site_shows_every_page_once():
    """mkdocs.yml lists each page of docs/, and beside them only those of the root and of the help."""
    named = re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    ours = [path.relative_to(ROOT / "docs").as_posix() for path in PAGES if path.is_relative_to(ROOT / "docs")]
    root = ["architecture.md", "changelog.md", "cli.md", "contributing.md", "index.md", "security.md"]
    assert sorted(named) == sorted([*ours, *root])


def test_every_platform_was_tried_at_a_date_or_is_called_untried():
    """No cell of the table leaves open whether somebody has looked."""
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Platforms")[2].split("\n\n")[1]
    rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in table.splitlines()[2:]]
    assert len(rows) >= 5
    assert all(re.search(r"untried|\b\d{1,2} [A-Z][a-z]+ 20\d\d\b", cell) for row in rows for cell in row)
