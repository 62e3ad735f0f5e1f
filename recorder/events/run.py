"""Events about runs, the daemon's experiment queue, and imports."""

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
    adds to finished trials, such as ``judge`` or ``grade``. Read :attr:`run_kind` instead:
    earlier versions kept the kind in the configuration. ``left_out_tasks`` are the tasks of the benchmark that the plan
    lacks, or lacks in conditions with variants.
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
    left_out_tasks: tuple[str, ...] = ()

    @property
    def run_kind(self) -> str:
        """The kind of the run, including runs recorded by earlier versions."""
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
    """The action budget B of one unit was set, once, before the unit's first injected trial.

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


class LookTaken(Event, frozen=True, tag="look_taken"):
    """A study that stops when a gain is shown looked at it, after a batch of tasks was finished.

    ``look`` is its number from 1 on, and ``tasks`` how many it was at. ``p_value`` is two-sided, None if these were too
    few. The study stops if ``is_shown``, that is if ``p_value`` is below ``level``, or at the last look.
    """

    look: int
    looks: int
    tasks: int
    agent: str
    measure: str
    p_value: float | None
    level: float
    is_shown: bool


CONTROL_EXPERIMENT = "daemon"
"""The experiment id under which a store's daemons record commands."""

NOTES_EXPERIMENT = "trial-notes"
"""The experiment id under which all notes about a store's trials are recorded."""


class ExperimentSubmitted(Event, frozen=True, tag="experiment_submitted"):
    """Somebody submitted an experiment to the daemon. ``config_json`` is the normalised file as canonical JSON.

    ``path`` is the original experiment file, whose relative paths start from its folder. A later submission under the
    same name replaces an earlier one. ``by`` is the name that the submitter gave.
    """

    experiment: str
    config_json: str
    config_digest: str
    path: str
    by: str


class ExperimentPaused(Event, frozen=True, tag="experiment_paused"):
    """Pause an experiment: the daemon starts no more of its trials, but lets running trials finish."""

    experiment: str
    by: str


class ExperimentResumed(Event, frozen=True, tag="experiment_resumed"):
    """Start an experiment's trials again after a pause, a reached cost limit or too many failures."""

    experiment: str
    by: str


class ExperimentCancelled(Event, frozen=True, tag="experiment_cancelled"):
    """Cancel an experiment and end its running trials. It runs again only if it is resubmitted."""

    experiment: str
    by: str


class ExperimentRetuned(Event, frozen=True, tag="experiment_retuned"):
    """From now on, run at most ``concurrency`` trials of an experiment at a time, regardless of its file."""

    experiment: str
    concurrency: int
    by: str


class ExperimentRequeued(Event, frozen=True, tag="experiment_requeued"):
    """Retry abandoned trials, each with as many new attempts as the experiment file allows."""

    experiment: str
    trial_ids: tuple[str, ...]
    by: str


CONTROL = (
    ExperimentSubmitted,
    ExperimentPaused,
    ExperimentResumed,
    ExperimentCancelled,
    ExperimentRetuned,
    ExperimentRequeued,
)
"""The event types of all commands to the daemon."""


class Understood(Value, frozen=True):
    """How many items of one kind became events."""

    kind: str
    count: int


class Skipped(Value, frozen=True):
    """How many items of one kind were skipped, and why."""

    kind: str
    count: int
    reason: str


class ImportRecorded(Event, frozen=True, tag="import_recorded"):
    """A file was imported into this stream. ``source_name`` is the file's name without folders."""

    source_format: str
    source_name: str
    source_sha256: str
    source_bytes: int
    understood: tuple[Understood, ...]
    skipped: tuple[Skipped, ...] = ()
    remarks: tuple[str, ...] = ()
