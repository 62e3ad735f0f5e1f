"""A store that an earlier version wrote is read by this one: whole, equal event for event, and with its tables."""

import lzma
import shutil
from pathlib import Path

import msgspec
import pytest

from lhaw_record.analytics.tables.tables import TABLES, tables
from lhaw_record.analytics.views import store as stores
from lhaw_record.analytics.views.store import below_tables
from lhaw_record.recorder.events import EVENT_TYPES, type_name
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.transfer.export import event_line

HERE = Path(__file__).resolve().parent
FROZEN = sorted(path for path in HERE.glob("store-*") if path.is_dir())


def _listing(root):
    return lzma.decompress(root.with_suffix(".jsonl.xz").read_bytes()).splitlines()


@pytest.fixture(params=FROZEN, ids=lambda path: path.name)
def frozen(request, tmp_path):
    """A copy of a frozen store, and its path in the repository."""
    shutil.copytree(request.param, tmp_path / "store")
    return tmp_path / "store", request.param


def test_every_checksum_and_digest_is_good(frozen):
    """Also of streams whose events have gained fields since: defaults are left out of what is digested."""
    report = verify(frozen[0])
    assert (report.findings, report.open_streams, report.journals) == ((), 1, 1)
    assert report.events == len(_listing(frozen[1]))


def test_every_event_is_what_it_was(frozen):
    """Each line of the listing is an event of the store, and the store has no other."""
    assert sorted(map(event_line, read_envelopes(frozen[0]))) == _listing(frozen[1])


def test_every_table_computes(frozen):
    """The views over an old store give every table."""
    connection = stores.open(frozen[0], only=below_tables())
    try:
        found = {each.name: each for each in tables(connection, TABLES)}
        assert connection.execute("select count(*) from trials where trial_state = 'valid'").fetchall()[0][0] > 3
        asked = connection.execute("select distinct medium, response_state from questions where answer is not null")
        assert asked.fetchall() == [("mcp", "answered")]
    finally:
        connection.close()
    assert found["trial_counts_and_cost"].rows


def test_it_can_be_kept_in_order(frozen):
    """What its writer left open is closed as interrupted, and merging changes no event."""
    store = create_store(frozen[0])
    (report,) = recover(store)
    assert report.closed_streams == ("open-1",)
    compact(store, small_records=10**6, grace_s=0.0)
    lines = set(map(event_line, read_envelopes(store.root)))
    assert set(_listing(frozen[1])) < lines
    assert len(lines) == len(_listing(frozen[1])) + 1
    assert verify(store.root).findings == ()


def test_every_event_type_is_frozen():
    """A new type is frozen before it is released; 'python -m tests.compat.freeze' does it, see README.md."""
    frozen = {msgspec.json.decode(line)["event"]["type"] for root in FROZEN for line in _listing(root)}
    assert {type_name(cls) for cls in EVENT_TYPES} == frozen


def test_unknown_values_are_frozen():
    """Null stays null, also where the default of a field says another thing, as 0 tokens and no revealed segment do."""
    events = [msgspec.json.decode(line)["event"] for root in FROZEN for line in _listing(root)]
    unknown = {"trial_started": "seed", "question_answered": "revealed"}
    for name, field in unknown.items():
        assert {each.get(field, 0) is None for each in events if each["type"] == name} == {False, True}
    usages = [each.get("usage", {}) for each in events if each["type"] == "model_responded"]
    assert {usage.get("input_tokens", 0) is None for usage in usages} == {False, True}
