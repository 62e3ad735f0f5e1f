"""Format ``inspect-eval``: a log of inspect_ai. Samples become trials, and scores become checkpoints.

The log is a zip archive of JSON files, so inspect_ai itself is not needed.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lhaw_record.recorder.events.trial import EndedBy
from lhaw_record.recorder.events.values import CONDITIONS, Checkpoint, Task, Variant
from lhaw_record.runners.base.conversation.actions import action_count_of
from lhaw_record.runners.base.text.fields import as_count, as_number, as_object, as_text, optional_count, shown
from lhaw_record.runners.environments.grading.grade import CheckpointResult
from lhaw_record.runners.imports.bare_trajectory import differing_totals
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    Failure,
    Finish,
    ForeignInjection,
    ForeignTrial,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    converted,
    counted,
    imported_task,
    imported_variant,
    skipped_entries,
)
from lhaw_record.runners.imports.formats.inspect_log import (
    Archive,
    duration_ms,
    has_trajectory,
    stated_in,
    turns_of_sample,
    with_attachments,
)
from lhaw_record.runners.imports.trajectory import ForeignTurn, trajectory_events
from lhaw_record.runners.models.chat_completions import text_of

_WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_OPEN = "the run has not written them; if the run was killed, 'inspect log recover FILE' saves its finished samples"
_LIMITS: dict[str, EndedBy] = {
    "message": "turn_limit",
    "turn": "turn_limit",
    "context": "turn_limit",
    "time": "time_limit",
    "working": "time_limit",
    "token": "cost_limit",
    "cost": "cost_limit",
}


class _Log(msgspec.Struct, frozen=True, kw_only=True):
    """What the samples of a log have in common. ``odd`` scores are no checkpoints; ``remarks`` counts what is left.

    ``scored`` are the names of the scores that samples have.

    ``is_own`` is true of a log that ``export inspect`` wrote.
    """

    header: Mapping[str, Any]
    described: Mapping[str, Any]
    options: Options
    known: KnownRecords
    odd: Counter[str]
    scored: frozenset[str]
    remarks: Counter[str]
    is_own: bool


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return one trial for each sample and epoch."""
    if source.content.lstrip()[:1] == b"{":
        raise ImportFailed(
            f"{source.label} is a log in inspect_ai's .json format; convert it: "
            "inspect log convert --to eval --output-dir FOLDER FILE"
        )
    archive = Archive(source)
    header = _header(source, archive)
    described = as_object(header["eval"], "eval")

    remarks: Counter[str] = Counter()
    names = [name for name in archive.names if name.startswith("samples/") and name.endswith(".json")]
    samples = [(name, loaded if isinstance(loaded := archive.load(name), dict) else {}) for name in names]
    is_own = "lhaw_record" in (described.get("metadata") or {})
    scores = [each for _, sample in samples for each in _values(sample, is_own=is_own)]
    odd = Counter(part for part, value in scores if _is_odd(value))
    log = _Log(
        header=header,
        described=described,
        options=options,
        known=known,
        odd=odd,
        scored=frozenset(part for part, _ in scores if part not in odd),
        remarks=remarks,
        is_own=is_own,
    )

    def convert(entry: tuple[str, Mapping[str, Any]]) -> ForeignTrial:
        name, loaded = entry
        sample = with_attachments(loaded, loaded.get("attachments") or {})
        if withdrawn := sample.get("invalidation"):
            raise ValueError(f"withdrawn by its source: {as_object(withdrawn, 'invalidation').get('reason')}")
        return _trial(f"{source.label}, {name}", sample, log)

    parsed = converted("samples", samples, convert)
    skipped = {f"{part} has values that are not from 0 to 1, so its maximum is unknown": n for part, n in odd.items()}
    unwritten = +Counter({_OPEN: _planned(header, described) - len(names)})
    return msgspec.structs.replace(
        parsed,
        skipped=(*parsed.skipped, *skipped_entries("samples", unwritten), *skipped_entries("scores", skipped)),
        remarks=(_remark(header, described), *counted(remarks)),
    )


def _planned(header: Mapping[str, Any], described: Mapping[str, Any]) -> int:
    """Return the number of samples that a run without an end was to write, or 0 if it ended or does not say."""
    samples = (described.get("dataset") or {}).get("samples")
    is_open = header.get("status", "started") == "started"
    return as_count(samples or 0, "dataset.samples") * _epochs(described) if is_open else 0


def _epochs(described: Mapping[str, Any]) -> int:
    return as_count((described.get("config") or {}).get("epochs") or 1, "epochs")


