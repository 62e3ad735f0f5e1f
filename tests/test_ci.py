"""``.ci/run`` ends as its parts do: played with stand-ins for what it calls, any of which can be made to fail."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CALLED = (".ci/bare-machine", ".ci/release", "tests/support/docker-engine", "bin/make", ".venv/bin/lhaw-record")
PARTS = ("demo", "install", "start", "mcp-servers", "codex-acp", "setup", "try", "lint", "test-all", "bench-check")
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
for word in "$@"; do [ "$word" != "$FAIL" ] || exit 3; done
"""


def run(directory, failing):
    """Return how ``.ci/run`` ends, what it prints and what it called."""
    for name in CALLED:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(STAND_IN)
        (directory / name).chmod(0o755)
    for name in ("bwrap", "npm", "chromium", "dockerd", "debootstrap"):
        (directory / "bin" / name).symlink_to("/bin/true")
    shutil.copy(ROOT / ".ci/run", directory / ".ci/run")
    calls = directory / "calls"
    environment = {"PATH": f"{directory / 'bin'}:{os.environ['PATH']}", "FAIL": failing, "CALLS": str(calls)}
    done = subprocess.run([directory / ".ci/run"], env=environment, capture_output=True, text=True, check=False)
    return done, calls.read_text().splitlines()


def test_it_passes_if_all_parts_pass(tmp_path):
    """Its status is 0, nothing is complained of, and the engine is stopped at the end."""
    done, calls = run(tmp_path, "nothing")
    assert (done.returncode, done.stderr) == (0, "")
    assert calls[-2:] == ["make bench-check", "docker-engine stop"]
    assert all(any(part in call for call in calls) for part in PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_it_fails_if_one_part_fails(tmp_path, part):
    """Also if the part ran beside others, and the engine is stopped all the same."""
    done, calls = run(tmp_path, part)
    assert done.returncode != 0
    assert "docker-engine stop" in calls  # what runs beside it may end later
