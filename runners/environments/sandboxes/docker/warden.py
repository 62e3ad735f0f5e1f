"""Remove the services of a process that was killed.

The warden runs as a second process: ``python -m lhaw_record.runners.environments.sandboxes.docker.warden``. A container
with a driver ends when its connection to us closes. A service has no such connection, and would otherwise run until the
next start.
"""

import atexit
import os
import subprocess
import sys
import threading
import time

from lhaw_record.recorder.processes import start

_ORDERLY = b"."
_wardens: dict[tuple[int, str], "subprocess.Popen[bytes]"] = {}
_starting = threading.Lock()


def watch() -> None:
    """Start this process's warden once per engine. Safe to call from any thread."""
    key = (os.getpid(), os.environ.get("DOCKER_HOST", ""))
    with _starting:
        if key not in _wardens:
            silent = subprocess.DEVNULL
            command = [sys.executable, "-m", "lhaw_record.runners.environments.sandboxes.docker.warden"]
            _wardens[key] = start(command, stdin=subprocess.PIPE, stdout=silent, stderr=silent)
            atexit.register(_dismiss, key)


def _dismiss(key: tuple[int, str]) -> None:
    if key[0] == os.getpid():
        _wardens.pop(key).communicate(_ORDERLY)


def main() -> None:
    """Wait until the parent process has ended. If it was killed, remove its services."""
    parent = os.getppid()
    if sys.stdin.buffer.read() == _ORDERLY:
        return
    while os.getppid() == parent:
        time.sleep(0.05)
    import anyio

    anyio.run(_reap)


async def _reap() -> None:
    from lhaw_record.runners.environments.sandboxes.docker.containers import reap
    from lhaw_record.runners.environments.sandboxes.docker.engine import connected

    async with connected() as docker:
        await reap(docker)


if __name__ == "__main__":
    main()
