"""Notes about trials are told and change no number."""

from random import Random

import pytest
from hypothesis import given, settings

from lhaw_record.analytics.tables.tables import TABLES, tables
from lhaw_record.analytics.views.build_order import all_views
from lhaw_record.analytics.views.parameters import parse_settings
from lhaw_record.analytics.views.rows import rows_of
from lhaw_record.analytics.views.store import below_tables, connect
from lhaw_record.recorder.reading.annotations import standing_notes
from tests.analytics.make_store import Store
from tests.analytics.views.test_marts_reference import SEEDS, marts_store
from tests.support.depth import at_depth

FEW = parse_settings(["draws=100", "permutations=100", "k=1"])
MARTS = [view.name for view in all_views() if view.layer == "marts" and view.name != "trial_notes"]


def _told(snapshot):
    connection = connect(snapshot, only={"trial_notes"})
    try:
        return rows_of(connection, "from trial_notes order by stream_id, author")
    finally:
        connection.close()


def test_an_authors_last_note_counts_until_it_is_taken_back():
    """Notes of several authors stand beside each other; a later one of the same author replaces the earlier."""
    store = Store(trials=1)
    store.task("t", (1.0,))
    store.trial("t", "full", 0)
    (stream,) = store.streams.values()
    store.note([stream], "anna", "first", cause="agent")
    store.note([stream, "no such attempt"], "ben", "other")
    store.note([stream], "anna", "second", cause="grader")
    assert [(row["author"], row["cause"], row["note"]) for row in _told(store.snapshot())] == [
        ("anna", "grader", "second"),
        ("ben", None, "other"),
    ]
    store.note([stream], "anna", is_undone=True)
    (row,) = _told(store.snapshot())
    assert (row["author"], row["stream_id"], row["condition"]) == ("ben", stream, "full")


@pytest.mark.thorough
@settings(max_examples=at_depth(2, 10))
@given(seed=SEEDS)
def test_notes_change_no_number(seed):
    """Every table and mart is as without the notes, and SQL and Python agree on which notes stand."""
    chance = Random(seed)
    store = marts_store(seed)
    before = store.snapshot()
    streams = sorted(store.streams.values())
    for _ in range(8):
        cause = chance.choice(["agent", "grader", None])
        chosen = chance.sample(streams, chance.randint(1, len(streams)))
        store.note(chosen, chance.choice("ab"), chance.choice("xyz"), cause=cause, is_undone=chance.random() < 0.3)

    def numbers(snapshot):
        connection = connect(snapshot, parameters=FEW, only=below_tables())
        try:
            found = {each.name: [dict(row) for row in each.rows] for each in tables(connection, TABLES)}
            return found | {name: sorted(map(repr, rows_of(connection, f"select * from {name}"))) for name in MARTS}
        finally:
            connection.close()

    assert numbers(store.snapshot()) == numbers(before)
    standing = standing_notes(store.envelopes)
    assert [(row["stream_id"], row["author"], row["cause"], row["note"]) for row in _told(store.snapshot())] == [
        (stream, each.author, each.cause, each.note) for stream in sorted(standing) for each in standing[stream]
    ]
