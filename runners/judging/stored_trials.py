"""Load from a store what judging and later grading need: the trials that count, and earlier verdicts on them."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import msgspec

from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.events import (
    AnyEvent,
    CheckpointScored,
    Envelope,
    NewTaskJudged,
    QuestionAsked,
    QuestionJudged,
    RunStarted,
    TaskRegistered,
    TrialFinished,
    TrialsDiscarded,
    TrialStarted,
    VariantGenerated,
)
from lhaw_record.recorder.events.arrow_schema import from_row
from lhaw_record.recorder.events.run import EXPERIMENT
from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.recorder.reading.annotations import standing_discards
from lhaw_record.recorder.reading.reader import Snapshot, read_envelopes, stream_rows
from lhaw_record.recorder.reading.trial_index import Rank, rank
from lhaw_record.recorder.reading.typed_rows import events_of_types
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.storage.stream_index import load_index

_READ = (
    CheckpointScored,
    NewTaskJudged,
    QuestionAsked,
    QuestionJudged,
    RunStarted,
    TaskRegistered,
    TrialFinished,
    TrialsDiscarded,
    TrialStarted,
    VariantGenerated,
)


class StoredTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A valid trial: the attempt that counts, with its primary results by checkpoint."""

    trial_id: str
    stream_id: str
    experiment_id: str
    rank: Rank
    began_at_us: int
    started: TrialStarted
    finished: TrialFinished
    results: dict[str, CheckpointScored]
    question_count: int


class StoredTrials(msgspec.Struct, frozen=True, kw_only=True):
    """The trials that count, in the order of their start, and what judges and graders have added to them.

    ``planned`` maps each experiment to the number of trials per cell in its latest run. ``judged_questions`` are
    identified by (stream, judge, prompt digest), ``judged_new_tasks`` by (streams, judge, prompt digest). ``graded``
    maps (stream, grading) to the score of each checkpoint in a later grading.
    """

    trials: tuple[StoredTrial, ...]
    tasks: dict[str, Task]
    variants: dict[str, Variant]
    planned: dict[str, int]
    judged_questions: frozenset[tuple[str, str, str]]
    judged_new_tasks: frozenset[tuple[frozenset[str], str, str]]
    graded: Mapping[tuple[str, str], Mapping[str, float]]


def load_stored(snapshot: Snapshot, experiment_id: str | None = None) -> StoredTrials:
    attempts: dict[tuple[str, str], list[Envelope]] = defaultdict(list)
    runs: dict[str, tuple[int, str, int]] = {}
    tasks: dict[str, Task] = {}
    variants: dict[str, Variant] = {}
    judged: set[tuple[str, str, str]] = set()
    new_tasks: set[tuple[frozenset[str], str, str]] = set()
    graded: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    decisions: list[Envelope] = []
    for envelope in events_of_types(snapshot, _READ, experiment_id):
        event = envelope.event
        if isinstance(event, TrialsDiscarded):
            decisions.append(envelope)
        elif isinstance(event, RunStarted):
            _note_plan(runs, envelope, event)
        elif isinstance(event, TaskRegistered):
            tasks[event.task_digest] = event.task
        elif isinstance(event, VariantGenerated):
            variants[event.variant_digest] = event.variant
        elif isinstance(event, QuestionJudged):
            judged.add((event.judged_stream_id, event.judge, event.prompt_digest))
        elif isinstance(event, NewTaskJudged):
            new_tasks.add((frozenset(event.judged_stream_ids), event.judge, event.prompt_digest))
        elif isinstance(event, CheckpointScored) and not event.is_primary:
            key = (event.graded_stream_id or envelope.stream_id, event.grading_id)
            graded[key][event.checkpoint_id] = event.score
        else:
            attempts[envelope.experiment_id, envelope.stream_id].append(envelope)
    discarded = standing_discards(decisions)
    kept = {key: attempt for key, attempt in attempts.items() if key[1] not in discarded}
    return StoredTrials(
        trials=_counted(kept, tasks),
        tasks=tasks,
        variants=variants,
        planned={experiment: plan[2] for experiment, plan in runs.items()},
        judged_questions=frozenset(judged),
        judged_new_tasks=frozenset(new_tasks),
        graded=dict(graded),
    )


