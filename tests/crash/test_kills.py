"""SIGKILL at every operation costs nothing that was acknowledged, and nobody else who is at work notices it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.depth import at_depth

SEED = int(os.environ.get("LHAW_RECORD_CRASH_SEED", "20261121"))
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "step", "least_deaths"),
    [
        ("writer", 40, 2),
        pytest.param("recovery", 10, 2, marks=pytest.mark.thorough),
        pytest.param("writer", at_depth(3, 1), at_depth(40, 130), marks=pytest.mark.thorough),
        pytest.param("recovery", at_depth(2, 1), at_depth(14, 30), marks=pytest.mark.thorough),
        pytest.param("crowd", at_depth(5, 1), at_depth(11, 60), marks=pytest.mark.thorough),
    ],
)
def test_a_kill_at_any_operation_loses_nothing_acknowledged(tmp_path, scenario, step, least_deaths):
    """Before, in the middle of and after each write, sync, rename and removal, with a reader looking all the time."""
    command = [sys.executable, "-m", "tests.crash.killing", str(tmp_path), scenario, str(SEED), str(step)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    print(f"{report['deaths']} kills of {scenario}, seed {SEED}")
    assert report["problems"] == [], done.stderr
    assert report["deaths"] >= least_deaths
