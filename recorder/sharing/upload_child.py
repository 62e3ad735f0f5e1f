"""The child process of a publisher, which seals and uploads one journal after another for the lifetime of the run.

    python -m lhaw_record.recorder.sharing.upload_child STORE SOCKET PATIENCE_S

Sealing in the run's own process would block its event loop. Starting a new process for each journal would take 0.6 s of
CPU time, more than the upload. Each journal comes with its descriptor, so that its lock is held until the journal is
published, even if the run dies.
"""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from lhaw_record.recorder.processes import receive_message, refuse_pandas, send_message, start_module
from lhaw_record.recorder.storage.journal import JournalFile
from lhaw_record.recorder.storage.store import Store

_DONE = b"0"
_FAILED = b"1"


class UploadChild:
    """The run's side of the uploading child process, which starts on first use.

    Methods block, and an object must be used by one thread only.
    """

    def __init__(self, store: Store, patience_s: float) -> None:
        self._store = store
        self._patience_s = patience_s
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def publish(self, journal: JournalFile) -> bool:
        """Seal and upload a closed journal. Return whether its segment was published."""
        reply = self._ask(journal)
        if reply == b"":  # the child was killed; try once more
            self.close()
            reply = self._ask(journal)
        return reply == _DONE

    def close(self) -> None:
        """End the child process and wait for it."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()
        self._socket = self._process = None

    def _ask(self, journal: JournalFile) -> bytes:
        with suppress(BrokenPipeError, ConnectionResetError):
            send_message(self._connected(), os.fsencode(journal.path), [journal.descriptor])
            return self._connected().recv(1)
        return b""

    def _connected(self) -> socket.socket:
        if self._socket is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            with theirs:
                arguments = [str(self._store.root), str(theirs.fileno()), str(self._patience_s)]
                self._process = start_module("lhaw_record.recorder.sharing.upload_child", arguments, theirs.fileno())
            self._socket = ours
        return self._socket


def main(arguments: list[str]) -> int:
    """Publish the journals received through the socket until the run closes it."""
    refuse_pandas()
    import pyarrow as pa

    from lhaw_record.recorder.errors import RecorderError
    from lhaw_record.recorder.sealing.seal import seal

    root, descriptor, patience_s = arguments
    store = Store(Path(root))
    assert store.remote is not None
    store.remote.patience_s = float(patience_s)
    with socket.socket(fileno=int(descriptor)) as connection:
        while True:
            message, descriptors = receive_message(connection, 1)
            if not message:
                return 0
            try:
                seal(store, Path(os.fsdecode(message)))
                reply = _DONE
            except (RecorderError, OSError, pa.ArrowException) as error:
                print(f"lhaw-record: publishing failed: {error}", file=sys.stderr, flush=True)  # noqa: T201 - a child can only print
                reply = _FAILED
            finally:
                os.close(descriptors[0])
            with suppress(BrokenPipeError):  # the run died; its journal is published
                connection.send(reply)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
