"""Format ``harbor-job``: the folder of a Harbor job, or of one of its trials.

A reward counts if Harbor counts it: not if there is an error, unless the agent itself used up its budget or refused.
Source: harbor 0.25.0, ``harbor.models.trial.result`` and ``error_policy``.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import msgspec

from lhaw_record.recorder.events import AnyEvent, Skipped, Usage
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.trial import Boundary, EndedBy
from lhaw_record.recorder.events.values import Checkpoint
from lhaw_record.runners.base.text.fields import as_number, as_object, as_text, shown
from lhaw_record.runners.environments.grading.grade import CheckpointResult
from lhaw_record.runners.imports.bare_trajectory import REWARD, differing_totals
from lhaw_record.runners.imports.foreign_trial import (
    MISFORMED,
    UNKNOWN,
    Failure,
    Finish,
    ForeignTrial,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    elapsed_ms,
    imported_task,
    left_out,
    read_each,
    reason_of,
    stated_usage,
    total_usage,
)
from lhaw_record.runners.imports.formats.atif import Documents, document_of
from lhaw_record.runners.imports.source_files import decode_json
from lhaw_record.runners.imports.trajectory import ForeignTurn, trajectory_events

BENCHMARK = "harbor"
GRADER = "harbor/verifier"
_VALID: dict[str, EndedBy] = {
    "AgentTimeoutError": "time_limit",
    "ContextWindowExceededError": "context_limit",
    "ContextLengthExceededError": "context_limit",
    "OutputTokenExceededError": "output_limit",
    "OutputLengthExceededError": "output_limit",
    "AgentSafetyRefusalError": "refused",
    "ContentPolicyViolationError": "refused",
}
"""The errors with which Harbor's ``reward_valid`` still holds, because the agent itself ended the trial."""

_BOUNDARIES: dict[Boundary, tuple[str, ...]] = {
    "sandbox": (
        "EnvironmentStartTimeoutError",
        "SandboxBuildFailedError",
        "AgentSetupTimeoutError",
        "HealthcheckError",
        "SandboxLikelyOutOfMemoryError",
        "MemoryLimitExceededError",
        "AddTestsDirError",
        "DownloadVerifierDirError",
    ),
    "model": (
        "ApiError",
        "ApiRateLimitError",
        "ApiInternalServerError",
        "ApiOverloadedError",
        "ApiConnectionError",
        "ApiConnectionClosedError",
        "ApiResponseStalledError",
        "ApiUsageLimitError",
        "NetworkConnectionError",
        "RateLimitError",
        "InternalServerError",
        "ServiceUnavailableError",
        "APIConnectionError",
        "APIError",
        "Timeout",
        "AgentAuthenticationError",
        "AuthenticationError",
        "ModelNotFoundError",
        "NotFoundError",
    ),
    "grader": (
        "VerifierTimeoutError",
        "RewardFileNotFoundError",
        "RewardFileEmptyError",
        "VerifierOutputParseError",
    ),
}
"""Where the other errors happened; an unlisted error has an unknown boundary."""


