"""The gateway under load: what it adds to each call, and its memory, beside a bare proxy and the library alone.

Everything runs on this machine at once: agents, gateway and a provider that takes no time, each in its process. With
many trials at once the processors are the limit, and a call waits for all the others; alone, it waits for nothing. The
first token of streams is timed with as many trials whose agents also work between two calls, as real ones do.

The budgets were set on a machine on which litellm alone takes 5.6 ms of CPU for a call; elsewhere they are as many
times as large as litellm is slow there, in the same run.
"""

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from tests.bench.figures import Figure, Limit, figure
from tests.bench.gateway_load import Load, run
from tests.bench.memory import kept

DOORS = "tests.bench.gateway_doors"
WARMING_TURNS = ALONE_TURNS = 15
PAUSE_S, PACED_TURNS = 2.0, 4
BASELINES = {"proxy": "a bare proxy", "library": "litellm alone"}
LIBRARY_MS = 5.6


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One run of every door: many trials at once, and then, but not for the library, one alone and many at leisure."""

    crowd: dict[str, Load]
    alone: dict[str, Load]
    paced: dict[str, Load]


class Door(msgspec.Struct, frozen=True):
    """A server that is measured."""

    url: str
    pid: int

    @property
    def resident_mib(self) -> float:
        """Its memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    @property
    def cpu_s(self) -> float:
        """The CPU that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(directory: Path, *, runs: int, trials: int, turns: int, calls: int) -> list[Figure]:
    """Measure the gateway and what it is compared with, in turn.

    Args:
        directory: An empty directory on a real disk.
        runs: Repetitions, the medians of which are reported; memory, which hardly varies, is measured once.
        trials: How many at once.
        turns: Calls of each.
        calls: After how many calls the memory is measured for the second time; the first is after a tenth.
    """
    rounds = [asyncio.run(_round(directory / f"round-{number}", trials, turns)) for number in range(runs)]
    early_mib, late_mib = asyncio.run(_memory(directory / "memory", trials, turns, calls))
    figures = [each for baseline in BASELINES for each in _crowd(rounds, trials, baseline)]
    own = [one.crowd["own"] for one in rounds]
    name = f"gateway, {trials} trials, model in process"
    figures.append(figure(f"{name}: calls", "/s", [each.per_second for each in own]))
    figures.append(figure(f"{name}: CPU per call", "ms", [each.cpu_ms for each in own]))
    figures += [_added(rounds, share) for share in (0.5, 0.99)]
    figures += [_first_token(rounds, trials, share) for share in (0.5, 0.99)]
    memory = kept(f"gateway, resident memory after {calls:,} calls", [(early_mib, late_mib)])
    return [*figures, memory]


def _crowd(rounds: Sequence[Round], trials: int, baseline: str) -> list[Figure]:
    """Many trials at once, against one of the baselines."""

    def against(what: str, unit: str, of: Callable[[Load], float], *limits: Limit) -> Figure:
        return figure(
            f"gateway, {trials} trials: {what}",
            unit,
            [of(one.crowd["gateway"]) for one in rounds],
            baselines=[of(one.crowd[baseline]) for one in rounds],
            baseline_name=BASELINES[baseline],
            limits=limits,
        )

    return [
        against("calls", "/s", lambda load: load.per_second),
        against("CPU per call", "ms", lambda load: load.cpu_ms, _limit(rounds, 2.5)),
        against("p50", "ms", lambda load: load.quantile_ms(0.5)),
        against("p99", "ms", lambda load: load.quantile_ms(0.99)),
    ]


def _limit(rounds: Sequence[Round], number_ms: float) -> Limit:
    """A budget, for a machine as slow as this one."""
    slowness = statistics.median(one.crowd["library"].cpu_ms for one in rounds) / LIBRARY_MS
    return Limit(number=round(number_ms * slowness, 1), unit=f"ms ({number_ms:g} where litellm takes {LIBRARY_MS:g})")


def _added(rounds: Sequence[Round], share: float) -> Figure:
    """What the gateway adds to a call of one trial alone, against what a proxy adds."""

    def added(one: Round, door: str) -> float:
        return one.alone[door].quantile_ms(share) - one.alone["provider"].quantile_ms(share)

    return figure(
        f"gateway, one trial: added at p{share * 100:.0f}",
        "ms",
        [added(one, "gateway") for one in rounds],
        baselines=[added(one, "proxy") for one in rounds],
        baseline_name="a bare proxy",
        limits=[_limit(rounds, 3)] if share == 0.5 else (),
    )


def _first_token(rounds: Sequence[Round], trials: int, share: float) -> Figure:
    """How much later the first token of a stream comes than from the provider itself, against a proxy."""

    def later(one: Round, door: str) -> float:
        return one.paced[door].quantile_ms(share) - one.paced["provider"].quantile_ms(share)

    return figure(
        f"gateway, {trials} trials, a call every {PAUSE_S:g} s each: first token later at p{share * 100:.0f}",
        "ms",
        [later(one, "gateway") for one in rounds],
        baselines=[later(one, "proxy") for one in rounds],
        baseline_name="a bare proxy",
        limits=[_limit(rounds, 5)] if share == 0.5 else (),
    )


async def _round(directory: Path, trials: int, turns: int) -> Round:
    """Measure every door in turn, none while another one works; each is warmed by one trial first."""
    crowd, alone, paced = {}, {}, {}
    with _served("provider") as provider:
        doors = {
            "provider": ("provider",),
            "proxy": ("proxy", provider.url),
            "gateway": ("gateway", str(directory / "gateway"), provider.url),
            "own": ("own", str(directory / "own")),
        }
        for name, command in doors.items():
            has_keys = name in ("gateway", "own")
            with _served(*command) as door:
                await run(door.url, trials=1, turns=WARMING_TURNS, first=10**6, has_keys=has_keys)
                began_s = door.cpu_s
                load = await run(door.url, trials=trials, turns=turns, has_keys=has_keys)
                crowd[name] = msgspec.structs.replace(load, cpu_s=door.cpu_s - began_s)
                alone[name] = await run(door.url, trials=1, turns=ALONE_TURNS, first=10**7, has_keys=has_keys)
                if name != "own":
                    pace = {"trials": trials, "turns": PACED_TURNS, "pause_s": PAUSE_S, "is_streamed": True}
                    paced[name] = await run(door.url, first=10**8, has_keys=has_keys, **pace)
        command = (sys.executable, "-m", DOORS, "library", provider.url, str(trials), str(turns))
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        crowd["library"] = msgspec.json.decode(done.stdout.splitlines()[-1], type=Load)
    return Round(crowd=crowd, alone=alone, paced=paced)


async def _memory(directory: Path, trials: int, turns: int, calls: int) -> tuple[float, float]:
    """Memory of the gateway with litellm after a tenth of the calls and after all, in trials that come and go."""
    found = []
    with _served("provider") as provider, _served("gateway", str(directory), provider.url) as door:
        done = 0
        for target in (calls // 10, calls):
            while done < target:
                await run(door.url, trials=trials, turns=turns, first=done)
                done += trials * turns
            found.append(door.resident_mib)
    return found[0], found[1]


@contextlib.contextmanager
def _served(*command: str) -> Iterator[Door]:
    """Run a server while the block runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", DOORS, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield Door(f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid)
    finally:
        process.communicate()
