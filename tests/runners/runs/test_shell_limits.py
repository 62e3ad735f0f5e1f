"""Limits of the shell are met before a run, not in the middle of it."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]


def run_under(limit: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python from a shell with a limit."""
    command = ["/bin/bash", "-c", f'ulimit {limit}; exec "$0" "$@"', sys.executable, *arguments]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_a_shell_without_room_is_refused_at_the_start(tmp_path):
    """Nothing is run and nothing recorded: the error names the limit, what is needed, and the command."""
    store = str(tmp_path / "store")
    done = run_under("-n 64", "-m", "lhaw_record", "run", "experiments/demo.toml", "--store", store)
    assert done.returncode == 2, done.stderr
    for words in ("64 open files", "4 trials at a time need 256", "ulimit -n 256"):
        assert words in done.stderr
    assert not list(tmp_path.glob("store/journals/*"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("-n 256", ("256 open files", "20 trials at a time need 384", "ulimit -n 384")),
        ("-v 1200000", ("1171 MB of address space", "ulimit -v unlimited")),
    ],
)
def test_each_limit_has_its_command(limit, words):
    """What is needed grows with the trials at a time; too little address space, too, ends in an error, not a hang."""
    done = run_under(
        limit,
        "-c",
        "from lhaw_record.runners.runs.preflight import check_shell_limits; check_shell_limits(20)",
    )
    assert "ExperimentError" in done.stderr
    for word in words:
        assert word in done.stderr


def test_a_soft_limit_is_raised():
    """Where only the soft limit is low, as in most shells, the run raises it for itself."""
    code = (
        "import resource\n"
        "from lhaw_record.runners.runs.preflight import check_shell_limits\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))\n"
        "check_shell_limits(8)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    )
    if 0 <= resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 256:
        pytest.skip("this shell's hard limit of open files is too low to raise the soft one")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ})
    assert (done.stdout, done.stderr) == ("256\n", "")