def _remark(header: Mapping[str, Any], described: Mapping[str, Any]) -> str:
    version = (described.get("packages") or {}).get("inspect_ai", "unknown")
    return f"log of {described.get('task')}, status {header.get('status', 'unfinished')}, inspect_ai {version}"


def _header(source: SourceFile, archive: Archive) -> Mapping[str, Any]:
    """Return the log's header, of which the log of an unfinished run has only the start."""
    for name in ("header.json", "_journal/start.json"):
        if name in archive.names:
            header = archive.load(name)
            if isinstance(header, dict) and isinstance(header.get("eval"), dict):
                return header
    raise ImportFailed(
        f"{source.label} has no header.json with a key eval: not a log of inspect_ai in the .eval format"
    )


def _trial(location: str, sample: Mapping[str, Any], log: _Log) -> ForeignTrial:
    """Convert one sample to a trial."""
    header, described, options = log.header, log.described, log.options
    metadata = sample.get("metadata") or {}
    condition = str(metadata.get("condition") or options.condition or "full")
    if condition not in CONDITIONS:
        raise ValueError(f"unknown condition {shown(condition)}")
    prompt = _prompt(sample.get("input"))
    variant = None if condition.startswith("full") else _variant(sample, metadata, prompt, log)
    as_object(sample.get("scores") or {}, "scores")
    given = {} if sample.get("error") else dict(_values(sample, is_own=log.is_own))
    headline = str(((header.get("results") or {}).get("headline") or {}).get("score"))
    scores = {
        name: _score(value)
        for name, value in given.items()
        if name not in log.odd or (name == headline and isinstance(value, str) and not _is_odd(value))
    }
    if given and (not scores or (headline in given and headline not in scores)):
        raise ValueError(f"score {shown(given.get(headline))} is not known to be from 0 to 1: its maximum is unknown")
    model = as_text(described.get("model"), "the model of the log")
    turns = turns_of_sample(sample, log.remarks)
    stated = stated_in(sample, turns)
    log.remarks.update(differing_totals(stated, turns))
    names = list(scores) if log.is_own else sorted(_names(log, scores))
    task = imported_task(
        str(metadata.get("benchmark") or described["task"]),
        str(metadata.get("task_id") or sample["id"]),
        prompt if variant is None else "",
        (_checkpoint(name, sample) for name in names),
        version=str(described.get("task_version") or UNKNOWN),
    )
    return ForeignTrial(
        location=location,
        task=task,
        variant=variant,
        condition=condition,
        agent=options.agent or (str(metadata["agent_name"]) if log.is_own else model),
        model=model,
        grader=str(metadata["grader"])
        if log.is_own
        else ", ".join(sorted({name.partition("/")[0] for name in names})) or UNKNOWN,
        trial_index=_trial_index(sample, metadata, log),
        run_name=str(sample.get("uuid") or sample.get("epoch")),
        seed=optional_count(metadata.get("seed", (described.get("model_generate_config") or {}).get("seed")), "seed"),
        trajectory=trajectory_events(turns, model=model, condition=condition) if has_trajectory(sample) else None,
        injected=_injected(condition, metadata, turns) if condition.startswith("inject_") else None,
        end=msgspec.structs.replace(_end(sample, headline, task, scores, is_own=log.is_own), usage=stated),
        started_at=sample.get("started_at"),
    )


def _trial_index(sample: Mapping[str, Any], metadata: Mapping[str, Any], log: _Log) -> int | None:
    """Return the trial index, or None if the log does not determine it.

    The index in the metadata is combined with the epoch. Without one, the epoch is the index if each task is one
    sample.
    """
    epoch = as_count(sample.get("epoch", 1), "epoch") - 1
    if metadata.get("trial_index") is not None:
        repetition = as_count(metadata["trial_index"], "metadata.trial_index")
        return log.options.trial_index + repetition * _epochs(log.described) + epoch
    return None if metadata.get("task_id") else log.options.trial_index + epoch


def _prompt(given: Any) -> str:
    """Return the prompt: the sample's input if it is text, otherwise the text of its user messages."""
    if isinstance(given, str):
        return given
    asked = [each.get("content") for each in given or [] if isinstance(each, dict) and each.get("role") == "user"]
    texts = [
        [part for part in each if part.get("type") == "text"] if isinstance(each, list) else each for each in asked
    ]
    return "\n\n".join(filter(None, map(text_of, texts)))


def _variant(sample: Mapping[str, Any], metadata: Mapping[str, Any], prompt: str, log: _Log) -> Variant:
    """Return the store's variant with the sample's variant id, or a variant with only its prompt.

    A log that names no variant has one for each sample, as the two arms of a study have in logs of one data set.
    """
    variant_id = str(metadata.get("variant_id") or sample["id"])
    benchmark = str(metadata.get("benchmark") or log.described["task"])
    return log.known.variants.get(variant_id) or imported_variant(
        benchmark, str(metadata.get("task_id") or sample["id"]), variant_id, prompt
    )


