"""One side's turn: run all trials, count what was recorded, read it back; every program is a process of its own."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.bench import cold
from tests.bench.stores import size_bytes
from tests.bench_peers.report import Reading, Round, Run

MEAN = "select condition, avg(checkpoint_progress) as score from trials group by all order by all"
COUNT = "select type, count(*) as events from events group by all"
ACTIONS = "select * from actions"


class RoundFailed(Exception):
    """The two sides did not record the same trials; what they took means nothing."""


def our_round(directory: Path, trials: Path) -> tuple[Round, dict[str, float]]:
    """Run and read our side in an empty directory; also return the mean score of each condition.

    Raises:
        ProgramFailed: A program failed.
        RoundFailed: Trials are missing.
    """
    store = directory / "store"
    command = [sys.executable, "-m", "tests.bench_peers.our_run", str(trials), str(store)]
    program, printed = cold.run(command)
    counted = {row["type"]: row["events"] for row in json.loads(cold.run(_sql(store, COUNT))[1])}
    run = _run(program, printed, counted, "action_finished", trials, size_bytes(store))
    mean, means = cold.run(_sql(store, MEAN))
    actions, _ = cold.run(_sql(store, ACTIONS, "csv"))
    scores = {row["condition"]: row["score"] for row in json.loads(means)}
    return Round(run=run, reading=Reading(mean=mean, actions=actions)), scores


def peer_run(python: Path, directory: Path, trials: Path, *options: str) -> Run:
    """Run the peer's side in an empty directory; its log is in ``directory/logs`` afterwards.

    Raises:
        ProgramFailed: As for :func:`our_round`.
        RoundFailed: As for :func:`our_round`.
    """
    logs, environment = directory / "logs", _peer_environment(directory)
    command = [str(python), "-m", "tests.bench_peers.peer_run", str(trials), str(logs), *options]
    program, printed = cold.run(command, environment)
    counted = json.loads(cold.run(_peer_read(python, "count", logs), environment)[1])
    return _run(program, printed, counted, "tool", trials, size_bytes(logs), size_bytes(directory / "own"))


def peer_round(python: Path, directory: Path, trials: Path) -> tuple[Round, dict[str, float]]:
    """Run and read the peer's side in an empty directory; also return the mean score of each condition.

    Raises:
        ProgramFailed: As for :func:`our_round`.
        RoundFailed: As for :func:`our_round`.
    """
    run = peer_run(python, directory, trials)
    logs, environment = directory / "logs", _peer_environment(directory)
    mean, means = cold.run(_peer_read(python, "mean", logs), environment)
    actions, _ = cold.run(_peer_read(python, "actions", logs), environment)
    scores = {condition: float(score) for condition, score in (line.split(",") for line in means.split())}
    return Round(run=run, reading=Reading(mean=mean, actions=actions)), scores


def _run(
    program: cold.Taken,
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
    return [*cold.PROGRAM, "sql", str(store), "-c", query, "--format", form]


def _peer_read(python: Path, what: str, logs: Path) -> list[str]:
    return [str(python), "-m", "tests.bench_peers.peer_read", what, str(logs)]


def _peer_environment(directory: Path) -> dict[str, str]:
    """No setting of the user's own, and the peer's data folder beside its log, where its size can be seen."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INSPECT_")}
    return {**kept, "XDG_DATA_HOME": str(directory / "own"), "XDG_CACHE_HOME": str(directory / "own")}
