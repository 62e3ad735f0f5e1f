"""``python -m tests.bench.ray``: scripted trials on a Ray cluster of this machine, against the local executor.

All workers share the processors of this machine, so more workers than processors show what workers cost, not what more
machines would give. Every run records into a shared directory; the time is that of the whole command, and beside it
that from the first trial's start to the last one's end.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from lhaw_record.recorder.sharing.address import HOME_VARIABLE
from tests.bench.ray_benchmark import install
from tests.cli.program import environment, query, start
from tests.runners.runs.executors.site import Cluster, Site

TRIALS = 10_000
_TASKS = 100
_CONCURRENCY = 16
_SPAN = "select (max(recorded_at_us) - min(recorded_at_us)) / 1e6 from events where trial_id is not null"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the same trials in each way, and print medians."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.ray", description="Measure the Ray executor.")
    parser.add_argument("--trials", type=int, default=TRIALS, help="default: %(default)s")
    parser.add_argument("--repeats", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--workers", default="local,1,2,4", help="default: %(default)s")
    options = parser.parse_args(arguments)
    os.environ["LHAW_RECORD_PATIENCE_S"] = "60"
    with tempfile.TemporaryDirectory(prefix="bench-ray-") as temporary:
        folder = Path(temporary)
        install(folder / "plugin")
        path = os.pathsep.join((str(folder / "plugin"), str(Path(__file__).parents[2])))
        os.environ["PYTHONPATH"] = path
        ways = [None if each == "local" else int(each) for each in options.workers.split(",")]
        cluster = Cluster({"PYTHONPATH": path})
        try:
            cluster.add(folder / "node", max(way or 1 for way in ways))
            print(f"{options.trials} trials, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")  # noqa: T201
            print(f"{'executor':<16} {'command s':>10} {'trials s':>9} {'trials/s':>9} {'events':>8}", flush=True)  # noqa: T201
            for count in ways:
                taken = [
                    _taken(cluster, folder / f"{count}-{repeat}", options.trials, count)
                    for repeat in range(options.repeats)
                ]
                command_s, trials_s = (
                    statistics.median(each) for each in zip(*(pair[:2] for pair in taken), strict=True)
                )
                name = "local" if count is None else f"ray, {count} workers"
                pace = options.trials / trials_s
                print(f"{name:<16} {command_s:>10.1f} {trials_s:>9.1f} {pace:>9.0f} {taken[0][2]:>8}", flush=True)  # noqa: T201
        finally:
            cluster.close()
    return 0


def _taken(cluster: Cluster, folder: Path, trials: int, workers: int | None) -> tuple[float, float, int]:
    """Run once; the seconds of the command and of its trials, and the number of events."""
    folder.mkdir()
    site = Site(cluster, folder)
    experiment = folder / "bench.toml"
    experiment.write_text(
        f'name = "bench"\nconditions = ["full"]\ntrials = {trials // _TASKS}\nconcurrency = {_CONCURRENCY}\n'
        f'[benchmark]\nname = "toy"\ntasks_there = {_TASKS}\n[sandbox]\nkind = "process"\n'
        '[[agents]]\nname = "replay"\nmodel = "scripted/replay"\n'
    )
    began_s = time.perf_counter()
    if workers is None:
        home = {HOME_VARIABLE: str(site.home("driver"))}
        process = start("run", experiment, "--store", site.address, extra=environment(home))
    else:
        process = site.start(experiment, "--workers", workers)
    _, said = process.communicate()
    command_s = time.perf_counter() - began_s
    assert process.returncode == 0, said
    ((trials_s,),) = query(site.root(), _SPAN)
    ((finished,),) = query(site.root(), "select count(distinct trial_id) from stg_trials_finished")
    assert finished == trials // _TASKS * _TASKS
    ((events,),) = query(site.root(), "select count(*) from events")
    return command_s, float(trials_s), int(events)


if __name__ == "__main__":
    raise SystemExit(main())
