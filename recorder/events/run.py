"""Events of a run, which is one invocation of an experiment file, and of the action budgets that it fixed."""

import msgspec

from lhaw_record.recorder.events.values import Event, Value

EXPERIMENT = "experiment"
"""The kind of run that executes an experiment file."""


class Package(Value, frozen=True):
    """A package used in a run, and its version."""

    name: str
    version: str


class RunStarted(Event, frozen=True, tag="run_started"):
    """A run started. The event holds the normalised experiment file and describes the code and the machine.

    ``kind`` is ``experiment`` if the run executes an experiment file and plans trials. Otherwise it is the command that
    adds to finished trials, such as ``judge`` or ``grade``. Earlier versions kept the kind in the configuration, so
    read it from :attr:`run_kind`.
    """

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
    kind: str | None = None

    @property
    def run_kind(self) -> str:
        """The kind of the run, also for runs that an earlier version recorded."""
        return self.kind or msgspec.json.decode(self.config_json).get("command") or EXPERIMENT


class RunFinished(Event, frozen=True, tag="run_finished"):
    """A run ended. ``outcome`` is completed, interrupted, cost_limit, cost_unknown or failed."""

    run_id: str
    outcome: str
    trials_finished: int
    trials_failed: int
    trials_blocked: int
    trials_left: int
    message: str = ""
    stream_digest: str = ""


class OracleBudgetSet(Event, frozen=True, tag="oracle_budget_set"):
    """The action budget B of one unit was set, in actions. It is fixed once, before the unit's first injected trial.

    ``unit_id`` is the task id if ``scope`` is ``task``, otherwise the variant id. Source: Ask Early, appendix A.11.3.
    """

    agent: str
    agent_digest: str
    benchmark: str
    scope: str
    unit_id: str
    budget_actions: int
    trial_ids: tuple[str, ...]
    action_counts: tuple[int, ...]
