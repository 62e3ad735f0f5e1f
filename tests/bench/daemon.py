"""``python -m tests.bench.daemon``: the daemon's memory and time per call over many HTTP calls and live readers."""

import argparse
import http.client
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lhaw_record.runners.runs.daemon.client import Client, read_address
from lhaw_record.runners.runs.daemon.messages import Submission
from tests.cli.experiments import write_experiment
from tests.cli.program import end, start, wait_until

CALLS = 10_000
_PARTS = 5
_READERS_EACH = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Call a daemon again and again, and print what each fifth of the calls took and left."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.daemon", description="Measure the daemon.")
    parser.add_argument("--calls", type=int, default=CALLS, help="default: %(default)s")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-daemon-") as temporary, _serving(Path(temporary)) as (pid, address):
        print(f"{'calls':>7} {'readers':>8} {'p50 ms':>7} {'p99 ms':>7} {'RSS MB':>7}")  # noqa: T201
        for part in range(1, _PARTS + 1):
            times_ms = _calls(address, options.calls // _PARTS)
            _readers(address, _READERS_EACH)
            p50, p99 = statistics.median(times_ms), statistics.quantiles(times_ms, n=100)[98]
            done = part * len(times_ms), part * _READERS_EACH
            print(f"{done[0]:>7} {done[1]:>8} {p50:>7.2f} {p99:>7.2f} {_rss_mb(pid):>7.1f}", flush=True)  # noqa: T201
    return 0


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[int, tuple[str, int]]]:
    """A daemon whose one experiment is finished, by its process and address."""
    store = folder / "store"
    process = start("serve", "--store", store, "--port", "0")
    try:
        wait_until(lambda: read_address(store) is not None, "the daemon said where it is")
        found = read_address(store)
        assert found is not None
        path = write_experiment(folder / "e.toml")
        client = Client(found.url)
        client.submit(Submission(config_toml=path.read_text(), path=str(path)))
        wait_until(lambda: client.status("small").overview.state == "finished", "the experiment is finished")
        host, _, port = found.url.removeprefix("http://").partition(":")
        yield process.pid, (host, int(port))
    finally:
        process.terminate()
        end(process)


def _calls(address: tuple[str, int], count: int) -> list[float]:
    """The milliseconds of calls over one connection: lists, details and pages in turn."""
    connection = http.client.HTTPConnection(*address)
    paths = ("/api/experiments", "/api/experiments/small", "/", "/experiments/small")
    times_ms = []
    for number in range(count):
        began = time.perf_counter()
        connection.request("GET", paths[number % len(paths)])
        connection.getresponse().read()
        times_ms.append((time.perf_counter() - began) * 1e3)
    connection.close()
    return times_ms


def _readers(address: tuple[str, int], count: int) -> None:
    """Readers of live events that come, see the snapshot and vanish."""
    for _ in range(count):
        connection = http.client.HTTPConnection(*address)
        connection.request("GET", "/api/events")
        connection.getresponse().read1(1 << 16)
        connection.close()


def _rss_mb(pid: int) -> float:
    """The memory that a process holds, in megabytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(kilobytes) / 1024


if __name__ == "__main__":
    raise SystemExit(main())
