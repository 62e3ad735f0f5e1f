"""Live events: nothing is missed or told twice, and readers cost nothing."""

import json

import anyio

from lhaw_record.runners.runs.daemon.live_events import Hub


def hub(**settings):
    """A hub whose snapshot tells how often it was taken."""
    taken = []

    def snapshot(name):
        taken.append(name)
        return json.dumps({"taken": len(taken)}).encode()

    return Hub(snapshot, **settings)


async def read(stream, count):
    """The next events as (name, data)."""
    found = []
    with anyio.fail_after(600):
        async for text in stream:
            fields = dict(line.split(": ", 1) for line in text.decode().strip().splitlines())
            found.append((fields["event"], json.loads(fields["data"])))
            if len(found) == count:
                return found
    return found


async def test_a_new_reader_gets_everything_and_then_what_is_new():
    """The first event is a snapshot; events from before are in it and are not told again."""
    events = hub()
    events.publish("trial", "e", {"n": 1})
    stream = events.follow()
    assert await read(stream, 1) == [("snapshot", {"taken": 1})]
    events.publish("trial", "e", {"n": 2})
    assert await read(stream, 1) == [("trial", {"n": 2})]


async def test_a_slow_reader_skips_to_now():
    """For a reader that is too slow, only so many events are kept; it gets a snapshot and goes on."""
    events = hub(most_waiting=3)
    stream = events.follow()
    await read(stream, 1)
    for number in range(3):
        events.publish("trial", "e", {"n": number})
    assert [data["n"] for _, data in await read(stream, 3)] == [0, 1, 2]
    for number in range(100):
        events.publish("trial", "e", {"n": number})
    assert await read(stream, 1) == [("snapshot", {"taken": 2})]
    events.publish("trial", "e", {"n": 100})
    assert await read(stream, 1) == [("trial", {"n": 100})]


async def test_events_of_one_experiment():
    """A reader of one experiment hears of that one only."""
    events = hub()
    stream = events.follow("a")
    await read(stream, 1)
    for number, name in enumerate(("a", "b", "a")):
        events.publish("trial", name, {"n": number})
    assert [data["n"] for _, data in await read(stream, 2)] == [0, 2]


async def test_readers_end_with_the_hub():
    """Closing lets every reader end, and the count of readers returns to nothing."""
    events = hub()
    begun, ended = [anyio.Event() for _ in range(3)], []

    async def follow(began):
        async for _ in events.follow():
            began.set()
        ended.append(True)

    with anyio.fail_after(600):
        async with anyio.create_task_group() as tasks:
            for each in begun:
                tasks.start_soon(follow, each)
            for each in begun:
                await each.wait()
            assert events.readers == 3
            events.close()
    assert (len(ended), events.readers) == (3, 0)
