"""Hosts of a shared store: each has a home of its own, and processes that can die all at once."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lhaw_record.recorder.files.remote import PATIENCE_VARIABLE
from lhaw_record.recorder.sharing.address import HOME_VARIABLE, open_address, store_address
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from tests.cli.program import PATIENCE_SECONDS, descendants
from tests.recorder.sharing.mutations import MUTATION_VARIABLE

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}

BROKEN = Path(__file__).with_name("broken")
ROOT = Path(__file__).parents[3]


class Host:
    """One host: its working copies lie below ``home``; ``address`` is how it calls the shared store.

    ``mutation`` names how its programs are wrong, if they are.
    """

    def __init__(self, home: Path, address: str, mutation: str = "") -> None:
        self.home = home
        self.address = address
        self.mutation = mutation
        self._started: list[subprocess.Popen[str]] = []

    @property
    def root(self) -> Path:
        """The working copy, made if it is missing."""
        before = os.environ.get(HOME_VARIABLE)
        os.environ[HOME_VARIABLE] = str(self.home)
        try:
            return open_address(store_address(self.address))
        finally:
            if before is None:
                del os.environ[HOME_VARIABLE]
            else:
                os.environ[HOME_VARIABLE] = before

    def store(self) -> Store:
        """The working copy, opened for writing."""
        return create_store(self.root)

    def start(self, module: str, *arguments: object, patience_s: float = 30.0) -> "subprocess.Popen[str]":
        """Start ``python -m module address arguments`` on this host."""
        process = subprocess.Popen(
            [sys.executable, "-m", module, *(str(each) for each in arguments)],
            env=self.environment(patience_s),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._started.append(process)
        return process

    def run(self, module: str, *arguments: object, patience_s: float = 30.0) -> "subprocess.CompletedProcess[str]":
        """Run it to its end."""
        process = self.start(module, *arguments, patience_s=patience_s)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def lhaw_record(self, *arguments: object, patience_s: float = 30.0) -> "subprocess.CompletedProcess[str]":
        """Run the program."""
        return self.run("lhaw_record", *arguments, patience_s=patience_s)

    def environment(self, patience_s: float) -> dict[str, str]:
        """What its processes find."""
        found = {
            **os.environ,
            **KEYS,
            HOME_VARIABLE: str(self.home),
            PATIENCE_VARIABLE: str(patience_s),
            "PYTHONWARNINGS": "",
        }
        if self.mutation:
            found |= {MUTATION_VARIABLE: self.mutation, "PYTHONPATH": os.pathsep.join(map(str, (BROKEN, ROOT)))}
        return found

    def die(self) -> None:
        """Kill every process of the host at once, children included; its disk stays."""
        for process in self._started:
            pids = [process.pid, *descendants(process.pid)]
            for signal_number in (signal.SIGSTOP, signal.SIGKILL):  # nobody acts on the death of another
                for pid in pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal_number)
            process.communicate()
        self._started.clear()

    def lose_disk(self) -> None:
        """Lose everything that this host alone had."""
        self.die()
        shutil.rmtree(self.home)


def lines_until(process: "subprocess.Popen[str]", wanted: str) -> list[str]:
    """Read lines of a process up to one that begins so.

    Raises:
        AssertionError: It ended before.
    """
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.strip())
        if line.startswith(wanted):
            return lines
    assert process.stderr is not None
    raise AssertionError(f"no line {wanted!r} in {lines[-5:]}: {process.stderr.read()}")


def ended_well(processes: Sequence["subprocess.Popen[str]"]) -> list[str]:
    """Wait for processes and return what each printed.

    Raises:
        AssertionError: One failed; with what it said.
    """
    printed = []
    for process in processes:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, err
        printed.append(out)
    return printed
