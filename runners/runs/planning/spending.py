"""The money that an experiment has spent, in words, and the expected cost of its trials.

Scripted models have an invented price, which is never shown as money spent.
"""

from lhaw_record.recorder.reading.trial_index import TrialIndex
from lhaw_record.runners.experiment.tables import AgentSpec, Experiment, ModelSpec
from lhaw_record.runners.models.costs import price_of, spent_words
from lhaw_record.runners.runs.planning.plan import Plan

ASSUMED_INPUT_TOKENS = 150_000
ASSUMED_OUTPUT_TOKENS = 6_000


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


def has_guessed_cost(agent: AgentSpec, plan: Plan, index: TrialIndex) -> bool:
    """Return whether an agent's expected cost is a guess from list prices, because no trial of it has a known cost."""
    return list_prices(agent) is not None and not _known_costs(agent, plan, index)


def _known_costs(agent: AgentSpec, plan: Plan, index: TrialIndex) -> list[float]:
    own = [trial.trial_id for trial in plan.trials if trial.agent.name == agent.name]
    costs = [index.finished[trial_id].cost_usd for trial_id in own if trial_id in index.finished]
    return [cost for cost in costs if cost is not None]


def expected_per_trial_usd(agent: AgentSpec, plan: Plan, index: TrialIndex) -> float | None:
    """Return the expected cost of one trial of an agent, in USD.

    This is the mean cost of the agent's finished trials, or else the list price of a typical trial. The result is None
    if the price is unknown.
    """
    known = _known_costs(agent, plan, index)
    if known:
        return sum(known) / len(known)
    prices = list_prices(agent)
    return None if prices is None else (ASSUMED_INPUT_TOKENS * prices[0] + ASSUMED_OUTPUT_TOKENS * prices[1]) / 1e6


def list_prices(spec: ModelSpec) -> tuple[float, float] | None:
    """Return a model's prices in USD per million input and output tokens, or None if they are unknown."""
    if spec.is_scripted:
        return None  # known only from what its trials report
    if spec.price is not None:
        return spec.price.input_usd_per_million_tokens, spec.price.output_usd_per_million_tokens
    return price_of(spec.model, spec.api_base)
