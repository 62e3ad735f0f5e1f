"""Beginning and ending a daemon in a store: its lock, what a dead one left, the queue, and its own stream."""

import importlib.metadata
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress

import anyio.to_thread

from recorder.canonical import canonical_json
from recorder.errors import RecordingFailed, StoreInUse
from recorder.events import CONTROL_EXPERIMENT, RunFinished
from recorder.reader import read_snapshot
from recorder.recorder import Recorder
from recorder.recovery import recover
from recorder.redaction import Redactor, secrets_of
from recorder.store import Store
from runners.daemon.daemon import Daemon
from runners.daemon.messages import DaemonFacts
from runners.daemon.queue import stored_queue
from runners.models.litellm_library import close_clients
from runners.run_started import run_started


@asynccontextmanager
async def opened_daemon(store: Store, max_trials: int) -> AsyncIterator[Daemon]:
    """Give the daemon of a store with the queue that its events say; close its stream at the end.

    Raises:
        StoreInUse: Another daemon serves the store.
        DamagedStore: A journal is damaged in the middle.
        RecordingFailed: Its stream cannot be recorded.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(store.hold_experiment(CONTROL_EXPERIMENT))
        except StoreInUse as error:
            raise StoreInUse(
                f"another daemon serves this store: {error}; 'lhaw-record status' asks it how it stands"
            ) from error
        await anyio.to_thread.run_sync(recover, store)
        queue = await anyio.to_thread.run_sync(lambda: stored_queue(read_snapshot(store.root)))
        async with Recorder(store, CONTROL_EXPERIMENT, redactor=Redactor(secrets_of(os.environ))) as recorder:
            daemon_id = f"daemon-{secrets.token_hex(6)}"
            stream = recorder.stream(daemon_id)
            config_json = canonical_json({"command": "serve", "max_trials": max_trials}).decode()
            await stream.append(run_started(daemon_id, config_json, 0, 0))
            facts = DaemonFacts(
                store=store.name,
                daemon_id=daemon_id,
                version=importlib.metadata.version("lhaw-record"),
                max_trials=max_trials,
                running=0,
            )
            try:
                yield Daemon(store, stream, queue, facts)
            finally:
                await close_clients()
                with suppress(RecordingFailed):  # leaving the recorder says it once more
                    await stream.append(_finished(daemon_id))


def _finished(daemon_id: str) -> RunFinished:
    return RunFinished(
        run_id=daemon_id, outcome="completed", trials_finished=0, trials_failed=0, trials_blocked=0, trials_left=0
    )
