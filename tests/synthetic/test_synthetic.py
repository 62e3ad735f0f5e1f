"""Synthetic stores: whole, consistent, the same for a seed, and of the size that was asked for."""

from collections import Counter, defaultdict
from pathlib import Path

import msgspec
import pytest

from lhaw_record.analytics.tables.tables import TABLES, tables
from lhaw_record.analytics.views import store as stores
from lhaw_record.analytics.views.build_order import named_in
from lhaw_record.analytics.views.store import checks
from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.events import TrialFailed, TrialFinished, TrialStarted
from lhaw_record.recorder.events.values import CONDITIONS, CONTROL_CONDITIONS, DIMENSIONS, FAULTY_CONDITIONS
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from tests.synthetic.__main__ import main
from tests.synthetic.design import Design
from tests.synthetic.making import make_store

pytestmark = pytest.mark.thorough

EVENTS = 14_000
LACKING = {
    "by_persona",
    "by_strategy",
    "controls",
    "grader_agreement",
    "input_faults",
    "late_answers",
    "over_asking",
    "review_agreement",
    "trajectory",
}
MACHINE = {"recorded_at_us": 0, "elapsed_ns": 0, "writer_id": ""}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small synthetic store, written by one process."""
    root = tmp_path_factory.mktemp("made")
    return root, make_store(root, Design(9, EVENTS))


@pytest.fixture(scope="module")
def streams(made):
    """Its events by stream."""
    found = defaultdict(list)
    for envelope in read_envelopes(made[0]):
        found[envelope.stream_id].append(envelope)
    return found


def rows(root: Path, query: str):
    """The rows of a query over the views."""
    connection = stores.open(root, only=named_in(query))
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


@pytest.mark.thorough
def test_it_is_a_whole_store(made):
    """Everything is sealed, every checksum and digest is good, and every stream is closed."""
    root, said = made
    report = verify(root)
    assert (report.findings, report.open_streams, report.journals) == ((), 0, 0)
    assert report.events == said.events


@pytest.mark.thorough
def test_no_claim_is_broken_and_no_table_is_empty(made):
    """All checks hold over a synthetic store, and only tables of agents and trials that it lacks are empty."""
    connection = stores.open(made[0])
    try:
        assert checks(connection) == ()
        assert {each.name for each in tables(connection, TABLES) if not each.rows} <= LACKING
    finally:
        connection.close()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("events", [2_000, 50_000, 500_000, 10_000_000])
def test_the_number_of_events_is_met_about(events):
    """The plan has 60 events to a trial, within a cell's worth for small stores and 3 % for large ones."""
    planned = Design(0, events).trial_count * 60
    assert planned == pytest.approx(events, rel=0.03, abs=1_500)


def test_what_is_recorded_is_what_was_planned(made):
    """About 60 events to a trial; all trials of the plan are valid, some at the second attempt."""
    root, said = made
    assert said.events == pytest.approx(EVENTS, rel=0.15)
    states = dict(rows(root, "select trial_state, count(*) from trials group by all"))
    assert states == {"valid": Design(9, EVENTS).trial_count} == {"valid": said.trials}
    assert rows(root, "select count(*) from trials where failed_attempts = 1") != [(0,)]
    agents = {name for (name,) in rows(root, "select distinct agent from trials")}
    assert agents == {agent.name for agent in Design(9, EVENTS).agents} | {"reference"}  # each is one arm


@pytest.mark.thorough
def test_everything_that_tables_need_occurs(made):
    """All conditions but those without anything missing, all dimensions, questions, made and skipped injections."""
    root, _ = made
    conditions = {name for (name,) in rows(root, "select distinct condition from trials")}
    assert conditions == set(CONDITIONS) - {"full_ask_user", *CONTROL_CONDITIONS, *FAULTY_CONDITIONS}
    dimensions = {name for (name,) in rows(root, "select distinct dimension from int_variant_segments")}
    assert dimensions == set(DIMENSIONS)
    assert {kind for (kind,) in rows(root, "select distinct kind from actions")} == {"tool", "text", "malformed"}
    assert rows(root, "select count(*) > 0 from questions") == [(True,)]
    classes = {name for (name,) in rows(root, "select distinct ambiguity_class from ambiguity_classes")}
    assert len(classes) >= 2


