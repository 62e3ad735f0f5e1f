"""What is said of money: scripted models have an invented price, and that is never shown as money spent."""

from runners.experiment import AgentSpec, Experiment, ModelSpec
from runners.unknown_costs import spent_words

SCRIPTED = "scripted/"


def spending(experiment: Experiment, spent_usd: float, unpriced: int = 0) -> str:
    """Return a cost in words; what scripted models cost in it is named as invented.

    Args:
        experiment: Whose models they are.
        spent_usd: The sum of what is known.
        unpriced: How many parts of it nobody knows.
    """
    amount = spent_words(spent_usd, unpriced)
    are_scripted = {spec.model.startswith(SCRIPTED) for spec in _models(experiment)}
    if True not in are_scripted:
        return amount
    return (
        f"{amount} at an invented price"
        if are_scripted == {True}
        else f"{amount}, scripted models at an invented price"
    )


def _models(experiment: Experiment) -> tuple[AgentSpec | ModelSpec, ...]:
    """Every model that an experiment calls."""
    others = (experiment.user_simulator.llm, experiment.grader.judge)
    return (*experiment.agents, *(spec for spec in others if spec is not None))
