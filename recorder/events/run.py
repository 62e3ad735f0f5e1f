"""A run: one invocation of an experiment file, and what it planned by data."""

from recorder.events._base import Event
from recorder.values import Value


class Package(Value, frozen=True):
    """A package that took part in a run, with its version."""

    name: str
    version: str


class RunStarted(Event, frozen=True, tag="run_started"):
    """A run began: its normalised experiment file, the code and the machine."""

    run_id: str
    config_json: str
    config_digest: str
    code_version: str
    packages: tuple[Package, ...]
    python_version: str
    platform: str
    cpu_count: int
    planned_trials: int
    finished_before: int


class RunFinished(Event, frozen=True, tag="run_finished"):
    """A run ended. Outcome: completed, interrupted, cost_limit, cost_unknown or failed."""

    run_id: str
    outcome: str
    trials_finished: int
    trials_failed: int
    trials_blocked: int
    trials_left: int
    message: str = ""
    stream_digest: str = ""


class OracleBudgetSet(Event, frozen=True, tag="oracle_budget_set"):
    """The action budget B of one unit, fixed once before its first injected trial; units: actions.

    Source: Ask Early, appendix A.11.3. ``unit_id`` is the task id (scope ``task``) or the variant id.
    """

    agent: str
    agent_digest: str
    benchmark: str
    scope: str
    unit_id: str
    budget_actions: int
    trial_ids: tuple[str, ...]
    action_counts: tuple[int, ...]
