"""A writer: ``python -m tests.recorder.sharing.writer ADDRESS PREFIX STREAMS ACTIONS``.

Prints ``ack STREAM N`` when the N-th event of a stream is durable, and ``end STREAM N`` when its closing event, the
N-th, is acknowledged. A fifth argument ``halves`` makes it print ``half`` after half of the streams and wait for a line
on its standard input; ``wait`` makes it wait at the end until somebody kills it.
"""

import sys

import anyio
import anyio.lowlevel
import anyio.to_thread

from lhaw_record.recorder.sharing.address import open_address, store_address
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.recorder.stores import failed, finished, started

ROTATE_BYTES = 6000


def say(text):
    """One line, whole."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def write(address, prefix, streams, actions, mode):
    """Record some streams at once, each with its actions and a closing event."""
    store = create_store(open_address(store_address(address)))

    async def one(number):
        stream = recorder.stream(f"{prefix}{number}", trial_id=f"{prefix}{number}", attempt=1)
        for index in range(actions):
            await stream.append(started(index), finished(index, f"result {number}.{index} " * 8))
            say(f"ack {stream.stream_id} {2 * index + 2}")
            await anyio.lowlevel.checkpoint()
        await stream.append(failed())
        say(f"end {stream.stream_id} {2 * actions + 1}")

    async def many(numbers):
        async with anyio.create_task_group() as tasks:
            for number in numbers:
                tasks.start_soon(one, number)

    async with StoreRecorder(store, "exp", rotate_bytes=ROTATE_BYTES) as recorder:
        say("ready")
        middle = streams // 2 if mode == "halves" else streams
        await many(range(middle))
        if mode == "halves":
            say("half")
            await anyio.to_thread.run_sync(sys.stdin.readline)
            await many(range(middle, streams))
        if mode == "wait":
            await anyio.sleep_forever()


if __name__ == "__main__":
    address, prefix, streams, actions, *more = sys.argv[1:]
    anyio.run(write, address, prefix, int(streams), int(actions), more[0] if more else "")
