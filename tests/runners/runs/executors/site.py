"""One test's place on a Ray cluster: a shared store, hosts with homes of their own, and runs from one of them."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from lhaw_record.recorder.sharing.address import HOME_VARIABLE, open_address, store_address
from lhaw_record.recorder.storage.store import has_store
from tests.cli.program import PATIENCE_SECONDS, count_events, descendants, end, environment, start, wait_until
from tests.runners.runs.executors.cluster import OBJECT_STORE_BYTES, QUICK
from tests.support.needs import BARE_RAY

SETTINGS = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
"""Of every process of Ray: no token in the home folder, nothing told to its makers."""


class Cluster:
    """The helper process behind a cluster; ``extra`` is put into the environment of its nodes."""

    def __init__(self, extra=None):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.runners.runs.executors.cluster"],
            env=environment({**SETTINGS, **(extra or {})}),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self._process.pid
        self.address = self._line()
        self._alive = set()

    def add(self, home, processors):
        """Add a node; returns its number."""
        number = int(self._ask(f"add {home} {processors}"))
        self._alive.add(number)
        return number

    def kill(self, number):
        """End a node as a power cut does."""
        self._alive.remove(number)
        self._ask(f"kill {number}")

    def kill_all(self):
        """End every node but the head."""
        for number in sorted(self._alive):
            self.kill(number)

    def close(self):
        """End the cluster."""
        self._process.communicate("end\n", timeout=PATIENCE_SECONDS)

    def _ask(self, line):
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self):
        line = self._process.stdout.readline()
        assert line, "the cluster's process has ended"
        return line.strip()


class BareCluster:
    """A cluster as somebody else has it: its machines have Ray, and of ours neither packages nor files.

    Every node is ``ray start`` in a home and a working directory of its own, and keeps to a folder of its own. The head
    has no processors. ``environment`` is that of all nodes.
    """

    def __init__(self, environment):
        self._folder = Path(tempfile.mkdtemp(prefix="ray-"))  # paths of sockets are short
        left_out = ("PYTHONPATH", "VIRTUAL_ENV", HOME_VARIABLE)
        kept = {name: value for name, value in os.environ.items() if name not in left_out}
        self._environment = {**kept, **SETTINGS, **environment, "PATH": f"{BARE_RAY}:{kept['PATH']}"}
        self._nodes = []
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self._start(
            self._folder / "head", 0, "--head", f"--port={port}", "--include-dashboard=false",
            f"--system-config={json.dumps(QUICK)}",
        )  # fmt: skip

    def add(self, home, processors):
        """Add a node; returns its number."""
        self._start(home, processors, f"--address={self.address}")
        return len(self._nodes) - 1

    def kill(self, number):
        """End a node as a power cut does."""
        node = self._nodes[number]
        pids = [node.pid, *descendants(node.pid)]
        for signal_number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal_number)
        node.wait()

    def kill_all(self):
        """End every node but the head."""
        for number in range(1, len(self._nodes)):
            self.kill(number)

    def close(self):
        """End the cluster."""
        self.kill_all()
        self.kill(0)
        shutil.rmtree(self._folder)

    def texts(self):
        """Yield the path and content of each file that Ray wrote, but of environments with installed packages."""
        for path in self._folder.rglob("*"):
            if path.is_file() and "pip" not in path.parts:
                yield path, path.read_bytes()

    def _start(self, home, processors, *more):
        home.mkdir(parents=True)
        own = self._folder / str(len(self._nodes))
        said = home / "said.txt"
        options = (f"--num-cpus={processors}", f"--temp-dir={own}", f"--object-store-memory={OBJECT_STORE_BYTES}")
        with said.open("w") as out:
            node = subprocess.Popen(
                [BARE_RAY / "ray", "start", "--block", *options, *more],
                env={**self._environment, "HOME": str(home)},
                cwd=home,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # one that ends takes its group along
            )
        self._nodes.append(node)
        wait_until(lambda: "--block" in said.read_text(), "a node was there", node)


class Site:
    """One test's place: a shared store, hosts with homes of their own, and runs from one of them."""

    def __init__(self, cluster, folder, extra=None):
        self.cluster = cluster
        self._extra = extra or {}
        self.address = f"shared:{folder}/mounted"
        self._folder = folder
        self._started = []

    def home(self, name):
        """Where a host keeps its working copies."""
        return self._folder / name

    def add(self, name, processors=1):
        """Add a node; returns its number."""
        return self.cluster.add(self.home(name), processors)

    def lose(self, number, name):
        """Lose a node with its disk."""
        self.cluster.kill(number)
        shutil.rmtree(self.home(name))

    def root(self, name="driver"):
        """The working copy of a host."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(HOME_VARIABLE, str(self.home(name)))
            return open_address(store_address(self.address))

    def start(self, experiment, *more):
        """Start a run on the cluster from the host ``driver``."""
        extra = {
            **SETTINGS,
            **self._extra,
            "RAY_ADDRESS": self.cluster.address,
            HOME_VARIABLE: str(self.home("driver")),
        }
        command = ("run", experiment, "--store", self.address, "--executor", "ray", *more)
        self._started.append(start(*command, extra=extra))
        return self._started[-1]

    def count(self, event_type):
        """Count the published events of a type, also before there is a store."""
        root = self.root()
        return count_events(root, event_type) if has_store(root) else 0

    def workers(self):
        """Return the process ids of the workers that are there now."""
        below = descendants(self.cluster.pid)
        return [pid for pid in below if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::Worker")]

    def close(self):
        """End what still runs."""
        for process in self._started:
            process.kill()
            process.communicate()
        self.cluster.kill_all()

    def run(self, experiment, *more):
        """Run to the end."""
        return end(self.start(experiment, *more))
