"""A small recording of which every event is known beforehand: streams of appends, rotations, seals and a compaction."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread

from lhaw_record.recorder.events import ActionFinished, ArtifactStored, TrialFailed
from lhaw_record.recorder.files.disk import Disk
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.sealing.seal import seal
from lhaw_record.recorder.storage.blobs import store_blob
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.journal import JournalFile
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.recorder import Clock, Sealing
from lhaw_record.recorder.writing.store_recorder import StoreRecorder

EXPERIMENT = "exp"
STREAMS = 4
APPENDS = 9
ARTIFACT_APPEND = 2
ROTATE_BYTES = 3000


def stream_name(number: int, prefix: str = "s") -> str:
    """The id of a stream."""
    return f"{prefix}{number}"


def stream_number(stream_id: str) -> int:
    """Its number."""
    return int(stream_id.lstrip("abcdefghijklmnopqrstuvwxyz"))


def artifact_of(stream: int) -> bytes:
    """The bytes that every second stream leaves behind."""
    return b"left behind by %d\n" % stream * 40


def append_of(stream: int, number: int, appends: int = APPENDS):
    """The events of one append: one to three, the last append closes the stream."""
    if number == ARTIFACT_APPEND and stream % 2 == 0:
        content = artifact_of(stream)
        sha256 = hashlib.sha256(content).hexdigest()
        return (
            ArtifactStored(sha256=sha256, media_type="text/plain", size_bytes=len(content), role="patch", name="a"),
        )
    if number == appends - 1:
        return (TrialFailed(boundary="model", error_kind="timeout", message="no reply", is_retry_owed=False),)
    count = 1 + (stream + number) % 3
    return tuple(
        ActionFinished(
            action_index=number + 1, is_error=False, result=f"{stream}.{number}.{each} " * (6 + number), duration_ms=1.0
        )
        for each in range(count)
    )


class InProcess:
    """Seals at once, in the thread that asks, through the disk of the store; a test sees every step of it."""

    def __init__(self, store: Store, journal: JournalFile) -> None:
        seal(store, journal.path)

    def wait(self) -> int:
        """It is done."""
        return 0


async def record(
    root: Path,
    disk: Disk,
    acknowledged: Callable[[str], None],
    *,
    start_sealing: Callable[[Store, JournalFile], Sealing] = InProcess,
    clock: Clock | None = None,
    prefix: str = "s",
    streams: int = STREAMS,
    appends: int = APPENDS,
) -> None:
    """Make a store, record every stream at once, seal on the way, then compact and remove what was replaced."""
    store = create_store(root, disk)
    async with StoreRecorder(
        store, EXPERIMENT, rotate_bytes=ROTATE_BYTES, start_sealing=start_sealing, clock=clock
    ) as recorder:

        async def one(number: int) -> None:
            stream = recorder.stream(stream_name(number, prefix), trial_id=f"t{number}", attempt=1)
            for each in range(appends):
                if isinstance(append_of(number, each, appends)[0], ArtifactStored):
                    await anyio.to_thread.run_sync(store_blob, store, artifact_of(number))
                await stream.append(*append_of(number, each, appends))
                acknowledged(stream.stream_id)

        async with anyio.create_task_group() as tasks:
            for number in range(streams):
                tasks.start_soon(one, number)
    compact(store, grace_s=0.0)
