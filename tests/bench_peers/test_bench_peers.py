"""The comparison itself: what is divided by what, whether both sides get the same trials, how programs are measured."""

import asyncio
import json

import pytest

from lhaw_record.recorder.reading.reader import read_envelopes
from tests.bench.cold import Taken
from tests.bench.figures import lines
from tests.bench.stores import size_bytes
from tests.bench_peers import our_run, report, rounds
from tests.bench_peers.report import Reading, Round, Run
from tests.bench_peers.trials import described
from tests.support.toy_benchmark import Workload

SMALL = Workload(tasks=1, trials=3, actions=3, concurrency=2, prompt_characters=50)


def taken(wall_s, peak_mib):
    """What some program took."""
    return Taken(wall_s=wall_s, cpu_s=wall_s, peak_bytes=peak_mib << 20)


def side(wall_s, cpu_s, events, log_bytes, reading_s=1.0):
    """A round of 100 tool turns."""
    run = Run(
        wall_s=wall_s,
        cpu_s=cpu_s,
        program=taken(wall_s + 1, 64),
        events=events,
        turns=100,
        log_bytes=log_bytes,
        other_bytes=5000,
    )
    return Round(run=run, reading=Reading(mean=taken(reading_s, 32), actions=taken(2 * reading_s, 48)))


def figures_of(ours, peer):
    """The report's figures by name and baseline."""
    found = report.figures(ours, peer, [each.run for each in peer])
    return {(one.name, one.baseline_name): one for one in found}


def test_each_quantity_is_divided_by_its_own_events_and_by_the_common_turns():
    """Events are each side's own, tool turns are common: 400 events in 2 s against 500 in 10 s, 100 turns each."""
    found = figures_of([side(2.0, 1.0, 400, 3000)], [side(10.0, 8.0, 500, 10_000, reading_s=4.0)])

    def of(name):
        one = found[name, report.PEER]
        return one.value, one.baseline, one.ratio

    assert of("own events per second") == (200, 50, 4)
    assert of("tool turns per second") == (50, 10, 5)
    assert of("CPU per own event") == (2500, 16_000, 0.15625)
    assert of("CPU per tool turn") == (10_000, 80_000, 0.125)
    assert of("all trials, cold process to exit") == (3, 11, 3 / 11)
    assert of("peak memory of the run") == (64, 64, 1)
    assert of("bytes per tool turn") == (30, 100, 0.3)
    assert of("mean score per condition, cold process") == (1, 4, 0.25)
    assert of("table of every tool call, cold process") == (2, 8, 0.25)
    assert of("table of every tool call, peak memory") == (48, 48, 1)
    assert ("tool turns per second", report.WITHOUT_BUFFER) in found


@pytest.mark.parametrize(("own_bytes", "is_within"), [(4000, True), (4001, False)])
def test_the_size_is_the_one_thing_with_a_budget(own_bytes, is_within):
    """At most 0.4 of the peer's bytes; no other line is judged."""
    found = figures_of([side(1.0, 1.0, 400, own_bytes)], [side(1.0, 1.0, 500, 10_000)])
    assert {name for (name, _), one in found.items() if one.is_within is not None} == {"total bytes on disk"}
    assert found["total bytes on disk", report.PEER].is_within is is_within


def test_rounds_are_compared_pairwise_and_printed_as_medians():
    """The ratio is the median of the rounds' ratios (2, 4 and 8), not the ratio of the medians (2 / 1)."""
    ours = [side(1.0, 1.0, events, 1000) for events in (200, 100, 400)]
    peer = [side(1.0, 1.0, events, 10_000) for events in (100, 25, 50)]
    found = figures_of(ours, peer)
    assert found["own events per second", report.PEER].ratio == 4
    (line,) = [line for line in lines(list(found.values())) if "total bytes" in line]
    assert [cell.strip() for cell in line.split("|")[2:-1]] == [
        "0.001 MB",
        "0.001 - 0.001",
        "0.01 MB, inspect_ai",
        "0.10",
        "≤ 0.4 x baseline",
        "within",
    ]


def test_the_remarks_say_how_the_units_differ():
    """Nobody may take one side's events for the other's."""
    text = report.remarks([side(1.0, 1.0, 420, 1000)], [side(1.0, 1.0, 490, 10_000)])
    assert "100 tool turns are 420 events of ours (4.20 a turn) and 490 of the peer's (4.90)" in text
    assert "5 kB of traces" in text


def test_the_peer_gets_the_trials_that_we_run(tmp_path):
    """Opening messages, injected message and its action, as our own run records them, trial by trial."""
    trials = tmp_path / "trials.json"
    trials.write_text(json.dumps(described(SMALL)))
    assert asyncio.run(our_run.run(SMALL, tmp_path / "store")) == "completed"
    events = {}
    for envelope in read_envelopes(tmp_path / "store"):
        events.setdefault((envelope.trial_id, type(envelope.event).__name__), envelope.event)
    given = json.loads(trials.read_text())["trials"]
    assert {trial["metadata"]["condition"] for trial in given} == {"full", "underspecified", "inject_50"}
    for trial in given:
        first = json.loads(events[trial["id"], "ModelCalled"].new_messages_json)
        assert [message["content"] for message in first] == [trial["system"], trial["prompt"]]
        started = events[trial["id"], "TrialStarted"]
        metadata = trial["metadata"]
        assert (started.condition, started.task_id, started.seed) == tuple(
            metadata[key] for key in ("condition", "task_id", "seed")
        )
        injected = events.get((trial["id"], "ClarificationInjected"))
        wanted = (injected.after_action, injected.message) if injected else (None, None)
        assert (metadata["inject_after_action"], metadata["inject_message"]) == wanted


@pytest.mark.thorough
def test_our_round_counts_what_is_in_the_store(tmp_path):
    """9 trials of 3 actions are 27 tool turns, every condition has its mean, the size is the whole store's."""
    trials = tmp_path / "trials.json"
    trials.write_text(json.dumps(described(SMALL)))
    measured, scores = rounds.our_round(tmp_path, trials)
    assert measured.run.turns == 27
    assert measured.run.events == len(read_envelopes(tmp_path / "store"))
    assert measured.run.log_bytes == size_bytes(tmp_path / "store") > 0
    assert scores == {"full": 1.0, "underspecified": 1.0, "inject_50": 1.0}


@pytest.mark.thorough
def test_a_side_that_recorded_too_little_is_no_measurement(tmp_path):
    """Trials that were to be run and are not in the log end the comparison."""
    given = described(SMALL)
    given["trials"].append(given["trials"][0])
    trials = tmp_path / "trials.json"
    trials.write_text(json.dumps(given))
    with pytest.raises(rounds.RoundFailed, match="27 of 30 tool turns"):
        rounds.our_round(tmp_path, trials)
