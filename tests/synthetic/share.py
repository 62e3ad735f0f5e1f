"""One writer of a synthetic store, a process of its own: it writes the trials of its tasks through its own recorder.

    python -m tests.synthetic.share ROOT NAME RUN_ID SEED EVENTS NUMBER WRITERS

It prints the number of events after every few trials, and ``oracles`` when its ``full`` trials are there; then it waits
for a line, because budgets are recorded before the first injected trial.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread

from lhaw_record.recorder.errors import RecorderError, RecordingFailed
from lhaw_record.recorder.processes import refuse_pandas
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.synthetic.design import Design, Trial
from tests.synthetic.making import ORACLES
from tests.synthetic.trials import attempts_of, budget_of

STREAMS_AT_ONCE = 8
TRIALS_BETWEEN_REPORTS = 50
MOST_UNSEALED = 3  # journals for each writer: more would mean that sealing is left behind


class Share:
    """What one writer has to write.

    Args:
        store: The store.
        run_id: The run that the trials belong to.
        design: The experiment's design.
        number: Which share, from 0.
        writers: How many shares there are.
    """

    def __init__(self, store: Store, run_id: str, design: Design, number: int, writers: int) -> None:
        self._store = store
        self._run_id = run_id
        self._design = design
        self._tasks = design.tasks[number::writers]
        self._most_journals = MOST_UNSEALED * writers + 1
        self._written_events = 0
        self._written_trials = 0

    async def write(self) -> None:
        """Write everything, with a pause after the oracles.

        Raises:
            RecordingFailed: The disk refuses.
        """
        async with StoreRecorder(self._store, self._design.name) as recorder:
            await self._write_trials(recorder, self._oracles())
            _say(ORACLES)
            await anyio.to_thread.run_sync(sys.stdin.readline)
            await self._write_trials(recorder, self._others())

    def _oracles(self) -> Iterator[tuple[Trial, int | None]]:
        for task in self._tasks:
            for agent in self._design.agents:
                for trial in self._design.oracle_trials(task, agent):
                    yield trial, None

    def _others(self) -> Iterator[tuple[Trial, int | None]]:
        for task in self._tasks:
            budgets = {agent: budget_of(self._design, task, agent).budget_actions for agent in self._design.agents}
            for trial in self._design.other_trials(task):
                yield trial, budgets.get(trial.agent)

    async def _write_trials(self, recorder: StoreRecorder, trials: Iterator[tuple[Trial, int | None]]) -> None:
        """Write trials, several at once: while one waits for the disk, the next is made up."""
        try:
            async with anyio.create_task_group() as tasks:
                for _ in range(STREAMS_AT_ONCE):
                    tasks.start_soon(self._write_some, recorder, trials)
        except* RecordingFailed as errors:
            raise errors.exceptions[0] from None
        self._report()

    async def _write_some(self, recorder: StoreRecorder, trials: Iterator[tuple[Trial, int | None]]) -> None:
        for trial, budget_actions in trials:
            for number, events in attempts_of(self._design, trial, self._run_id, budget_actions):
                stream = recorder.attempt(trial.trial_id, number)
                await stream.append(*events)
                self._written_events += len(events)
            self._written_trials += 1
            if self._written_trials % TRIALS_BETWEEN_REPORTS == 0:
                self._report()
                while len(self._store.journals()) > self._most_journals:  # noqa: ASYNC110 - sealers give no event
                    await anyio.sleep(0.05)

    def _report(self) -> None:
        _say(str(self._written_events))
        self._written_events = 0


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the maker listens


def main(arguments: list[str]) -> int:
    """Write the share named on the command line; the exit code is 0, 1 or 130."""
    refuse_pandas()
    root, name, run_id, *numbers = arguments
    seed, events, number, writers = map(int, numbers)
    try:
        share = Share(Store(Path(root)), run_id, Design(seed, events, name), number, writers)
        anyio.run(share.write)
    except RecorderError as error:
        print(f"lhaw-record: {error}", file=sys.stderr)  # noqa: T201 - it has no other voice
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
