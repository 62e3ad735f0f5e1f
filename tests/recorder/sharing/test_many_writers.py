"""Several hosts write to one store at once, and everybody reads one stream."""

import pytest

from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.sealing.compaction import compact
from tests.recorder.sharing.hosts import ended_well, lines_until

WRITERS, STREAMS, ACTIONS = 3, 6, 12


@pytest.mark.thorough
def test_many_hosts_write_and_readers_see_one_stream(address, new_host):
    """Three hosts begin at once and write, and no reader ever sees a gap, an event twice, or less than before.

    One reader has a host of its own, one shares it, one is on the host of a writer; all look while it grows. In the
    end, compacted, every host has every event once.
    """
    writing, reading = [new_host(address) for _ in range(WRITERS)], new_host(address)
    wanted = WRITERS * STREAMS
    readers = [host.start("tests.recorder.sharing.reader", address, wanted) for host in (reading, reading, writing[0])]
    writers = [
        host.start("tests.recorder.sharing.writer", address, f"host{number}.", STREAMS, ACTIONS, "halves")
        for number, host in enumerate(writing)
    ]
    for writer in writers:
        lines_until(writer, "half")
    for reader in readers:
        lines_until(reader, f"ended {wanted // 2}")
    for writer in writers:
        writer.stdin.write("go on\n")
        writer.stdin.flush()
    ended_well([*writers, *readers])
    compact(writing[0].store())
    expected = {
        f"host{writer}.{stream}": list(range(2 * ACTIONS + 1)) for writer in range(WRITERS) for stream in range(STREAMS)
    }
    for host in (*writing, reading, new_host(address)):
        assert _sequences(host.root) == expected
        assert verify(host.root).findings == ()


def _sequences(root):
    found = {}
    for envelope in sorted(read_envelopes(root), key=lambda each: each.sequence):
        found.setdefault(envelope.stream_id, []).append(envelope.sequence)
    return found
