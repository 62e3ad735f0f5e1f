"""What the trials of a run make one doubt, in a line for each agent: said at the end of the run, before any table."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from lhaw_record.runners.agents.behaviour import Behaviour
from lhaw_record.runners.agents.trial_record import TrialOutcome

_LIMITS = {
    "context_limit": "the conversation became too long for the model",
    "output_limit": "the reply was cut",
    "refused": "the model refused, or a filter did",
    "resource_abuse": "they count as failed, and the details of their checkpoints say why",
}
_SHOWN_CUT_PERCENT, _SHOWN_IDENTICAL_PERCENT = 1.0, 50.0


def run_cautions(outcomes: Iterable[TrialOutcome]) -> tuple[str, ...]:
    """Return the cautions about the valid trials among the given ones, by agent."""
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
