"""What was said of trials that were over, again, slowly and in plain Python: later gradings, verdicts on new tasks."""

from tests.analytics import reference


def gradings_of(envelopes):
    """Return each later result beside the one that counts, by (stream, grading, checkpoint).

    A row is grader, label, score, total, details, and of the result that counts trial, grader and score, None where
    there is none; the difference of the scores comes last.
    """
    primaries, latest = {}, {}
    for envelope in sorted(envelopes, key=_place):
        event = envelope.event
        if type(event).__name__ != "CheckpointScored":
            continue
        if event.is_primary:
            primaries[envelope.stream_id, event.checkpoint_id] = (envelope.trial_id, event.grader, event.score)
        else:
            latest[event.graded_stream_id or envelope.stream_id, event.grading_id, event.checkpoint_id] = event
    rows = {}
    for (stream_id, grading_id, checkpoint_id), event in latest.items():
        trial_id, grader, score = primaries.get((stream_id, checkpoint_id), (None, None, None))
        difference = None if score is None else event.score - score
        said = (event.grader, event.label, event.score, event.total, event.details)
        rows[stream_id, grading_id, checkpoint_id] = (*said, trial_id, grader, score, difference)
    return rows


def new_task_verdicts_of(envelopes, live, planned, judge=None):
    """Return (verdict, judge, reason) of each candidate for a new task, by (variant digest, agent, role).

    Args:
        envelopes: The records.
        live: Streams that somebody writes.
        planned: Trials per cell.
        judge: Whose verdicts count; None: the last one.
    """
    said = {}
    for envelope in sorted(envelopes, key=_place):
        event = envelope.event
        if type(event).__name__ == "NewTaskJudged" and judge in (None, event.judge):
            said[event.variant_digest, frozenset(event.judged_stream_ids)] = (event.verdict, event.judge, event.reason)
    cells = {}
    for trial in reference.trials_of(envelopes, live).values():
        keys = trial.keys
        if keys.condition == "underspecified":
            cells.setdefault((keys.variant_digest, keys.agent, keys.role), []).append(trial)
    found = {}
    for (digest, agent, role), cell in cells.items():
        valid = [trial for trial in cell if trial.state == "valid"]
        has_all = len(valid) == max(planned, len(cell))
        if has_all and not any(trial.is_success for trial in valid) and len({tuple(t.scores) for t in valid}) == 1:
            streams = frozenset(trial.counted.stream_id for trial in valid)
            found[digest, agent, role] = said.get((digest, streams), ("unjudged", None, None))
    return found


def _place(envelope):
    return envelope.recorded_at_us, envelope.stream_id, envelope.sequence
