"""The core of a trial is small and runs alone: a fresh interpreter imports the attempt and the native agent only."""

import subprocess
import sys
from pathlib import Path

from tests.lines_of_code import lines_of_code

ROOT = Path(__file__).parents[3]
CORE = {
    "lhaw_record.runners.base.conversation.actions",
    "lhaw_record.runners.base.conversation.ending",
    "lhaw_record.runners.base.conversation.injection",
    "lhaw_record.runners.base.conversation.messages",
    "lhaw_record.runners.base.errors",
    "lhaw_record.runners.environments.grading.grade",
    "lhaw_record.runners.models.protocol",
    "lhaw_record.runners.base.recording",
    "lhaw_record.runners.agents.agent_loop",
    "lhaw_record.runners.agents.attempt",
}
MOST_LINES = 840
"""Lines of code without blanks, comments and docstrings, of all of the core."""


def test_a_trial_runs_with_only_the_core_imported(tmp_path):
    """A trial is opened, run, graded and recorded in a store; of the runners, it has imported the core alone."""
    script = Path(__file__).with_name("core_trial.py")
    done = subprocess.run([sys.executable, script, tmp_path / "s"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    modules = set(done.stdout.split())
    assert {name for name in modules if not (ROOT / name.replace(".", "/")).is_dir()} == CORE


def test_the_core_is_small():
    """It can be read in an afternoon, beside the recorder, one view and one table."""
    paths = [ROOT / f"{name.replace('.', '/')}.py" for name in CORE]
    assert sum(lines_of_code(path.read_text(encoding="utf-8")) for path in paths) <= MOST_LINES
