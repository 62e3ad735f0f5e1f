"""Our side: the same trials through the real scheduler, trial runner, agent and recorder.

python -m tests.bench_peers.our_run TRIALS_JSON STORE
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lhaw_record.recorder.processes import tune_process
from tests.bench.timed import Passage

if TYPE_CHECKING:
    from tests.support.toy_benchmark import Workload


def main(trials: str, store: str) -> None:
    """Run the trials, tuned as the program is, and print what it took, sealing in a child included."""
    tune_process()
    from tests.support.toy_benchmark import Workload

    workload = msgspec.convert(json.loads(Path(trials).read_text())["workload"], Workload)
    passage = Passage()
    outcome = asyncio.run(run(workload, Path(store)))
    json.dump({**passage.end(), "is_whole": outcome == "completed"}, sys.stdout)


async def run(workload: "Workload", root: Path) -> str:
    """Run the trials into a store and return how it ended."""
    from lhaw_record.recorder.storage.creation import create_store
    from lhaw_record.recorder.writing.store_recorder import StoreRecorder
    from tests.support.toy_benchmark import ToyExperiment

    async with StoreRecorder(create_store(root), "toy") as recorder:
        summary = await ToyExperiment(workload).run(recorder)
    return summary.outcome


if __name__ == "__main__":
    main(*sys.argv[1:])