def _names(log: _Log, scores: Mapping[str, float | None]) -> set[str]:
    """Return the checkpoint names: the sample's scores, else those of other samples, or the scorers of the log."""
    return set(scores) or set(log.scored) or {str(each.get("name")) for each in log.described.get("scorers") or []}


_OWN = "checkpoint/"
"""Begins the scores that are checkpoints in a log of our own export. Its other scores are computed from these."""


def _values(sample: Mapping[str, Any], *, is_own: bool) -> Iterator[tuple[str, Any]]:
    """Yield the scores by name. A score with several values becomes several scores."""
    given = sample.get("scores")
    for name, score in given.items() if isinstance(given, dict) else ():
        value = score.get("value") if isinstance(score, dict) else score
        if is_own:
            yield from [(name.removeprefix(_OWN), value)] if name.startswith(_OWN) else []
            continue
        yield from (
            ((f"{name}/{key}", each) for key, each in value.items()) if isinstance(value, dict) else [(name, value)]
        )


def _checkpoint(name: str, sample: Mapping[str, Any]) -> Checkpoint:
    """Return the checkpoint of a score, with the label and the points that our own export writes beside it."""
    points = _told(sample, name).get("metadata") or {}
    total = as_number(points.get("total", 1.0), "the total of a score")
    return Checkpoint(checkpoint_id=name, label=str(points.get("label", name)), total=total)


def _told(sample: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return what a sample says about a score besides its value: an explanation, and further values."""
    scores = sample.get("scores") or {}
    score = scores.get(f"{_OWN}{name}") or scores.get(name) or scores.get(name.partition("/")[0])
    return score if isinstance(score, dict) else {}


def _is_odd(value: Any) -> bool:
    """Return whether a score is none that a checkpoint can have."""
    if value is None or value != value or (isinstance(value, str) and value in _WORDS):
        return False
    return not isinstance(value, int | float) or not 0 <= value <= 1


def _score(value: Any) -> float | None:
    """Return a score as a number, or None if the scorer gave none."""
    if isinstance(value, str):
        return _WORDS[value]
    return None if value is None or value != value else float(value)


def _end(
    sample: Mapping[str, Any], headline: str, task: Task, scores: Mapping[str, float | None], *, is_own: bool
) -> Finish | Failure:
    took_ms = duration_ms(sample)
    error = sample.get("error")
    if error:
        message = str(error.get("message") if isinstance(error, dict) else error)
        kind = re.match(r"\w+", message)
        return Failure(boundary=None, error_kind=kind[0] if kind else "error", message=message, duration_ms=took_ms)
    results = tuple(
        CheckpointResult(
            checkpoint_id=each.checkpoint_id,
            score=score * each.total,
            details=str(_told(sample, each.checkpoint_id).get("explanation") or ""),
        )
        for each in task.checkpoints
        if (score := scores.get(each.checkpoint_id)) is not None
    )
    has_verdict = results or (is_own and "success" in (sample.get("scores") or {}))
    if not has_verdict or len(results) < len(task.checkpoints):
        return Failure(boundary="grader", error_kind="unscored", message="a score is missing", duration_ms=took_ms)
    limit = sample.get("limit") or {}
    return Finish(
        is_success=(
            sample["scores"]["success"]["value"] if is_own else scores.get(headline, next(iter(scores.values())))
        )
        == 1,
        results=results,
        ended_by=_LIMITS.get(str(limit.get("type")), "turn_limit") if limit else None,
        final_answer=None if (answer := (sample.get("output") or {}).get("completion")) is None else str(answer),
        duration_ms=took_ms,
    )


def _injected(condition: str, metadata: Mapping[str, Any], turns: Sequence[ForeignTurn]) -> ForeignInjection:
    """Find the injection: the first user turn after the agent's first action.

    The target action is the one that the sample's metadata states, if any.
    """
    actions, seen = 0, 0
    found: tuple[int, str] | None = None
    for turn in turns:
        later = [message for message in turn.request[seen:] if message.role == "user"]
        if actions and later and found is None:
            found = actions, later[0].content
        seen = len(turn.request) + 1
        actions += action_count_of(turn.reply)
    target = metadata.get("inject_after_action")
    return ForeignInjection(
        percent=int(condition.removeprefix("inject_")),
        message=found[1] if found else None,
        after_action=found[0] if found else None,
        target_action=None if target is None else as_count(target, "metadata.inject_after_action"),
    )
