"""``lhaw-record ab``: two folders of instructions are the arms of one experiment, run with a program of one page."""

import json

import pytest

from lhaw_record.command_line import main
from tests.runners.agents.programs.rigs import described, scripted

READS_ITS_RULES = """
RULES = open(os.path.join(os.environ["HOME"], "AGENTS.md")).read()
work(1)
for question in ("When?", "Which window?") if "{ask}" in RULES else ():
    params = {"name": "ask_user", "arguments": {"question": question}}
    message = {"jsonrpc": "2.0", "id": question, "method": "tools/call", "params": params}
    headers = {"content-type": "application/json", "authorization": "Bearer " + TOKEN}
    headers["accept"] = "application/json, text/event-stream"
    urllib.request.urlopen(urllib.request.Request(BASE_URL + "/mcp", json.dumps(message).encode(), headers)).read()
TOOLS.append(function("ask_user", "question"))
work(1)
print("done")
"""
"""An agent that asks two questions if its AGENTS.md says so, and none if not."""


@pytest.fixture
def files(tmp_path):
    """An entry, an experiment of one task, and the folders before and after a change of AGENTS.md."""
    entry = scripted(tmp_path, READS_ITS_RULES)
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in entry.items())
    (tmp_path / "mine.toml").write_text(f'{lines}wire = "chat"\nanswer = "stdout"\nasks_by = "mcp"\n')
    (tmp_path / "file.toml").write_text(described([{"name": "any"}]))
    for name, text in (("before", "Guess."), ("after", "Always {ask}.")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "AGENTS.md").write_text(text)
    return tmp_path


def words(files, *more):
    """The command's words, with the store and the experiment of this test."""
    entry = str(files / "mine.toml")
    return ["ab", entry, "--experiment", str(files / "file.toml"), "--store", str(files / "store"), *more]


@pytest.mark.thorough
def test_two_folders_of_instructions_are_two_arms(files, capsys):
    """The same questions are asked where something is missing and where nothing is; braces are no placeholders."""
    command = words(files, "--files", str(files / "before"), "--files", str(files / "after"), "--format", "json")
    assert main(command) == 0
    told = capsys.readouterr()
    rows = {row["what"]: (row["before"], row["after"], row["difference"]) for row in json.loads(told.out)}
    assert rows["questions"] == rows["questions, nothing missing"] == (0, 2, 2)
    assert rows["asked"] == rows["asked, nothing missing"] == (0, 100, 100)
    assert rows["success"][2] == 0
    assert "difference: after minus before" in told.err
    assert "tasks that show a gain of 10 pp above" in told.err
    assert main(command) == 0  # what is finished is not run again


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "give one ENTRY and --files DIR twice"),
        (("--files", "before"), "give one ENTRY and --files DIR twice"),
        (("--files", "before", "--files", "before"), "both arms would be called 'before'"),
        (("--files", "before", "--files", "none"), "the folder has no files"),
    ],
)
def test_what_is_no_comparison_is_refused(files, capsys, more, said):
    """Before the first trial."""
    given = [str(files / each) if each in ("before", "none") else each for each in more]
    assert main(words(files, *given)) == 2
    assert said in capsys.readouterr().err
