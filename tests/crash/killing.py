"""Kills: a child records, SIGKILL comes before, in the middle of, or after some operation, and a reader watches.

    python -m tests.crash.killing FOLDER SCENARIO SEED STEP

runs in a process of its own, because it forks, and prints one line of JSON at the end: how many deaths, and what was
wrong after which.
"""

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import anyio

from lhaw_record.recorder.files.disk import Disk
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from tests.crash.judge import Watching, problems_after
from tests.crash.unsynced import UnsyncedDisk
from tests.crash.workload import record

MOMENTS = ("before", "middle", "after")
LOOK_S = 0.002
"""Between two looks: the writers shall have the processor too."""
MENDING_S = 0.25
"""About as long as the writers of a crowd take."""


class KillingDisk(UnsyncedDisk):
    """Kills its own process at one moment of its n-th operation; a write can be cut in the middle."""

    def __init__(self, operation: int, moment: str) -> None:
        self._left = operation
        self._counting = threading.Lock()
        self._moment = moment

    def create(self, path: Path) -> int:
        return self._deadly(lambda: super(KillingDisk, self).create(path))

    def write(self, descriptor: int, data: bytes) -> None:
        def half() -> None:
            super(KillingDisk, self).write(descriptor, data[: len(data) // 2])

        self._deadly(lambda: super(KillingDisk, self).write(descriptor, data), half)

    def sync(self, descriptor: int) -> None:
        self._deadly(lambda: super(KillingDisk, self).sync(descriptor))

    def truncate(self, descriptor: int, size: int) -> None:
        self._deadly(lambda: super(KillingDisk, self).truncate(descriptor, size))

    def rename(self, source: Path, target: Path) -> None:
        self._deadly(lambda: super(KillingDisk, self).rename(source, target))

    def remove(self, path: Path) -> None:
        self._deadly(lambda: super(KillingDisk, self).remove(path))

    def make_directory(self, path: Path) -> None:
        self._deadly(lambda: super(KillingDisk, self).make_directory(path))

    def sync_directory(self, path: Path) -> None:
        self._deadly(lambda: super(KillingDisk, self).sync_directory(path))

    def _deadly(self, operation: Callable[[], object], half: Callable[[], None] = lambda: None) -> object:
        with self._counting:
            self._left -= 1
            is_last = self._left == 0  # other threads count on while this operation runs
        if is_last and self._moment != "after":
            if self._moment == "middle":
                half()
            os.kill(os.getpid(), signal.SIGKILL)
        result = operation()
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class Child:
    """A forked process; what it acknowledges comes through a pipe, which outlives it."""

    def __init__(self, work: Callable[[Callable[[str], None]], None]) -> None:
        self._pipe, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                work(lambda stream_id: os.write(write_end, f"{stream_id}\n".encode()) and None)
            except BaseException as error:  # noqa: BLE001 - it must not return into the parent's code
                print(repr(error), file=sys.stderr)
                os._exit(1)
            os._exit(0)
        os.close(write_end)
        self.exit_code: int | None = None

    def has_ended(self) -> bool:
        """Whether it is gone."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.exit_code = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def acknowledged(self) -> Counter[str]:
        """Everything it acknowledged; call it once, after its end."""
        with os.fdopen(self._pipe, "rb") as pipe:
            return Counter(pipe.read().decode().splitlines())


def watch(children: list[Child], watching: Watching) -> Counter[str]:
    """Look at the store until all children have ended; return what they acknowledged."""
    left = list(children)
    while left:
        left = [child for child in left if not child.has_ended()]
        watching.look()
        time.sleep(LOOK_S)
    return sum((child.acknowledged() for child in children), Counter())


def kill_a_writer(root: Path, operation: int, moment: str) -> tuple[list[str], bool]:
    """Kill a writer at one of its operations; return the problems, and whether it lived to its end."""
    child = Child(lambda told: anyio.run(lambda: record(root, KillingDisk(operation, moment), told)))
    watching = Watching(root)
    acknowledged = watch([child], watching)
    return watching.problems + problems_after(root, acknowledged), child.exit_code == 0


def kill_a_recovery(root: Path, operation: int, moment: str) -> tuple[list[str], bool]:
    """Leave a dead writer's store, kill its recovery and compaction at one of their operations."""
    writer = Child(lambda told: anyio.run(lambda: record(root, KillingDisk(100, "middle"), told)))
    acknowledged = watch([writer], Watching(root))

    def mend(_: Callable[[str], None]) -> None:
        store = Store(root, KillingDisk(operation, moment))
        recover(store)
        compact(store, grace_s=0.0)

    mender = Child(mend)
    watching = Watching(root)
    watch([mender], watching)
    return watching.problems + problems_after(root, acknowledged), mender.exit_code == 0


def crowd(root: Path, operation: int, moment: str) -> tuple[list[str], bool]:
    """Let two writers, two recoverers and two compactors work at once, one writer to be killed, and a reader look."""
    create_store(root, UnsyncedDisk())

    def mend(work: Callable[[Store], object]) -> Callable[[Callable[[str], None]], None]:
        def again(_: Callable[[str], None]) -> None:
            ends_s = time.monotonic() + MENDING_S
            while time.monotonic() < ends_s:
                work(Store(root, UnsyncedDisk()))

        return again

    def write(prefix: str, disk: Disk) -> Callable[[Callable[[str], None]], None]:
        return lambda told: anyio.run(lambda: record(root, disk, told, prefix=prefix))

    children = [
        Child(write("a", KillingDisk(operation, moment))),
        Child(write("b", UnsyncedDisk())),
        *(Child(mend(recover)) for _ in range(2)),
        *(Child(mend(lambda store: compact(store, grace_s=0.0))) for _ in range(2)),
    ]
    watching = Watching(root)
    acknowledged = watch(children, watching)
    failed = [child.exit_code for child in children[1:] if child.exit_code != 0]
    problems = [f"bystanders ended with {failed}"] if failed else []
    return problems + watching.problems + problems_after(root, acknowledged), children[0].exit_code == 0


SCENARIOS = {"writer": kill_a_writer, "recovery": kill_a_recovery, "crowd": crowd}


def main(folder: Path, scenario: str, seed: int, step: int) -> None:
    """Kill at every ``step``-th operation, at a moment chosen by chance, until the victim lives to its end."""
    chance, deaths, found, operation = Random(seed), 0, [], 0
    while True:
        operation += chance.randint(1, 2 * step - 1)
        moment = chance.choice(MOMENTS)
        root = folder / f"{scenario}-{operation}"
        problems, has_lived = SCENARIOS[scenario](root, operation, moment)
        found += [f"{scenario}, {moment} operation {operation}, seed {seed}: {problem}" for problem in problems]
        if has_lived:
            break
        deaths += 1
        if not problems:
            shutil.rmtree(root)
    print(json.dumps({"deaths": deaths, "problems": found}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
