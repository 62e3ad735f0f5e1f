"""One side's turn: run all trials, count what was recorded, read it back; every program is a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tests.bench_peers.report import Reading, Round, Run, Taken

ROOT = Path(__file__).parents[2]
TIMED = Path(__file__).with_name("timed.py")
MEAN = "select condition, avg(checkpoint_progress) as score from trials group by all order by all"
COUNT = "select type, count(*) as events from events group by all"
ACTIONS = "select * from actions"


class RoundFailed(Exception):
    """A program failed, or the two sides did not record the same trials; what they took means nothing."""


def our_round(directory: Path, trials: Path) -> tuple[Round, dict[str, float]]:
    """Run and read our side in an empty directory; also return the mean score of each condition.

    Raises:
        RoundFailed: A program failed, or trials are missing.
    """
    store = directory / "store"
    command = [sys.executable, "-m", "tests.bench_peers.our_run", str(trials), str(store)]
    program, printed = _timed(command, directory, os.environ)
    counted = {row["type"]: row["events"] for row in json.loads(_timed(_sql(store, COUNT), directory, os.environ)[1])}
    run = _run(program, printed, counted, "action_finished", trials, size_bytes(store))
    mean, means = _timed(_sql(store, MEAN), directory, os.environ)
    actions, _ = _timed(_sql(store, ACTIONS, "csv"), directory, os.environ)
    scores = {row["condition"]: row["score"] for row in json.loads(means)}
    return Round(run=run, reading=Reading(mean=mean, actions=actions)), scores


def peer_run(python: Path, directory: Path, trials: Path, *options: str) -> Run:
    """Run the peer's side in an empty directory; its log is in ``directory/logs`` afterwards.

    Raises:
        RoundFailed: As for :func:`our_round`.
    """
    logs, environment = directory / "logs", _peer_environment(directory)
    command = [str(python), "-m", "tests.bench_peers.peer_run", str(trials), str(logs), *options]
    program, printed = _timed(command, directory, environment)
    counted = json.loads(_timed(_peer_read(python, "count", logs), directory, environment)[1])
    return _run(program, printed, counted, "tool", trials, size_bytes(logs), size_bytes(directory / "own"))


def peer_round(python: Path, directory: Path, trials: Path) -> tuple[Round, dict[str, float]]:
    """Run and read the peer's side in an empty directory; also return the mean score of each condition.

    Raises:
        RoundFailed: As for :func:`our_round`.
    """
    run = peer_run(python, directory, trials)
    logs, environment = directory / "logs", _peer_environment(directory)
    mean, means = _timed(_peer_read(python, "mean", logs), directory, environment)
    actions, _ = _timed(_peer_read(python, "actions", logs), directory, environment)
    scores = {condition: float(score) for condition, score in (line.split(",") for line in means.split())}
    return Round(run=run, reading=Reading(mean=mean, actions=actions)), scores


def size_bytes(directory: Path) -> int:
    """Return the length of all files in a directory and below."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _run(
    program: Taken,
    printed: str,
    counted: Mapping[str, int],
    turn: str,
    trials: Path,
    log_bytes: int,
    other_bytes: int = 0,
) -> Run:
    """Put a run together; its tool turns must be all that there were to do."""
    passage, given = json.loads(printed), json.loads(trials.read_text())
    turns, wanted = counted.get(turn, 0), len(given["trials"]) * given["workload"]["actions"]
    if not passage["is_whole"] or turns != wanted:
        raise RoundFailed(f"{turns} of {wanted} tool turns were recorded ({turn}); run the same command again")
    return Run(
        wall_s=passage["wall_s"],
        cpu_s=passage["cpu_s"],
        program=program,
        events=sum(counted.values()),
        turns=turns,
        log_bytes=log_bytes,
        other_bytes=other_bytes,
    )


def _sql(store: Path, query: str, form: str = "json") -> list[str]:
    return [sys.executable, str(ROOT / "lhaw_record.py"), "sql", str(store), "-c", query, "--format", form]


def _peer_read(python: Path, what: str, logs: Path) -> list[str]:
    return [str(python), "-m", "tests.bench_peers.peer_read", what, str(logs)]


def _peer_environment(directory: Path) -> dict[str, str]:
    """No setting of the user's own, and the peer's data folder beside its log, where its size can be seen."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INSPECT_")}
    return {**kept, "XDG_DATA_HOME": str(directory / "own"), "XDG_CACHE_HOME": str(directory / "own")}


def _timed(command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> tuple[Taken, str]:
    """Run a program under timed.py; what it took, and what it printed."""
    result = directory / "taken.json"
    timed = [sys.executable, str(TIMED), str(result), *command]
    done = subprocess.run(timed, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    if done.returncode != 0:
        raise RoundFailed(f"{' '.join(command[:5])} ... failed: {done.stderr[-1000:]}")
    return msgspec.json.decode(result.read_bytes(), type=Taken), done.stdout
