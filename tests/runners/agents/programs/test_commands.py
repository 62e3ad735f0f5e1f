"""The commands: entries listed, installed and shown, and any program wrapped as one trial."""

import json
import sys
from pathlib import Path

import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.events import OracleBudgetSet, QuestionAnswered, TrialFailed, TrialFinished, TrialStarted
from lhaw_record.recorder.reading.reader import read_envelopes
from tests.runners.agents.programs.rigs import ASKS, TINY_AGENT
from tests.support.needs import needs


def run(capsys, *arguments):
    """Run the program; its exit code, and what it printed and said."""
    code = main([str(each) for each in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture
def entry(tmp_path, monkeypatch):
    """An entry with a script and no packages, installed nowhere yet."""
    monkeypatch.setenv("LHAW_RECORD_AGENTS", str(tmp_path / "agents"))
    (tmp_path / "robot.py").write_text(ASKS + "work(1)\nprint(sys.executable)\n")
    path = tmp_path / "robot.toml"
    path.write_text(
        'command = ["{bin}/python", "{bin}/robot.py", "{base_url}", "{token}"]\nversion = ["{bin}/python", "-V"]\n'
        'answer = "stdout"\nwire = "chat"\nabout = "a robot"\n[install]\nscript = "robot.py"\n'
    )
    return path


def test_the_list_names_every_entry(capsys):
    """Name, wire, how it asks, whether it is installed and what it installs."""
    code, out, _ = run(capsys, "agents", "list", "--format", "json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert code == 0
    assert rows["mini-swe-agent"]["asks_by"] == "none"
    assert (rows["claude-code-acp"]["host"], rows["claude-code-acp"]["asks_by"]) == ("acp", "built_in")
    assert {row["wire"] for row in rows.values()} == {"chat", "responses", "messages", "gemini", None}
    assert rows["leased"]["wire"] is None


def test_an_entry_is_installed_shown_and_run_in_the_sandbox(tmp_path, entry, capsys):
    """Its own folder is shown in the sandbox, where its interpreter and its script are; a changed script is new."""
    code, _, said = run(capsys, "agents", "show", entry)
    assert (code, "is not installed" in said) == (0, True)
    assert run(capsys, "agents", "install", entry)[0] == 0
    code, _, said = run(capsys, "agents", "install", "no-such-agent", entry)  # the others are installed all the same
    assert (code, "installed in" in said, "no-such-agent" in said) == (2, True, True)
    version = run(capsys, "agents", "show", entry)[2]
    assert "robot Python 3." in version
    assert ", install " in version
    experiment = tmp_path / "experiment.toml"
    experiment.write_text(
        'name = "robots"\nconditions = ["full"]\ntrials = 1\n[benchmark]\nname = "desk"\n'
        'variants = ["log-triage/window"]\n[[agents]]\nname = "robot"\nmodel = "scripted/balanced"\n'
        'program = "robot.toml"\n[sandbox]\nkind = "process"\nallow_unisolated = true\n'
    )
    assert run(capsys, "run", experiment, "--store", tmp_path / "store")[0] == 0
    (end,) = [each.event for each in read_envelopes(tmp_path / "store") if isinstance(each.event, TrialFinished)]
    (folder,) = (tmp_path / "agents").iterdir()
    assert end.final_answer == str(folder / "bin" / "python")


def test_a_script_that_is_missing_is_named(entry, capsys):
    """Nothing is installed then."""
    entry.with_name("robot.py").unlink()
    code, _, said = run(capsys, "agents", "install", entry)
    assert code == 2
    assert "key 'install.script'" in said


def wrap(capsys, store, *more, command=(), **options):
    """Wrap the tiny agent."""
    tiny = ["python3", TINY_AGENT, "--wire", "messages", "--base-url", "{base_url}", "--token", "{token}", *command]
    named = [word for name, value in options.items() for word in (f"--{name}", value)]
    fixed = [
        "--task",
        "desk/log-triage",
        "--model",
        "scripted/balanced",
        "--store",
        store,
        "--mount",
        TINY_AGENT,
        "--unisolated",
    ]
    return run(capsys, "wrap", *fixed, *named, *more, "--", *tiny)


@pytest.mark.thorough
def test_wrap_runs_one_trial_at_each_call(tmp_path, capsys):
    """Each call adds the next trial of its cell; an injection adds the full trial that its budget needs."""
    store = tmp_path / "store"
    for _ in range(2):
        code, _, said = wrap(capsys, store, answer="stdout")
        assert code == 0
        assert f"lhaw-record show {store} " in said
    assert wrap(capsys, store, variant="window", answer="stdout")[0] == 0
    assert wrap(capsys, store, variant="log-triage/window", condition="inject_50", answer="stdout")[0] == 0
    asking = ("--mcp-config", "{mcp_config}")
    assert wrap(capsys, store, variant="window", condition="ask_user", answer="stdout", command=asking)[0] == 0
    events = [envelope.event for envelope in read_envelopes(store)]
    assert [e.message for e in events if isinstance(e, TrialFailed)] == []
    started = sorted((e.condition, e.trial_index) for e in events if isinstance(e, TrialStarted))
    assert started == [("ask_user", 0), ("full", 0), ("full", 1), ("inject_50", 0), ("underspecified", 0)]
    assert sum(isinstance(event, OracleBudgetSet) for event in events) == 1
    assert sum(isinstance(event, QuestionAnswered) for event in events) == 1
    assert {event.final_answer for event in events if isinstance(event, TrialFinished)} >= {"Finished."}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": "log-triage"}, "is not BENCHMARK/TASK"),
        ({"task": "desk/nothing"}, "'nothing' is not there"),
        ({"condition": "underspecified"}, "needs --variant"),
        ({"condition": "sometimes"}, "--condition 'sometimes' is unknown"),
        ({"variant": "window", "condition": "ask_user"}, "put {mcp_config} or {mcp_url} into its command"),
        ({"answer": "somewhere"}, "key 'answer'"),
        ({"env": "A={nothing}"}, "unknown placeholder {nothing}"),
        ({"variant": "nothing"}, "'log-triage/nothing' is not there"),
    ],
)
def test_what_cannot_be_wrapped_is_refused(tmp_path, capsys, options, said):
    """Exit code 2, the remedy, and no store."""
    code, _, message = wrap(capsys, tmp_path / "store", **options)
    assert code == 2
    assert said in message
    assert not (tmp_path / "store").exists()


def test_a_program_that_is_not_there_is_refused(tmp_path, capsys):
    """Its name is said."""
    fixed = ["--task", "desk/log-triage", "--model", "scripted/balanced", "--store", tmp_path / "store", "--unisolated"]
    code, _, message = run(capsys, "wrap", *fixed, "--", "no-such-program")
    assert code == 2
    assert "there is no program 'no-such-program'" in message


@pytest.mark.thorough
def test_a_wrapped_program_that_calls_nobody_is_shown_with_its_last_words(tmp_path, capsys):
    """Exit code 1 and the reason; the failed attempts are in the store. A program of a virtual environment is found.

    What it was given in secret and prints reaches the terminal no more than the store.
    """
    fixed = ["--task", "desk/log-triage", "--model", "scripted/balanced", "--store", tmp_path / "store", "--unisolated"]
    fixed += ["--env", "TOOL_PASS=correct horse"]
    last = "import os; raise SystemExit('not today, ' + os.environ['TOOL_PASS'])"
    code, _, message = run(capsys, "wrap", *fixed, "--", sys.executable, "-c", last)
    assert code == 1
    assert "not today, [redacted]" in message
    assert "correct horse" not in message
    assert "failed at sandbox (program_no_call)" in message
    assert "Its last output: not today" in message
    events = [envelope.event for envelope in read_envelopes(tmp_path / "store")]
    assert sum(isinstance(event, TrialFailed) for event in events) == 3
    assert Path(sys.executable).exists()


@pytest.mark.thorough
@needs("bubblewrap")
def test_a_script_that_the_sandbox_does_not_show_is_named_with_the_remedy(tmp_path, capsys, monkeypatch):
    """Whoever names a script of this machine, by whatever path, is told how the sandbox gets to see it."""
    (tmp_path / "mine.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    fixed = ["--task", "desk/log-triage", "--model", "scripted/balanced", "--store", tmp_path / "store"]
    code, _, message = run(capsys, "wrap", *fixed, "--", sys.executable, "mine.py", "a long word " * 1000)
    assert code == 1
    assert f"add --mount {tmp_path / 'mine.py'}" in message
    program = tmp_path / "mine.py"
    _, _, message = run(capsys, "wrap", "--mount", program, *fixed, "--", sys.executable, program)
    assert "exit code 3" in message
    assert "add --mount" not in message
