"""Turns a trajectory that has neither a task nor a result into a trial.

The task is named by the source, by its prompt or by the command line, which also gives the result. If the store has
that task, the trial must fit the store's version or is skipped with the reason, because a second version would replace
the first in tables. A trajectory without a result is a failed trial: its events are kept, and it is missing data.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from lhaw_record.recorder.events import Usage
from lhaw_record.recorder.events.canonical_json import short_digest
from lhaw_record.recorder.events.trial import EndedBy
from lhaw_record.recorder.events.values import Checkpoint, Task, Variant
from lhaw_record.recorder.wording import did_you_mean
from lhaw_record.runners.environments.grading.grade import CheckpointResult
from lhaw_record.runners.imports.foreign_trial import (
    MISFORMED,
    UNSTATED_USAGE,
    Failure,
    Finish,
    ForeignTrial,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    counted,
    imported_task,
    left_out,
    reason_of,
)
from lhaw_record.runners.imports.trajectory import ForeignTurn, trajectory_events

NAMED_BY_PROMPT = re.compile("prompt-[0-9a-f]{12}")
"""How the id of a task begins that has no name but a prompt."""

REWARD = "reward"
"""The only checkpoint of such a trial, and the default name of a reward."""

GRADER = "imported"


class BareTrajectory(msgspec.Struct, frozen=True, kw_only=True):
    """What a source says about one run of an agent. A value of None is unknown.

    ``stated`` is the usage of the whole run as the source states it, and ``started_at`` an ISO 8601 time, or seconds.
    ``condition`` is that of a source whose runs all have one, ``reward`` the source's own result from 0 to 1, and
    ``trial_index`` its number among the task's repetitions, from 0.
    """

    prompt: str
    agent: str
    model: str
    turns: Sequence[ForeignTurn]
    program: str | None = None
    task: str | None = None
    run_name: str | None = None
    final_answer: str | None = None
    ended_by: EndedBy | None = None
    duration_ms: float | None = None
    started_at: str | float | None = None
    stated: Usage = UNSTATED_USAGE
    condition: str = "full"
    reward: float | None = None
    trial_index: int = 0


def parsed_trajectory(
    location: str,
    found: BareTrajectory,
    options: Options,
    known: KnownRecords,
    *,
    format_name: str,
    remarks: Sequence[str] = (),
) -> ParsedFile:
    """Return the one trial of a trajectory."""
    condition = options.condition or found.condition
    variant = _variant(location, condition, options, known)
    benchmark = variant.benchmark if variant else options.benchmark or format_name
    if not (variant or options.task or found.task or found.prompt):
        reason = f"{location}: no user message has the task; give it with --task"
        return left_out("trajectories", reason, remarks)
    own_name = found.task or f"prompt-{short_digest(found.prompt)[:12]}"
    place = re.sub(r"(\.traj(ectory)?)?\.[a-z]+(?=:\d+$|$)", "", location)
    task_id = variant.task_id if variant else (options.task or own_name).replace("{file}", place)
    try:
        events = trajectory_events(found.turns, model=found.model, condition=condition)
    except ValueError as error:
        return left_out("trajectories", str(error), remarks)
    stored = known.tasks.get((benchmark, task_id))
    others = [name for of, name in known.tasks if of == benchmark]
    if options.task and "{file}" not in options.task and others and not stored:
        remarks = (*remarks, f"the store has no task {task_id} of {benchmark}{did_you_mean(task_id, others)}")
    wanted = variant.prompt if variant else stored.prompt if stored else ""
    if other := _other_prompt(wanted.strip(), (benchmark, task_id), found.prompt.strip(), known):
        reason = f"{location}: its prompt is {other}"
        return left_out("trajectories", reason, remarks)
    given = (options.rewards or {}).get(location, options.reward)
    reward = found.reward if given is None else given
    if reward is not None and not 0 <= reward <= 1:
        return left_out("trajectories", f"{location}: its reward is {reward:g}, expected 0 to 1", remarks)
    difference = _difference(stored, wanted.strip(), found.prompt, reward) if stored else None
    if stored and stored.environment_digest and difference is not None:
        reason = f"{location} does not fit the store's {benchmark}/{task_id}: {difference}; use --task for another"
        return left_out("trajectories", reason, remarks)
    remarks = (*remarks, *differing_totals(found.stated, found.turns))
    own_prompt = "" if variant else found.prompt
    task = imported_task(benchmark, task_id, own_prompt, (Checkpoint(checkpoint_id=REWARD, label=REWARD),))
    if stored and difference is None:
        task = stored
    trial = ForeignTrial(
        location=location,
        task=task,
        variant=variant,
        condition=condition,
        agent=options.agent or found.agent,
        model=found.model,
        grader=GRADER,
        first_index=options.trial_index + found.trial_index,
        run_name=found.run_name,
        program=found.program,
        trajectory=events,
        end=_end(found, reward, task.checkpoints),
        end_before=without_reward(found.duration_ms, found.stated),
        started_at=found.started_at,
    )
    return ParsedFile(trials=(trial,), remarks=tuple(remarks))


def read_trajectory(
    location: str,
    read: Callable[[Counter[str]], BareTrajectory],
    options: Options,
    known: KnownRecords,
    *,
    format_name: str,
) -> ParsedFile:
    """Return the trial of a trajectory that ``read`` reads and counts remarks about, or why it has another form."""
    remarks: Counter[str] = Counter()
    try:
        found = read(remarks)
    except MISFORMED as error:
        return left_out("trajectories", f"{location}: {reason_of(error)}")
    return parsed_trajectory(location, found, options, known, format_name=format_name, remarks=counted(remarks))


def in_one(found: Sequence[ParsedFile]) -> ParsedFile:
    """Join the parts of a file."""
    return ParsedFile(
        trials=tuple(trial for each in found for trial in each.trials),
        skipped=tuple(skipped for each in found for skipped in each.skipped),
        remarks=tuple(remark for each in found for remark in each.remarks),
    )


def without_reward(duration_ms: float | None, usage: Usage = UNSTATED_USAGE) -> Failure:
    """Return the end of a trajectory without a known result."""
    return Failure(
        boundary="grader",
        error_kind="no_reward",
        message="the trajectory has no result; give one with --reward or --rewards",
        duration_ms=duration_ms,
        usage=usage,
    )


def differing_totals(stated: Usage, turns: Sequence[ForeignTurn]) -> list[str]:
    """Return a remark for each total of a run that its model calls do not add up to. The total is what counts."""
    found = []
    for name in ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "cost_usd"):
        total, parts = getattr(stated, name), [getattr(turn.usage, name) for turn in turns if turn.is_model_call]
        known = [part for part in parts if part is not None]
        if total is not None and known and abs(total - sum(known)) > 1e-6:
            found.append(f"{name} is {total:g} for the run and {sum(known):g} for its model calls; the run's is kept")
    return found


def _variant(location: str, condition: str, options: Options, known: KnownRecords) -> Variant | None:
    """Return the variant of a trial, None for the full prompt."""
    if condition.startswith("full"):
        if options.variant is not None:
            raise ImportFailed(f"--variant {options.variant} needs --condition; without it, {location} counts as full")
        return None
    if options.variant is None:
        raise ImportFailed(f"condition {condition} needs --variant, the id of the prompt that {location} was given")
    if options.variant not in known.variants:
        raise ImportFailed(f"the store has no variant {options.variant!r}; import or generate it first")
    return known.variants[options.variant]


def _other_prompt(wanted: str, of_task: tuple[str, str], prompt: str, known: KnownRecords) -> str | None:
    """Return the other prompt of the task that the trajectory was given, or None if it was given the wanted one.

    A variant's prompt is often a part of the full one, so the longest prompt in the text is the one that was given.
    """
    task = known.tasks.get(of_task)
    named = {"the full prompt: leave --variant out": task.prompt.strip()} if task else {}
    for each in known.variants.values():
        if (each.benchmark, each.task_id) == of_task:
            named[f"that of {each.variant_id}: set --condition and --variant"] = each.prompt.strip()
    others = {name: text for name, text in named.items() if wanted and text and text != wanted}
    given = [name for name, text in others.items() if text == prompt or (len(text) > len(wanted) and text in prompt)]
    return max(given, key=lambda name: len(others[name]), default=None)


def _difference(task: Task, wanted: str, prompt: str, reward: float | None) -> str | None:
    """Return why a trajectory is not a trial of the store's version of its task, or None if it is."""
    if len(task.checkpoints) != 1 and reward not in (None, 0, 1):
        return f"a reward of {reward:g} does not say which of the {len(task.checkpoints)} checkpoints were reached"
    return None if wanted and wanted in prompt else "its prompt does not contain the store's"


def _end(found: BareTrajectory, reward: float | None, checkpoints: Sequence[Checkpoint]) -> Finish | Failure:
    """Return the end of a trial. A reward of 0 or 1 applies to every checkpoint."""
    if reward is None:
        return without_reward(found.duration_ms, found.stated)
    return Finish(
        is_success=reward >= 1,
        results=tuple(
            CheckpointResult(checkpoint_id=each.checkpoint_id, score=reward * each.total) for each in checkpoints
        ),
        ended_by=found.ended_by,
        final_answer=found.final_answer,
        duration_ms=found.duration_ms,
        usage=found.stated,
    )
