"""What the trials of a plan may cost, and its table by agent and condition: trials finished, to run, and their cost."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from statistics import fmean

import msgspec

from lhaw_record.recorder.reading.trial_index import TrialIndex
from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.base.text.fields import listed
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark
from lhaw_record.runners.experiment.tables import SCRIPTED, AgentSpec, Experiment, ModelSpec, loops
from lhaw_record.runners.models.costs import price_of, spent_words
from lhaw_record.runners.models.replay import MASKED_REPLAY, hides_nothing
from lhaw_record.runners.runs.planning.designs import DesignedBenchmark
from lhaw_record.runners.runs.planning.plan import Plan, left_out_of

ASSUMED_INPUT_TOKENS = 150_000
ASSUMED_OUTPUT_TOKENS = 6_000
_COLUMNS = ("agent", "model", "condition", "trials", "finished", "to_run", "failed_before", "expected_cost_usd")
_MAX_REASONS = 5
_MAX_NAMES = 3


def spending(experiment: Experiment, spent_usd: float, unpriced: int = 0) -> str:
    """Return a cost in words. The words say if scripted models with an invented price are part of it."""
    amount = spent_words(spent_usd, unpriced)
    are_scripted = {spec.is_scripted for _, spec in experiment.models()}
    if True not in are_scripted:
        return amount
    return (
        f"{amount} at an invented price"
        if are_scripted == {True}
        else f"{amount}, scripted models at an invented price"
    )


def _known_costs(plan: Plan, index: TrialIndex) -> dict[str, list[float]]:
    """Return the known costs of the finished trials in USD, by the name of their agent."""
    known: dict[str, list[float]] = {}
    for trial in plan.trials:
        ended = index.finished.get(trial.trial_id)
        if ended is not None and ended.cost_usd is not None:
            known.setdefault(trial.agent.name, []).append(ended.cost_usd)
    return known


def expected_costs_usd(experiment: Experiment, plan: Plan, index: TrialIndex) -> dict[str, float | None]:
    """Return the expected cost of one trial of each agent, in USD, or None if its price is unknown.

    This is the mean cost of the agent's finished trials. Without any, it is the list price of a typical trial, times
    how much other agents' finished trials cost in terms of theirs.
    """
    known = {name: fmean(costs) for name, costs in _known_costs(plan, index).items()}
    typical = {agent.name: typical_usd(agent) for agent in experiment.agents}
    ratios = [mean / usd for name, mean in known.items() if (usd := typical.get(name))]
    learned = fmean(ratios) if ratios else 1.0
    return {name: known.get(name, None if usd is None else usd * learned) for name, usd in typical.items()}


def typical_usd(agent: AgentSpec) -> float | None:
    """Return the list price of one typical trial of an agent, in USD, or None if its price is unknown."""
    prices = list_prices(agent)
    return None if prices is None else (ASSUMED_INPUT_TOKENS * prices[0] + ASSUMED_OUTPUT_TOKENS * prices[1]) / 1e6


def list_prices(spec: ModelSpec) -> tuple[float, float] | None:
    if spec.is_scripted:
        return None  # known only from what its trials report
    if spec.price is not None:
        return spec.price.input_usd_per_million_tokens, spec.price.output_usd_per_million_tokens
    return price_of(spec.model, spec.api_base)


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a plan's table.

    ``program`` is the name and version of the agent's program, or None for the native agent. ``expected_cost_usd`` is
    the cost of the ``to_run`` trials (see :func:`expected_costs_usd`). It is None if no price is known.
    """

    agent: str
    model: str
    program: str | None
    condition: str
    trials: int
    finished: int
    to_run: int
    failed_before: int
    expected_cost_usd: float | None


def plan_rows(experiment: Experiment, plan: Plan, index: TrialIndex, given_up: Collection[str] = ()) -> list[PlanRow]:
    """Return the rows of a plan in the order of the file, and a last row with the totals.

    Given-up trials do not count as trials to run.
    """
    groups: dict[tuple[str, str], list[PlannedTrial]] = {}
    for trial in plan.trials:
        groups.setdefault((trial.agent.name, trial.condition), []).append(trial)
    each = expected_costs_usd(experiment, plan, index)
    rows = [_row(trials, index, given_up, each[agent]) for (agent, _), trials in groups.items()]
    order = [agent.name for agent in experiment.agents]
    rows.sort(key=lambda row: order.index(row.agent))
    return [*rows, _total(rows)]


def plan_columns(rows: Sequence[PlanRow]) -> tuple[str, ...]:
    """Return the names of the columns to show. ``program`` is among them only if some agent is a program."""
    return (*_COLUMNS[:2], "program", *_COLUMNS[2:]) if any(row.program for row in rows) else _COLUMNS