def _note_plan(runs: dict[str, tuple[int, str, int]], envelope: Envelope, event: RunStarted) -> None:
    """Note the trials per cell of an experiment's latest run. Runs that judge or grade do not plan trials."""
    config = msgspec.json.decode(event.config_json)
    if event.run_kind == EXPERIMENT and isinstance(config.get("trials"), int):
        candidate = (envelope.recorded_at_us, event.run_id, config["trials"])
        runs[envelope.experiment_id] = max(candidate, runs.get(envelope.experiment_id, candidate))


def _counted(attempts: dict[tuple[str, str], list[Envelope]], tasks: dict[str, Task]) -> tuple[StoredTrial, ...]:
    """Return the attempt that counts for each trial, which is the last valid one by rank."""
    found = (_valid(stream_id, attempt, tasks) for (_, stream_id), attempt in attempts.items())
    valid = sorted((trial for trial in found if trial is not None), key=lambda trial: trial.rank)
    counted = {trial.trial_id: trial for trial in valid}
    return tuple(sorted(counted.values(), key=lambda trial: (trial.began_at_us, trial.stream_id)))


def _valid(stream_id: str, attempt: list[Envelope], tasks: dict[str, Task]) -> StoredTrial | None:
    """Return the attempt as a trial if it finished with one primary result for every checkpoint, otherwise None."""
    started = next((each.event for each in attempt if isinstance(each.event, TrialStarted)), None)
    end = next((each for each in attempt if isinstance(each.event, TrialFinished)), None)
    if started is None or end is None or started.task_digest not in tasks:
        return None
    assert isinstance(end.event, TrialFinished)
    results = [each.event for each in attempt if isinstance(each.event, CheckpointScored)]
    wanted = sorted(checkpoint.checkpoint_id for checkpoint in tasks[started.task_digest].checkpoints)
    if sorted(result.checkpoint_id for result in results) != wanted:
        return None
    return StoredTrial(
        trial_id=end.trial_id or "",
        stream_id=stream_id,
        experiment_id=end.experiment_id,
        rank=rank(end),
        began_at_us=end.began_at_us,
        started=started,
        finished=end.event,
        results={result.checkpoint_id: result for result in results},
        question_count=sum(isinstance(each.event, QuestionAsked) for each in attempt),
    )


class StreamReader:
    """Reads whole streams of one snapshot. Each read touches only the row groups that contain the stream.

    Args:
        store: The store.
        snapshot: The snapshot.
    """

    def __init__(self, store: Store, snapshot: Snapshot) -> None:
        self._store = store
        self._places: dict[str, list[Path]] = defaultdict(list)
        for path in snapshot.segments:
            for stream_id in load_index(store, path)["stream_id"].to_pylist():
                self._places[stream_id].append(path)
        self._open: dict[str, list[dict[str, object]]] = defaultdict(list)
        for row in snapshot.open_rows.to_pylist():
            self._open[row["stream_id"]].append(row)

    def read(self, stream_id: str) -> list[AnyEvent]:
        """Return the events of a stream in order. Blocks, so call it from a thread."""
        try:
            rows = [
                row for path in self._places[stream_id] for row in stream_rows(self._store, path, stream_id).to_pylist()
            ]
        except FileNotFoundError:  # merged into another segment, and deleted after its grace period
            return [envelope.event for envelope in read_envelopes(self._store.root, stream_id)]
        envelopes = [from_row(row) for row in (*rows, *self._open.get(stream_id, ()))]
        envelopes.sort(key=lambda each: each.sequence)
        if [(each.stream_id, each.sequence) for each in envelopes] != [(stream_id, n) for n in range(len(envelopes))]:
            raise DamagedStore(
                f"stream {stream_id} of {self._store.name} is not whole; 'lhaw-record log verify' shows why"
            )
        return [envelope.event for envelope in envelopes]
