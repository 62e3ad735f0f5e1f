"""Warnings from the outcomes of trials: agents that fail repeatedly, and cautions at the end of a run."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.agents.trial_record import Behaviour, TrialOutcome

_VARYING = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}\b|\d+")  # addresses, ids, times
_LIMITS = {
    "context_limit": "the conversation became too long for the model",
    "output_limit": "the reply was cut",
    "refused": "the model refused, or a filter did",
    "resource_abuse": "they count as failed, and the details of their checkpoints say why",
}
_SHOWN_CUT_PERCENT, _SHOWN_IDENTICAL_PERCENT = 1.0, 50.0


class _Row(msgspec.Struct):
    """Failures of an agent in the same words. ``since`` is when the first of them was added."""

    kind: tuple[str, str, str]
    since: int
    count: int = 0
    tasks: set[str] = msgspec.field(default_factory=set)


class RepeatedFailures:
    """Counts the latest given-up trials of each agent that failed alike. A valid trial or another failure ends the row.

    A task may be unfit with all its variants, so an agent is held only when ``limit`` tasks have failed so, or all of
    its tasks if it has fewer, with ``limit`` trials together. Trials that ran while the first of a row ended may have
    met the same short trouble, so they are not counted.

    Args:
        limit: After how many an agent is held; 0 for never.
        tasks: How many tasks each agent has, by its name.
    """

    def __init__(self, limit: int, tasks: Mapping[str, int]) -> None:
        self._limit = limit
        self._tasks = tasks
        self._rows: dict[str, _Row] = {}
        self._added = 0

    def now(self) -> int:
        """Return the moment at which an attempt begins, for :meth:`add`."""
        return self._added

    def clear(self) -> None:
        self._rows.clear()

    def add(self, outcome: TrialOutcome, began: int) -> str | None:
        """Return why the agent of an attempt should be held from now on, or None if it need not be."""
        trial, failure = outcome.trial, outcome.failure
        name = trial.agent.name
        self._added += 1
        if failure is None:
            self._rows.pop(name, None)
            return None
        kind = (str(failure.boundary), failure.error_kind, _words(failure.message, trial))
        row = self._rows.get(name)
        if row is None or row.kind != kind:
            row = self._rows[name] = _Row(kind, self._added)
        elif began < row.since:
            return None
        row.count += 1
        row.tasks.add(trial.task.task_id)
        there = self._tasks[name]
        if not self._limit or row.count < self._limit or len(row.tasks) < min(self._limit, there):
            return None
        return (
            f"agent {name}: {row.count} of its trials, one after another, failed in the same words, on "
            f"{len(row.tasks)} of its {there} tasks, at {failure.boundary} ({failure.error_kind}), so no more were "
            "started; mend that, or raise retry.same_failures"
        )


def _words(message: str, trial: PlannedTrial) -> str:
    """Return a message without what differs between trials: the ids of its task and variant, addresses, numbers."""
    for own in (trial.variant.variant_id if trial.variant else None, trial.task.task_id):
        if own:
            message = re.sub(rf"(?<!\w){re.escape(own)}(?!\w)", "#", message)
    return _VARYING.sub("#", message)


def run_cautions(outcomes: Iterable[TrialOutcome]) -> tuple[str, ...]:
    by_agent: defaultdict[str, list[tuple[str, Behaviour]]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.is_valid and outcome.behaviour is not None:
            trial = outcome.trial
            cell = f"{trial.task.task_id}|{trial.variant.variant_id if trial.variant else ''}|{trial.condition}"
            by_agent[trial.agent.name].append((cell, outcome.behaviour))
    return tuple(f"{agent}: {line}" for agent, found in sorted(by_agent.items()) for line in _of_agent(found))


def _of_agent(found: Sequence[tuple[str, Behaviour]]) -> Iterator[str]:
    trials = [behaviour for _, behaviour in found]
    idle = sum(trial.tool_call_count == 0 for trial in trials)
    if idle:
        yield f"no tool was ever called in {idle} of {len(trials)} trials"
    notations = sum((Counter(trial.calls_in_text) for trial in trials), Counter[str]())
    if notations:
        yield (
            f"{notations.total()} replies have a tool call in their text ({', '.join(sorted(notations))}), which the "
            "server does not recognise; switch on its tool parser (vLLM and SGLang: --tool-call-parser; llama.cpp: "
            "--jinja)"
        )
    endings = Counter(str(trial.ended_by) for trial in trials)
    for ended_by, meaning in _LIMITS.items():
        if endings[ended_by]:
            yield f"{endings[ended_by]} of {len(trials)} trials ended by {ended_by}: {meaning}"
    last_lines: defaultdict[int, list[str]] = defaultdict(list)
    for code, last_line in (trial.crash for trial in trials if trial.crash):
        last_lines[code].append(last_line)
    for code, lines in sorted(last_lines.items()):
        words = next(filter(None, lines), "")
        said = f"; last line of stderr: {words}" if words else ""
        yield f"{len(lines)} of {len(trials)} trials ended with exit code {code}, graded as they stand{said}"
    replies, cut = sum(trial.reply_count for trial in trials), sum(trial.cut_count for trial in trials)
    if replies and 100 * cut >= _SHOWN_CUT_PERCENT * replies:
        yield f"{100 * cut / replies:.0f} % of the replies were cut at their length limit; allow more max_tokens"
    yield from _of_answers(trials)
    yield from _of_cells(found)


def _of_answers(trials: Sequence[Behaviour]) -> Iterator[str]:
    questions, echoes = sum(trial.question_count for trial in trials), sum(trial.echo_count for trial in trials)
    if questions and not any(trial.revealed_count for trial in trials):
        yield f"the simulated user never revealed anything, to {questions} questions"
    if echoes:
        yield f"questions were echoed: {echoes} of {questions} answers of the simulated user are the question again"


def _of_cells(found: Sequence[tuple[str, Behaviour]]) -> Iterator[str]:
    cells: defaultdict[str, list[Behaviour]] = defaultdict(list)
    for cell, behaviour in found:
        cells[cell].append(behaviour)
    several = [
        trials for trials in cells.values() if len(trials) > 1 and all(trial.tool_call_count for trial in trials)
    ]
    same = sum(len({trial.actions_digest for trial in trials}) == 1 for trials in several)
    if same and 100 * same >= _SHOWN_IDENTICAL_PERCENT * len(several):
        yield (
            f"trials are identical in {same} of {len(several)} cells: copies, not repetitions (temperature 0?), so "
            "more trials of a cell add no information"
        )