class _Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one trial, and the files next to it."""

    source: SourceFile
    result: Mapping[str, Any]
    task_id: str
    place: str
    agent: str
    model: str
    rewards: Mapping[str, float]
    usage: Usage


def parse_all(sources: Mapping[str, SourceFile], options: Options, known: KnownRecords) -> dict[str, ParsedFile]:
    """Return a trial for each trial result, with the trajectory next to it."""
    results = {label: source for label, source in sources.items() if source.name == "result.json"}
    found: dict[str, ParsedFile] = {}
    trials: list[_Trial] = []
    for label, value in read_each(results, _result, found).items():
        if "task_name" not in value:
            found[label] = ParsedFile(remarks=tuple(_means(value)))
            continue
        try:
            trials.append(_read(sources[label], value, options))
        except MISFORMED as error:
            found[label] = left_out("trials", reason_of(error))
    _check_agents(trials)
    trials = _with_task_ids(trials)
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for trial in trials:
        names[trial.task_id] |= dict.fromkeys(sorted(trial.rewards))
    count: Counter[tuple[str, ...]] = Counter()
    for trial in sorted(trials, key=_order):
        cell = (trial.task_id, trial.agent, trial.model)
        checkpoints = tuple(names[trial.task_id]) or (REWARD,)
        found[trial.source.label] = _parsed(trial, sources.values(), checkpoints, count[cell], options, known)
        count[cell] += 1
    return found


def _result(source: SourceFile) -> Mapping[str, Any]:
    value = decode_json(source)
    if not isinstance(value, dict) or not ({"task_name", "agent_info"} <= value.keys() or "stats" in value):
        raise ImportFailed(f"{source.label} is not a result of a Harbor job or trial: it has no task_name or stats")
    return value


def _with_task_ids(trials: Sequence[_Trial]) -> list[_Trial]:
    """Return the trials with an id for each task: its name or, if others have the same, its path.

    Harbor calls a task that has no name of its own like the last part of its folder.
    """
    places: dict[str, dict[str, str]] = defaultdict(dict)
    for trial in trials:
        checksum = str(trial.result.get("task_checksum"))
        places[trial.task_id][checksum] = trial.place
    paths = {place for name, found in places.items() for place in found.values() if PurePosixPath(place).name == name}
    clashes = {name for name, found in places.items() if len(set(found.values())) > 1}
    for name in clashes:
        if not paths >= set(places[name].values()):
            raise ImportFailed(f"{' and '.join(sorted(set(places[name].values())))} are different tasks named {name}")
    if not clashes:
        return list(trials)
    try:
        base = os.path.commonpath([PurePosixPath(each).parent for each in paths])
    except ValueError as error:
        raise ImportFailed(f"the paths of the tasks named {min(clashes)} have no common folder: {error}") from error
    return [
        msgspec.structs.replace(trial, task_id=PurePosixPath(trial.place).relative_to(base).as_posix())
        if trial.place in paths
        else trial
        for trial in trials
    ]


def _order(trial: _Trial) -> tuple[str, str]:
    return str(trial.result.get("started_at")), str(trial.result.get("trial_name"))


def _means(job: Mapping[str, Any]) -> Iterator[str]:
    """Yield the job's own means, which Harbor computes differently from us."""
    for name, each in (as_object(job["stats"], "stats").get("evals") or {}).items():
        for metric in each.get("metrics") or []:
            for key, value in metric.items():
                yield f"{name}: Harbor's {key} is {value}; Harbor counts a trial without a reward as 0"


def _read(source: SourceFile, result: Mapping[str, Any], options: Options) -> _Trial:
    info = as_object(result["agent_info"], "agent_info")
    named = info.get("model_info") or {}
    model = (result.get("config") or {}).get("agent", {}).get("model_name") or "/".join(
        filter(None, (named.get("provider"), named.get("name")))
    )
    given = (result.get("verifier_result") or {}).get("rewards") or {}
    kept = ((result.get("agent_result") or {}).get("metadata") or {}).get("lhaw_record") or {}
    if len(given) > len(kept.get("scores") or ()) > 0:  # 'export harbor-job' has added the success
        given = {name: value for name, value in given.items() if name != REWARD}
    rewards = {name: float(v) if isinstance(v, bool) else as_number(v, f"reward {name}") for name, v in given.items()}
    for name, value in rewards.items():
        if not 0 <= value <= 1:
            raise ValueError(f"the reward {name} is {shown(value)}: its maximum is unknown")
    return _Trial(
        source=source,
        result=result,
        task_id=str(result["task_name"]),
        place=str(as_object(result.get("task_id") or {}, "task_id").get("path")),
        agent=options.agent or as_text(info.get("name"), "agent_info.name"),
        model=model or UNKNOWN,
        rewards=rewards,
        usage=_usage(result),
    )


def _check_agents(trials: Sequence[_Trial]) -> None:
    """Check that trials of one agent and model have the same settings."""
    settings: dict[tuple[str, str], tuple[bytes, str]] = {}
    for trial in trials:
        config = (trial.result.get("config") or {}).get("agent") or {}
        version = trial.result["agent_info"].get("version")
        own = canonical_json([version, {name: value for name, value in config.items() if name != "env"}])
        first, label = settings.setdefault((trial.agent, trial.model), (own, trial.source.label))
        if first != own:
            raise ImportFailed(
                f"{label} and {trial.source.label} are both of agent {trial.agent}, with different versions or "
                f"settings; import them one by one, each with its own --agent"
            )


