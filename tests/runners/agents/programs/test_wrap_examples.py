"""The example of ``wrap`` works as its help has it, for a program like its own."""

import shlex
import sys
from pathlib import Path

import pytest

from lhaw_record.command_line import build_parser, main
from lhaw_record.recorder.events import TrialFinished, TrialStarted
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.base.errors import ExperimentError
from tests.docs.cli_reference import commands
from tests.runners.agents.programs.rigs import TINY_AGENT

MINI = f"""#!/usr/bin/env python3
import argparse, os, subprocess, sys
parser = argparse.ArgumentParser()
for flag in ("--yolo", "--exit-immediately"):
    parser.add_argument(flag, action="store_true")
for option in ("--cost-limit", "--model", "--task"):
    parser.add_argument(option, required=True)
options = parser.parse_args()
if not os.environ.get("MSWEA_CONFIGURED"):
    sys.exit("Warning: Input is not a terminal. Aborted.")  # the first start of the real one asks
if not (options.yolo and options.exit_immediately and options.model.startswith("openai/")):
    sys.exit("it would wait for a person, or for another provider")
base = os.environ["OPENAI_BASE_URL"].removesuffix("/v1")
tiny = ["python3", {str(TINY_AGENT)!r}, "--wire", "chat", "--base-url", base, "--token", os.environ["OPENAI_API_KEY"]]
sys.exit(subprocess.run(tiny, input=options.task.encode()).returncode)
"""


def of_help():
    """The words of the example in the help."""
    return shlex.split(dict(commands(build_parser()))["wrap"].epilog.partition(": lhaw-record ")[2])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current folder, and a program called mini on PATH that wants what the real one wants."""
    program = tmp_path / "bin" / "mini"
    program.parent.mkdir()
    program.write_text(MINI)
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{program.parent}:{Path(sys.executable).parent}:/usr/bin:/bin")
    return tmp_path


def test_the_example_is_a_graded_trial_as_written(here, capsys):
    """Where no isolation works it needs --unisolated, which says that there is none."""
    words = of_help()
    assert main([*words[:1], "--unisolated", "--mount", str(TINY_AGENT), *words[1:]]) == 0
    said = capsys.readouterr().err
    events = [each.event for each in read_envelopes(here / "stores" / "wrap")]
    (begin,) = [event for event in events if isinstance(event, TrialStarted)]
    assert ("the program is not isolated from this machine" in said) == (begin.sandbox == "process")
    (end,) = [event for event in events if isinstance(event, TrialFinished)]
    assert end.ended_by == "submitted"
    assert end.action_count > 3


def test_without_isolation_and_without_leave_it_is_refused_with_both_remedies(here, capsys, monkeypatch):
    """The message names what to install and the flag."""

    async def refusing(*_):
        raise ExperimentError("it would run without isolation; run: apt-get install bubblewrap")

    monkeypatch.setattr("lhaw_record.runners.runs.run.run_experiment", refusing)
    assert main(of_help()) == 2
    said = capsys.readouterr().err
    assert "apt-get install bubblewrap" in said
    assert "add --unisolated" in said
