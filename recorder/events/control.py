"""Events for the commands that people give the daemon. The daemon computes its queue from these events and the runs."""

from lhaw_record.recorder.events.values import Event

CONTROL_EXPERIMENT = "daemon"
"""The experiment id under which the daemons of a store record their commands."""

NOTES_EXPERIMENT = "trial-notes"
"""The experiment id under which all notes about trials of a store are recorded."""


class ExperimentSubmitted(Event, frozen=True, tag="experiment_submitted"):
    """Somebody submitted an experiment to the daemon. ``config_json`` is the normalised file as canonical JSON.

    ``path`` is the original experiment file. Relative paths in the file start from its folder. A later submission
    under the same name replaces an earlier one. ``by`` is the name that the submitter gave.
    """

    experiment: str
    config_json: str
    config_digest: str
    path: str
    by: str


class ExperimentPaused(Event, frozen=True, tag="experiment_paused"):
    """Pause an experiment: the daemon starts no more of its trials, and its running trials continue to their end."""

    experiment: str
    by: str


class ExperimentResumed(Event, frozen=True, tag="experiment_resumed"):
    """Start an experiment's trials again after a pause, a reached cost limit or too many failures."""

    experiment: str
    by: str


class ExperimentCancelled(Event, frozen=True, tag="experiment_cancelled"):
    """Cancel an experiment and end its running trials. It starts again only when somebody submits it again."""

    experiment: str
    by: str


class ExperimentRetuned(Event, frozen=True, tag="experiment_retuned"):
    """Run at most ``concurrency`` of an experiment's trials at a time from now on, whatever its file says."""

    experiment: str
    concurrency: int
    by: str


class ExperimentRequeued(Event, frozen=True, tag="experiment_requeued"):
    """Retry trials that were given up. Each gets as many new attempts as the experiment file allows."""

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