def _parsed(
    trial: _Trial,
    sources: Iterable[SourceFile],
    checkpoints: tuple[str, ...],
    index: int,
    options: Options,
    known: KnownRecords,
) -> ParsedFile:
    result = trial.result
    variant = known.variants.get(trial.task_id) or known.variants.get(trial.task_id.rpartition("/")[2])
    condition = options.condition or ("underspecified" if variant else "full")
    if (variant is None) != condition.startswith("full"):
        which = "a" if variant else "no"
        reason = f"condition {condition} does not fit the task {trial.task_id}, which is {which} variant"
        return left_out("trials", reason)
    skipped: list[Skipped] = []
    remarks: list[str] = []
    turns: list[ForeignTurn] = []
    events: tuple[AnyEvent, ...] | None = None
    answer = None
    try:
        for documents, label in _documents(trial, sources):
            run, more = documents.run(label)
            turns += run.turns
            remarks += more
            answer = run.final_answer
        events = trajectory_events(turns, model=trial.model, condition=condition) if turns else None
    except (ImportFailed, ValueError) as error:
        skipped.append(Skipped(kind="trajectories", count=1, reason=f"{error}; the result is kept"))
    remarks += differing_totals(trial.usage, turns)
    info = as_object(result["agent_info"], "agent_info")
    task = imported_task(
        variant.benchmark if variant else BENCHMARK,
        variant.task_id if variant else trial.task_id,
        checkpoints=(Checkpoint(checkpoint_id=name, label=name) for name in checkpoints),
        environment_digest=str(result.get("task_checksum") or ""),
        domain=result.get("source"),
    )
    if (stored := known.tasks.get((task.benchmark, task.task_id))) is not None and stored.prompt:
        remarks.append(
            f"{trial.source.label} is of another version of {task.benchmark}/{task.task_id} than the store's; tables "
            f"keep only the version that ran last; import it into a separate store, or 'discard' it"
        )
    found = ForeignTrial(
        location=trial.source.label,
        task=task,
        variant=variant,
        condition=condition,
        agent=trial.agent,
        model=trial.model,
        grader=GRADER,
        trial_index=options.trial_index + index,
        run_name=str(result.get("id")),
        program=f"{info.get('name')} {info.get('version')}",
        trajectory=events,
        end=_end(trial, checkpoints, answer),
        started_at=result.get("started_at"),
    )
    return ParsedFile(trials=(found,), skipped=tuple(skipped), remarks=tuple(remarks))


def _documents(trial: _Trial, sources: Iterable[SourceFile]) -> Iterator[tuple[Documents, str]]:
    """Yield the documents in each of a trial's agent folders, in step order, and the first document."""
    base = PurePosixPath(trial.source.label).parent
    steps = [str(step.get("step_name")) for step in trial.result.get("step_results") or []]
    for folder in (base / "agent", *(base / "steps" / step / "agent" for step in steps)):
        own = {source.label: source for source in sources if PurePosixPath(source.label).parent == folder}
        first = str(folder / "trajectory.json")
        if first in own:
            yield Documents({label: document_of(source) for label, source in own.items()}), first


def _errors(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the errors of a trial and its steps, the trial's first."""
    given = [result.get("exception_info"), *(step.get("exception_info") for step in result.get("step_results") or [])]
    return [as_object(each, "exception_info") for each in given if each]


def _end(trial: _Trial, checkpoints: Sequence[str], answer: str | None) -> Finish | Failure:
    errors = _errors(trial.result)
    duration_ms = _duration_ms(trial.result)
    invalid = next((each for each in errors if each.get("exception_type") not in _VALID), None)
    if invalid is not None or not trial.rewards:
        kind = str((invalid or {}).get("exception_type") or "no_reward")
        boundary: Boundary | None = next((location for location, names in _BOUNDARIES.items() if kind in names), None)
        return Failure(
            boundary="grader" if invalid is None else boundary,
            error_kind=kind,
            message=str((invalid or {}).get("exception_message") or "the trial has no reward"),
            duration_ms=duration_ms,
            usage=trial.usage,
        )
    return Finish(
        is_success=all(trial.rewards.get(name, 0) == 1 for name in checkpoints),
        results=tuple(
            CheckpointResult(
                checkpoint_id=name,
                score=trial.rewards.get(name, 0.0),
                details="" if name in trial.rewards else "the trial lacks this reward, which Harbor counts as 0",
            )
            for name in checkpoints
        ),
        ended_by=_VALID[str(errors[0]["exception_type"])] if errors else None,
        final_answer=answer,
        duration_ms=duration_ms,
        usage=trial.usage,
    )


def _usage(result: Mapping[str, Any]) -> Usage:
    """Return the agent's usage, which a trial with several steps has for each step."""
    results = [result] if result.get("agent_result") else result.get("step_results") or []
    given = [as_object(each["agent_result"], "agent_result") for each in results if each.get("agent_result")]
    return total_usage(
        stated_usage(
            each.get("cost_usd"),
            input_tokens=each.get("n_input_tokens"),
            output_tokens=each.get("n_output_tokens"),
            cached_input_tokens=each.get("n_cache_tokens"),
        )
        for each in given
    )


def _duration_ms(result: Mapping[str, Any]) -> float | None:
    """Return the agent's total running time over all steps in milliseconds, or None if a time is missing."""
    steps = result.get("step_results") or []
    phases = [step.get("agent_execution") for step in steps] if steps else [result.get("agent_execution")]
    times = [elapsed_ms(phase, "started_at", "finished_at") for phase in phases]
    return None if None in times else round(sum(time or 0.0 for time in times), 3)
