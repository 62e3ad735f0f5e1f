"""Evidence from recorded ``full`` trials: the golden trajectory, and where each segment is first used and graded."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec

from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.generators.protocol import Grounding, SourceTask, TrajectoryStep
from lhaw_record.recorder.events.values import Segment
from lhaw_record.runners.users.simulated_user.answers import reveals

_ACTIONS = """
    select trials.task_digest, trials.stream_id, trials.is_success, actions.action_name, actions.arguments_json,
        actions.result
    from trials
    inner join actions on trials.stream_id = actions.stream_id
    where trials.trial_state = 'valid' and trials.condition = 'full'
    order by trials.task_digest, trials.stream_id, actions.action_index
"""
_DETAILS = """
    select trials.task_digest, scored.checkpoint_id, string_agg(scored.details, ' ' order by scored.details) as details
    from trials
    inner join checkpoints as scored on trials.trial_id = scored.trial_id
    where trials.condition = 'full'
    group by all
    order by all
"""


class RecordedTask(msgspec.Struct, frozen=True, kw_only=True):
    """The valid ``full`` trials of one task.

    Attributes:
        trials: The actions of each trial.
        golden: The actions of the golden trajectory; None if no trial succeeded.
        details: What the grader said about each checkpoint, by checkpoint id.
    """

    trials: tuple[tuple[TrajectoryStep, ...], ...]
    golden: tuple[TrajectoryStep, ...] | None
    details: Mapping[str, str]


def recorded_tasks(store: Path) -> dict[str, RecordedTask]:
    """Return the recorded trials of each task, by task digest.

    The golden trajectory is the shortest successful trial. Ties go to the lowest stream id.
    """
    with open_store(store, only={"trials", "actions", "checkpoints"}) as connection:
        actions = connection.execute(_ACTIONS).fetchall()
        details = connection.execute(_DETAILS).fetchall()
    trials: dict[str, dict[str, list[TrajectoryStep]]] = defaultdict(lambda: defaultdict(list))
    successful: set[str] = set()
    for task_digest, stream_id, is_success, name, arguments_json, result in actions:
        trials[task_digest][stream_id].append(
            TrajectoryStep(name=name, arguments_json=arguments_json or "", result=result)
        )
        if is_success:
            successful.add(stream_id)
    said: dict[str, dict[str, str]] = defaultdict(dict)
    for task_digest, checkpoint_id, text in details:
        said[task_digest][checkpoint_id] = text or ""
    return {
        task_digest: RecordedTask(
            trials=tuple(tuple(steps) for steps in streams.values()),
            golden=_shortest({name: steps for name, steps in streams.items() if name in successful}),
            details=said[task_digest],
        )
        for task_digest, streams in trials.items()
    }


def _shortest(streams: Mapping[str, Sequence[TrajectoryStep]]) -> tuple[TrajectoryStep, ...] | None:
    if not streams:
        return None
    return tuple(min(streams.items(), key=lambda item: (len(item[1]), item[0]))[1])


def with_golden(source: SourceTask, recorded: RecordedTask | None) -> SourceTask:
    """Return the task, with the recorded golden trajectory added if its source has none."""
    if source.trajectory is not None or recorded is None or recorded.golden is None:
        return source
    return msgspec.structs.replace(source, trajectory=recorded.golden)


def grounded(segment: Segment, source: SourceTask, recorded: RecordedTask | None, grounding: Grounding) -> Segment:
    """Return the segment with its first use and its checkpoints taken from trials, trajectory and checkpoint texts.

    ``first_use_pct`` is the share (0 to 1) of a trial's actions that precede the first action whose arguments contain
    the value: the median over the trials that use the value. The extractor's values stay if there is no evidence or
    ``grounding`` does not allow it.
    """
    trials: Sequence[Sequence[TrajectoryStep]] = ()
    if grounding.has_trajectory:
        trials = recorded.trials if recorded else ((source.trajectory,) if source.trajectory else ())
    uses = [use for steps in trials if (use := _first_use(segment, steps)) is not None]
    details = recorded.details if recorded and grounding.has_trajectory else {}
    refs = tuple(
        checkpoint.checkpoint_id
        for checkpoint in (source.task.checkpoints if grounding.has_checkpoints else ())
        if reveals(f"{checkpoint.label} {details.get(checkpoint.checkpoint_id, '')}", segment)
    )
    return msgspec.structs.replace(
        segment,
        is_used_in_trajectory=bool(uses) if trials else segment.is_used_in_trajectory,
        first_use_pct=round(median(uses), 6) if uses else (None if trials else segment.first_use_pct),
        checkpoint_refs=refs or segment.checkpoint_refs,
    )


def _first_use(segment: Segment, steps: Sequence[TrajectoryStep]) -> float | None:
    for place, step in enumerate(steps):
        if reveals(" ".join(_texts(step.arguments_json)), segment):
            return place / len(steps)
    return None


def _texts(arguments_json: str) -> Iterator[str]:
    """Yield every leaf value in the arguments as text. Arguments that are not valid JSON are yielded as one text."""
    try:
        waiting = [msgspec.json.decode(arguments_json or "{}")]
    except msgspec.DecodeError:
        waiting = [arguments_json]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif value is not None:
            yield str(value)
