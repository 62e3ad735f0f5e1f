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

    return Hub("boot", snapshot, **settings)


async def read(stream, count):
    """The next events as (id, name, data)."""
    found = []
    with anyio.fail_after(600):
        async for text in stream:
            fields = dict(line.split(": ", 1) for line in text.decode().strip().splitlines())
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
            if len(found) == count:
                return found
    return found


async def test_a_new_reader_gets_everything_and_then_what_is_new():
    """The first event is a snapshot; events from before are in it and are not told again."""
    events = hub()
    events.publish("trial", "e", {"n": 1})
    stream = events.follow()
    assert await read(stream, 1) == [("boot-1", "snapshot", {"taken": 1})]


async def test_a_reader_that_comes_back_misses_nothing():
    """With the id of its last event a reader gets exactly what came after it."""
    events = hub()
    for number in range(5):
        events.publish("trial", "e", {"n": number})
    found = await read(events.follow(last_event_id="boot-3"), 2)
    assert found == [("boot-4", "trial", {"n": 3}), ("boot-5", "trial", {"n": 4})]


async def test_an_id_of_another_daemon_or_from_long_ago_gives_a_snapshot():
    """What cannot be continued is begun anew, so that a page is never stale."""
    events = hub(ring_events=3)
    for number in range(9):
        events.publish("trial", "e", {"n": number})
    for last in ("other-8", "boot-2", "boot-99", "boot-x", "", "boot"):
        assert (await read(events.follow(last_event_id=last), 1))[0][1] == "snapshot", last


async def test_a_slow_reader_skips_to_now():
    """A reader that falls out of the ring gets a snapshot and goes on; nothing is kept for it."""
    events = hub(ring_events=3)
    stream = events.follow()
    await read(stream, 1)
    stream = events.follow(last_event_id="boot-0")
    for number in range(100):
        events.publish("trial", "e", {"n": number})
    found = await read(stream, 1)
    assert found[0][:2] == ("boot-100", "snapshot")


async def test_events_of_one_experiment():
    """A reader of one experiment hears of that one only."""
    events = hub()
    for name in ("a", "b", "a"):
        events.publish("trial", name, {"of": name})
    found = await read(events.follow("a", "boot-0"), 2)
    assert [each[0] for each in found] == ["boot-1", "boot-3"]


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