def test_requests_can_be_rebuilt(streams):
    """The conversation of every attempt, rebuilt from its deltas, has the recorded digests."""
    attempts = [envelopes for envelopes in streams.values() if isinstance(envelopes[0].event, TrialStarted)]
    for envelopes in attempts[::5]:
        requests = rebuild_requests(envelope.event for envelope in sorted(envelopes, key=lambda each: each.sequence))
        assert requests


def test_a_failed_attempt_is_followed_by_a_valid_one(streams):
    """Every trial with a failure has a later attempt that finished."""
    ends = defaultdict(dict)
    for envelopes in streams.values():
        last = max(envelopes, key=lambda each: each.sequence)
        if last.trial_id is not None:
            ends[last.trial_id][last.attempt] = type(last.event)
    failed = [attempts for attempts in ends.values() if TrialFailed in attempts.values()]
    assert failed
    assert all(attempts == {1: TrialFailed, 2: TrialFinished} for attempts in failed)


@pytest.mark.thorough
def test_equal_seeds_give_equal_events_whatever_the_writers(made, tmp_path):
    """Two processes write the events that one writes, apart from times, writers and digests; another seed does not."""
    make_store(tmp_path / "two", Design(9, EVENTS), writers=2)
    make_store(tmp_path / "other", Design(8, EVENTS))
    first = comparable(made[0])
    assert first == comparable(tmp_path / "two")
    assert not first & comparable(tmp_path / "other")


def comparable(root: Path):
    """The events without what depends on the machine, with how often each occurs."""
    found = Counter()
    for envelope in read_envelopes(root):
        event = envelope.event
        if hasattr(event, "stream_digest"):
            event = msgspec.structs.replace(event, stream_digest="")
        found[msgspec.json.encode(msgspec.structs.replace(envelope, event=event, **MACHINE))] += 1
    assert set(found.values()) == {1}
    return set(found)


def test_texts_are_neither_equal_nor_endless(made):
    """What actions give back differs in content and length."""
    ((distinct, shortest, longest),) = rows(
        made[0], "select count(distinct result) / count(*), min(len(result)), max(len(result)) from actions"
    )
    assert distinct > 0.2
    assert shortest < 60
    assert longest > 2_000


@pytest.mark.thorough
def test_another_experiment_of_the_store_is_left_alone(made, tmp_path):
    """A store may hold several synthetic experiments; the same one twice is refused with the next step."""
    root = tmp_path / "shared"
    make_store(root, Design(0, 1_000, "one"))
    make_store(root, Design(0, 1_000, "two"))
    assert verify(root).findings == ()
    assert rows(root, "select count(distinct experiment_id) from events") == [(2,)]
    with pytest.raises(StoreError, match=r"experiment 'one' already; give --experiment another name"):
        make_store(root, Design(0, 1_000, "one"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--events", "many"], "'many' is no whole number"),
        (["--events", "0"], "0 is not between 1 and 1000000000"),
        (["--events", "100", "--writers", "0"], "0 is not between 1 and 64"),
        (["--events", "100", "--seed", "-1"], "-1 is not between 0"),
        ([], "--events"),
    ],
)
def test_bad_numbers_are_refused(arguments, complaint, tmp_path, capsys):
    """Wrong usage exits 2 and says what is wrong; nothing is made."""
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "none"), *arguments])
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.thorough
def test_the_command_makes_a_store_and_says_so(tmp_path, capsys):
    """It prints nothing on standard output, and what it made on standard error; an existing experiment exits 1."""
    command = [str(tmp_path / "store"), "--events", "1000", "--seed", "3"]
    assert main(command) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "events of 27 trials on 1 tasks and 1 variants" in said.err
    assert main(command) == 1
    assert "already" in capsys.readouterr().err
