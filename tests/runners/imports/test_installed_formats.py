"""Formats that installed packages add, and names that tables keep for themselves."""

import pytest

from lhaw_record.command_line import main
from lhaw_record.runners.imports import ImportFailed
from tests.runners.imports.files import imported, query, write
from tests.runners.imports.formats.test_atif import PLAIN

PARSER = """
from lhaw_record.runners.imports.bare_trajectory import BareTrajectory, parsed_trajectory
from lhaw_record.runners.imports.trajectory import turns_of


def parse(source, options, known):
    prompt, answer = source.content.decode().splitlines()
    chat = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
    turns = turns_of(chat)
    found = BareTrajectory(prompt=prompt, agent="mine", model="m", turns=turns, final_answer=answer)
    return parsed_trajectory(source.label, found, options, known, format_name="two-lines")


parse.patterns = ("*.two",)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with one format that works and one that does not."""
    folder = tmp_path / "site"
    write(folder / "two_lines.py", PARSER)
    write(folder / "two_lines-1.dist-info" / "METADATA", "Metadata-Version: 2.1\nName: two-lines\nVersion: 1\n")
    points = "[lhaw_record.formats]\ntwo-lines = two_lines:parse\nlost = two_lines:nothing\n"
    write(folder / "two_lines-1.dist-info" / "entry_points.txt", points)
    monkeypatch.syspath_prepend(str(folder))


def test_an_installed_format_is_imported(package, tmp_path, capsys):
    """Its trials are counted like others; what it cannot read is named with the file and the package."""
    write(tmp_path / "runs" / "a.two", "count to 2\n1 2\n")
    store = str(tmp_path / "s")
    assert main(["import", "installed", "two-lines", str(tmp_path / "runs"), "--store", store, "--reward", "1"]) == 0
    assert query(tmp_path / "s", "select agent_name, benchmark, is_success from trials") == [
        ("mine", "two-lines", True)
    ]
    write(tmp_path / "runs" / "b.two", "only one")
    assert main(["import", "installed", "two-lines", str(tmp_path / "runs" / "b.two"), "--store", store]) == 1
    assert "b.two: format two-lines (two_lines:parse) failed: ValueError" in capsys.readouterr().err
    for name, message in (("lost", "cannot be loaded"), ("none", "there are: lost, two-lines")):
        assert main(["import", "installed", name, str(tmp_path / "runs"), "--store", store]) == 1
        assert message in capsys.readouterr().err


def test_no_agent_is_named_all(tmp_path):
    """Its rows would be those of all agents; the message says how to name it."""
    path = write(tmp_path / "x.json", {**PLAIN, "agent": {**PLAIN["agent"], "name": "all"}})
    with pytest.raises(ImportFailed, match="rename it with --agent"):
        imported("atif", path, tmp_path / "s", reward=1.0)
    assert not (tmp_path / "s").exists()
    assert imported("atif", path, tmp_path / "s", reward=1.0, agent="mine").trials == 1
