"""The benchmark of ``tests.bench.ray``: trials in process whose model repeats a reference, found as a plug-in is."""

from pathlib import Path

from lhaw_record.runners.models.replay import Reference, ReferenceCall
from tests.support.toy_benchmark import ToyBenchmark, Workload

ACTIONS = 5


class ReplayedBenchmark(ToyBenchmark):
    """The toy benchmark for ``scripted/replay``: every trial works a number of times, then answers."""

    ends_on_text = True

    def reference(self, task_id):
        """Work, five times."""
        calls = tuple(ReferenceCall(name="work", arguments={"n": number}) for number in range(1, ACTIONS + 1))
        return Reference(task_id=task_id, origin="own", calls=calls)


def open_benchmark(options, base, grader):
    """Open it, as an installed package would."""
    return ReplayedBenchmark(Workload(tasks=options["tasks_there"]))


def install(folder: Path) -> None:
    """Write what makes it a plug-in, for a folder on the path of every process."""
    package = folder / "lhaw_record_bench-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: lhaw-record-bench\nVersion: 1\n")
    (package / "entry_points.txt").write_text(
        "[lhaw_record.benchmarks]\ntoy = tests.bench.ray_benchmark:open_benchmark\n"
    )
