"""Our side: the same trials through the real scheduler, trial runner, agent and recorder.

python -m tests.bench_peers.our_run TRIALS_JSON STORE
"""

import asyncio
import json
import sys
from pathlib import Path

import msgspec

from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.bench.timed import Passage
from tests.support.toy_benchmark import ToyExperiment, Workload


def main(trials: str, store: str) -> None:
    """Run the trials and print what it took, sealing and its child process included."""
    workload = msgspec.convert(json.loads(Path(trials).read_text())["workload"], Workload)
    passage = Passage()
    outcome = asyncio.run(run(workload, Path(store)))
    json.dump({**passage.end(), "is_whole": outcome == "completed"}, sys.stdout)


async def run(workload: Workload, root: Path) -> str:
    """Run the trials into a store and return how it ended."""
    async with StoreRecorder(create_store(root), "toy") as recorder:
        summary = await ToyExperiment(workload).run(recorder)
    return summary.outcome


if __name__ == "__main__":
    main(*sys.argv[1:])
