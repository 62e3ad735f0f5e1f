"""From what both sides took to the lines of the report: per event, per tool turn, and ours beside the peer's."""

from collections.abc import Callable, Sequence

import msgspec

from tests.bench.cold import Taken
from tests.bench.figures import Figure, Limit, figure

SIZE_LIMIT = Limit(number=0.4, of="ratio")
PEER = "inspect_ai"
WITHOUT_BUFFER = "inspect_ai, live buffer off"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of all trials by one side. Seconds are those from the loaded program to the log at rest."""

    wall_s: float
    cpu_s: float
    program: Taken
    events: int
    turns: int
    log_bytes: int
    other_bytes: int = 0


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The two analyses of one run's log, each in a cold process."""

    mean: Taken
    actions: Taken


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One side's turn: a run and the analyses of what it left."""

    run: Run
    reading: Reading


def figures(ours: Sequence[Round], peer: Sequence[Round], unbuffered: Sequence[Run]) -> list[Figure]:
    """Return every line of the report; runs are compared with those of the same round.

    Args:
        ours: Our rounds.
        peer: The peer's, with its default log settings.
        unbuffered: The peer's runs without its live buffer, which serves readers while a run is going on.
    """
    own, theirs = [each.run for each in ours], [each.run for each in peer]
    limits = [SIZE_LIMIT]
    return [
        *_speed(own, theirs, PEER),
        *_speed(own, unbuffered, WITHOUT_BUFFER),
        _beside("all trials, cold process to exit", "s", own, theirs, lambda run: run.program.wall_s),
        _beside("peak memory of the run", "MiB", own, theirs, lambda run: run.program.peak_bytes / (1 << 20)),
        _beside("total bytes on disk", "MB", own, theirs, lambda run: run.log_bytes / 1e6, limits=limits),
        _beside("bytes per tool turn", "bytes", own, theirs, lambda run: run.log_bytes / run.turns),
        *_reading("mean score per condition", ours, peer, lambda reading: reading.mean),
        *_reading("table of every tool call", ours, peer, lambda reading: reading.actions),
    ]


def remarks(ours: Sequence[Round], peer: Sequence[Round]) -> str:
    """Say what the units of the two sides are, so that nobody takes one's events for the other's."""
    own, theirs = ours[-1].run, peer[-1].run
    return (
        f"The same {own.turns:,} tool turns are {own.events:,} events of ours ({own.events / own.turns:.2f} a turn) "
        f"and {theirs.events:,} of the peer's ({theirs.events / theirs.turns:.2f}).\n"
        f"Beside its log the peer left {theirs.other_bytes / 1e3:,.0f} kB of traces of its own work, which are not "
        "counted; ours is everything in the store."
    )


def progress(number: int, own: Run, theirs: Run) -> str:
    """Say what one round has measured, while later ones go on."""
    speeds = [
        f"{run.turns / run.wall_s:,.0f} turns/s and {run.cpu_s / run.turns * 1e6:,.0f} µs" for run in (own, theirs)
    ]
    return f"round {number}: {speeds[0]} of CPU a turn, beside {speeds[1]} of {PEER}"


def _speed(own: Sequence[Run], theirs: Sequence[Run], peer_name: str) -> list[Figure]:
    return [
        _beside("own events per second", "events/s", own, theirs, lambda run: run.events / run.wall_s, peer_name),
        _beside("tool turns per second", "turns/s", own, theirs, lambda run: run.turns / run.wall_s, peer_name),
        _beside("CPU per own event", "µs", own, theirs, lambda run: run.cpu_s / run.events * 1e6, peer_name),
        _beside("CPU per tool turn", "µs", own, theirs, lambda run: run.cpu_s / run.turns * 1e6, peer_name),
    ]


def _reading(
    name: str, ours: Sequence[Round], peer: Sequence[Round], part: Callable[[Reading], Taken]
) -> tuple[Figure, Figure]:
    own, theirs = [part(each.reading) for each in ours], [part(each.reading) for each in peer]
    return (
        _beside(f"{name}, cold process", "s", own, theirs, lambda taken: taken.wall_s),
        _beside(f"{name}, peak memory", "MiB", own, theirs, lambda taken: taken.peak_bytes / (1 << 20)),
    )


def _beside(
    name: str,
    unit: str,
    own: Sequence[Run] | Sequence[Taken],
    theirs: Sequence[Run] | Sequence[Taken],
    quantity: Callable[..., float],
    peer_name: str = PEER,
    limits: Sequence[Limit] = (),
) -> Figure:
    values, baselines = [quantity(each) for each in own], [quantity(each) for each in theirs]
    return figure(name, unit, values, baselines=baselines, baseline_name=peer_name, limits=limits)
