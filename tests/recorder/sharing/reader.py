"""A reader: ``python -m tests.recorder.sharing.reader ADDRESS STREAMS`` looks again and again until so many have ended.

Prints ``ended N`` when more streams have ended than before. Ends with 1 and the reason when a look has a gap or an
event twice, or less than the look before.
"""

import sys
from collections import defaultdict

from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.events.closing import CLOSING
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.sharing.address import open_address, store_address


def look(root, before):
    """Return what streams hold now and how many have ended.

    Raises:
        AssertionError: An event is missing, twice, or no longer there.
    """
    found = defaultdict(list)
    ended = 0
    for envelope in read_envelopes(root):
        found[envelope.stream_id].append(envelope.sequence)
        ended += isinstance(envelope.event, CLOSING)
    for stream_id, sequences in found.items():
        assert sorted(sequences) == list(range(len(sequences))), f"{stream_id} has {sorted(sequences)}"
    for stream_id, count in before.items():
        assert len(found[stream_id]) >= count, f"{stream_id} had {count} events and has {len(found[stream_id])}"
    return {stream_id: len(sequences) for stream_id, sequences in found.items()}, ended


def main(address, wanted):
    """Look until so many streams have ended."""
    root = open_address(store_address(address))
    held, ended, said = {}, 0, 0
    while ended < wanted:
        try:
            held, ended = look(root, held)
        except StoreError as error:
            if "holds no shared store" in str(error) and not held:
                continue  # the first writer has not made it yet
            raise
        if ended > said:
            said = ended
            sys.stdout.write(f"ended {ended}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
