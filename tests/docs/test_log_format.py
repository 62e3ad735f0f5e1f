"""docs/journal.txt tells the truth about the bytes of a journal."""

import re
from pathlib import Path

import msgspec

from lhaw_record.recorder.events import ActionFinished
from lhaw_record.recorder.storage.journal import read_journal
from lhaw_record.recorder.storage.journal_format import MAGIC, commit, record

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "journal.txt").read_text(encoding="utf-8")
LINE = re.compile(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)", re.MULTILINE)


def test_the_walk_through_is_a_journal():
    """The bytes on the page, at the offsets on the page, are a whole journal that the program reads and would write."""
    data = b""
    for offset, pairs in LINE.findall(PAGE):
        assert int(offset, 16) == len(data)
        data += bytes.fromhex(pairs)
    content = read_journal(Path("page.journal"), data)
    (envelope,) = content.envelopes()
    assert isinstance(envelope.event, ActionFinished)
    assert (content.header.experiment_id, content.footer.records, content.tail.torn_bytes) == ("demo", 1, 0)
    written = MAGIC
    for part in (content.header, envelope, content.footer):
        seed = content.seed if len(written) > len(MAGIC) else 0
        written += commit([record(msgspec.msgpack.encode(part))], len(written), seed)[0]
    assert written == data