def _row(
    trials: Sequence[PlannedTrial], index: TrialIndex, given_up: Collection[str], each_usd: float | None
) -> PlanRow:
    finished = sum(trial.trial_id in index.finished for trial in trials)
    to_run = sum(trial.trial_id not in index.finished and trial.trial_id not in given_up for trial in trials)
    return PlanRow(
        agent=trials[0].agent.name,
        model=trials[0].agent.model,
        program=trials[0].agent.external.title if trials[0].agent.external else None,
        condition=trials[0].condition,
        trials=len(trials),
        finished=finished,
        to_run=to_run,
        failed_before=sum(trial.trial_id in index.failed for trial in trials),
        expected_cost_usd=0.0 if to_run == 0 else None if each_usd is None else to_run * each_usd,
    )


def _total(rows: Sequence[PlanRow]) -> PlanRow:
    """Return the sums. Scripts without a known price cost no money, so they leave the sum of the others as it is."""
    paid = [row for row in rows if row.expected_cost_usd is not None or not row.model.startswith(SCRIPTED)]
    costs = [row.expected_cost_usd for row in paid] or [None]
    return PlanRow(
        agent="all",
        model="",
        program=None,
        condition="",
        trials=sum(row.trials for row in rows),
        finished=sum(row.finished for row in rows),
        to_run=sum(row.to_run for row in rows),
        failed_before=sum(row.failed_before for row in rows),
        expected_cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def plan_notes(experiment: Experiment, benchmark: Benchmark, plan: Plan, index: TrialIndex) -> Iterator[str]:
    """Yield the notes that accompany a plan: missing data, tasks left out, the benchmark's remarks, a guessed cost.

    A note may have several lines.
    """
    if isinstance(benchmark, DesignedBenchmark):
        yield f"{benchmark.missing}\nThe plan uses the counts of {benchmark.source}."
    yield from _left_out(left_out_of(plan, experiment, benchmark), [task.task_id for task in benchmark.tasks()])
    yield from benchmark.remarks()
    yield from _not_hidden(benchmark, plan)
    yield from model_notes(experiment)
    known = _known_costs(plan, index)
    if any(list_prices(agent) is not None and agent.name not in known for agent in experiment.agents):
        is_learned = any(typical_usd(agent) for agent in experiment.agents if agent.name in known)
        learned = ", in proportion to what the other agents' finished trials cost" if is_learned else ""
        yield (
            "The expected cost is a guess until trials are finished: list price times "
            f"{ASSUMED_INPUT_TOKENS:,} input and {ASSUMED_OUTPUT_TOKENS:,} output tokens per trial{learned}, with "
            "nothing read from a cache (often most of the input is), and without simulated users, judges and graders."
        )


def _not_hidden(benchmark: Benchmark, plan: Plan) -> Iterator[str]:
    """Yield a note on the variants from which a replayed reference hides nothing: it solves them all the same."""
    known: dict[str, bool] = {}
    for trial in plan.trials:
        variant = trial.shown_variant
        if trial.agent.model == MASKED_REPLAY and variant is not None and variant.variant_id not in known:
            reference = benchmark.reference(trial.task.task_id)
            removed = [segment.value for segment in variant.segments]
            known[variant.variant_id] = bool(removed) and reference is not None and hides_nothing(reference, removed)
    names = [name for name, is_known in known.items() if is_known]
    if names:
        yield (
            f"{MASKED_REPLAY} hides nothing in {listed(names, _MAX_NAMES)}, because no call of the solution has the "
            f"missing value in this spelling. In variants.toml of a Harbor task, 'written' gives the solution's "
            f"spelling."
        )


def model_notes(experiment: Experiment) -> Iterator[str]:
    for pattern, limit_usd in experiment.budget.models.items():
        own = dict.fromkeys(spec.model for _, spec in experiment.models() if fnmatchcase(spec.model, pattern))
        yield f"budget.models.'{pattern}': at most {limit_usd:g} USD for {', '.join(own)}."
    if looping := dict.fromkeys(spec.model for _, spec in experiment.models() if loops(spec.model, spec.parameters)):
        yield (
            f"{', '.join(looping)}: according to its model card, this model's thinking repeats itself at temperature "
            f"0 until the length limit; leave the temperature out, or set what the card recommends."
        )


def _left_out(found: Mapping[str, str], known: Sequence[str]) -> Iterator[str]:
    """Yield a note on the tasks that are left out."""
    names: dict[str, list[str]] = {}
    for task_id, reason in found.items():
        names.setdefault(reason, []).append(task_id)
    if not found:
        return
    yield f"{len(found)} of {len({*found, *known})} tasks are left out:"
    for reason, own in list(names.items())[:_MAX_REASONS]:
        yield f"  {listed(own, _MAX_NAMES)}: {reason}"
    rest = sum(len(own) for own in list(names.values())[_MAX_REASONS:])
    if rest:
        yield f"  {rest} more for other reasons; name one in benchmark.tasks to see its reason"
