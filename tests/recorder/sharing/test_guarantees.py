"""The two guarantees of a shared store, each by itself: what survives the death of its host, and what its loss."""

import pytest

from lhaw_record.recorder.events.closing import CLOSING
from lhaw_record.recorder.reading.reader import read_envelopes
from tests.recorder.sharing.hosts import lines_until


def test_what_was_appended_survives_the_death_of_its_host(bucket, cut_address, proxy, new_host):
    """Guarantee 1: an event whose append returned is there after a SIGKILL of its whole host.

    Nothing could be published before; when the host is back, all of it is.
    """
    host, elsewhere = new_host(cut_address), new_host(bucket)
    writer = host.start("tests.recorder.sharing.writer", cut_address, "s", 3, 60)
    lines_until(writer, "ready")
    proxy.cut()
    acknowledged = _last_numbers(lines_until(writer, "ack s2 120"), "ack")
    host.die()
    assert set(acknowledged) == {"s0", "s1", "s2"}
    assert _counts(elsewhere.root) == {}, "nothing was published, or this proves nothing"
    proxy.restore()
    recovered = host.lhaw_record("log", "recover", cut_address)
    assert recovered.returncode == 0, recovered.stderr
    for root in (host.root, elsewhere.root):
        found = _counts(root)
        assert all(found[stream_id] >= count for stream_id, count in acknowledged.items()), found


@pytest.mark.thorough
def test_what_was_decided_survives_the_loss_of_its_host(address, new_host):
    """Guarantee 2: when the append of a closing event has returned, other hosts see its whole stream.

    Its host is lost with its disk at this moment.
    """
    host, elsewhere = new_host(address), new_host(address)
    writer = host.start("tests.recorder.sharing.writer", address, "s", 8, 40, "wait")
    lines = [line for _ in range(5) for line in lines_until(writer, "end ")]
    host.lose_disk()
    decided = _last_numbers(lines, "end")
    assert len(decided) == 5
    found = _counts(elsewhere.root)
    assert {stream_id: found.get(stream_id) for stream_id in decided} == decided
    closed = {each.stream_id for each in read_envelopes(elsewhere.root) if isinstance(each.event, CLOSING)}
    assert closed >= set(decided)


def _last_numbers(lines, kind):
    """The highest number that was acknowledged for each stream."""
    words = [line.split() for line in lines if line.startswith(kind)]
    return {stream_id: int(number) for _, stream_id, number in words}


def _counts(root):
    """How many events each stream has; insists that they are the first ones."""
    found = {}
    for envelope in sorted(read_envelopes(root), key=lambda each: each.sequence):
        assert envelope.sequence == found.get(envelope.stream_id, 0), f"{envelope.stream_id} has a gap"
        found[envelope.stream_id] = envelope.sequence + 1
    return found
