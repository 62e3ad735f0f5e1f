"""``python -m tests.bench_peers``: runs the same trials with the peer and with us, in turn, and prints one table."""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from tests.bench import cold, figures
from tests.bench_peers import report, rounds
from tests.bench_peers.install import install
from tests.bench_peers.trials import described
from tests.support.toy_benchmark import Workload

QUICK = Workload(tasks=1, trials=3, actions=3, concurrency=4)


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout, said: TextIO = sys.stderr) -> int:
    """Measure and print; 0 even over the budget, 1 when a side failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench_peers", description="Measure beside the peer.")
    parser.add_argument("--quick", action="store_true", help="one short run of everything, to see that it works")
    parser.add_argument("--runs", type=int, default=5, help="rounds; medians are reported (default: %(default)s)")
    parser.add_argument("--directory", type=Path, default=Path("stores"), help="a directory on a real disk")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the table into this page")
    options = parser.parse_args(arguments)
    python = install()
    workload, runs = (QUICK, 1) if options.quick else (Workload(), options.runs)
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-peers-", dir=options.directory.resolve()) as temporary:
        try:
            measure(python, Path(temporary), workload, runs, out, options.page)
        except (cold.ProgramFailed, rounds.RoundFailed) as error:
            print(f"bench-peers: {error}", file=said)
            return 1
    return 0


def measure(
    python: Path, directory: Path, workload: Workload, runs: int, out: TextIO, page: Path | None = None
) -> None:
    """Run the rounds in a directory, print the table and write it into the page.

    Raises:
        ProgramFailed: A program failed.
        RoundFailed: The two sides disagree on the trials or on the scores.
    """
    began_s = time.monotonic()
    print(figures.circumstances(), file=out)
    print(
        f"{_load()} before; medians of {runs} round(s), peer and ours in turn; ratios within one round",
        file=out,
        flush=True,
    )
    trials = directory / "trials.json"
    trials.write_text(json.dumps(described(workload)))
    peer, ours, unbuffered = [], [], []
    for number in range(runs):
        room = directory / f"round-{number}"
        for side in ("peer", "ours", "unbuffered"):
            (room / side).mkdir(parents=True)
        their_round, their_scores = rounds.peer_round(python, room / "peer", trials)
        our_round, our_scores = rounds.our_round(room / "ours", trials)
        if our_scores != their_scores:
            raise rounds.RoundFailed(f"the scores differ: {our_scores} here, {their_scores} at the peer")
        peer.append(their_round)
        ours.append(our_round)
        unbuffered.append(rounds.peer_run(python, room / "unbuffered", trials, "--no-realtime"))
        shutil.rmtree(room)
        print(report.progress(number + 1, our_round.run, their_round.run), file=out, flush=True)
    print(f"{_load()} after {(time.monotonic() - began_s) / 60:.1f} minutes\n", file=out)
    found = report.figures(ours, peer, unbuffered)
    print("\n".join(figures.lines(found)), file=out)
    print(f"\n{report.remarks(ours, peer)}", file=out)
    if page is not None:
        figures.write(page, "peers", figures.lines(found))


def _load() -> str:
    return "load average " + ", ".join(f"{each:.1f}" for each in os.getloadavg())


if __name__ == "__main__":
    sys.exit(main())
