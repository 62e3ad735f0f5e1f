"""The child process of a publisher: it seals and uploads one journal after another, as long as its run lives.

    python -m recorder.sharing.publishing_child STORE SOCKET PATIENCE_S

Sealing would block the run's event loop, and a process for every journal would cost more than the upload (measured:
0.6 s of a processor to start one). Each journal comes with its descriptor, so that its lock is held until its events
are published, also when the run dies meanwhile.
"""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from recorder import own_session
from recorder.journal import JournalFile
from recorder.no_pandas import refuse_pandas
from recorder.store import Store

_LONGEST_MESSAGE = 65_536
_DONE = b"0"
_FAILED = b"1"


class PublishingChild:
    """The run's side of the child process, which is started when it is needed. Blocking; for one thread.

    Args:
        store: A working copy of a shared store, made for writing.
        patience_s: For how long a lost connection is tried again.
    """

    def __init__(self, store: Store, patience_s: float) -> None:
        self._store = store
        self._patience_s = patience_s
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def publish(self, journal: JournalFile) -> bool:
        """Seal and upload a journal that was closed in order; returns whether its segment is published.

        Raises:
            OSError: No process can be started.
        """
        reply = self._ask(journal)
        if reply == b"":  # somebody killed the child; another one may do better
            self.close()
            reply = self._ask(journal)
        return reply == _DONE

    def close(self) -> None:
        """Let the child end."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()
        self._socket = self._process = None

    def _ask(self, journal: JournalFile) -> bytes:
        with suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._connected(), [os.fsencode(journal.path)], [journal.descriptor])
            return self._connected().recv(1)
        return b""

    def _connected(self) -> socket.socket:
        if self._socket is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                command = [sys.executable, "-m", "recorder.sharing.publishing_child", str(self._store.root)]
                self._process = own_session.start(
                    [*command, str(theirs.fileno()), str(self._patience_s)],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                )
            self._socket = ours
        return self._socket


def main(arguments: list[str]) -> int:
    """Publish what comes through the socket until the run closes it."""
    refuse_pandas()
    import pyarrow as pa

    from recorder.errors import RecorderError
    from recorder.seal import seal

    root, descriptor, patience_s = arguments
    store = Store(Path(root))
    assert store.remote is not None
    store.remote.patience_s = float(patience_s)
    with socket.socket(fileno=int(descriptor)) as connection:
        while True:
            message, descriptors, _, _ = socket.recv_fds(connection, _LONGEST_MESSAGE, 1)
            if not message:
                return 0
            try:
                seal(store, Path(os.fsdecode(message)))
                reply = _DONE
            except (RecorderError, OSError, pa.ArrowException) as error:
                print(f"lhaw-record: publishing failed: {error}", file=sys.stderr, flush=True)  # noqa: T201 - its only voice
                reply = _FAILED
            finally:
                os.close(descriptors[0])
            with suppress(BrokenPipeError):  # the run has died; what it gave is published
                connection.send(reply)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
