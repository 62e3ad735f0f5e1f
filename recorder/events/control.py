"""Control: what people asked the daemon to do with experiments; its queue is a fold over these and over the runs."""

from recorder.events._base import Event

CONTROL_EXPERIMENT = "daemon"
"""The experiment under which the daemons of a store record what they were asked."""


class ExperimentSubmitted(Event, frozen=True, tag="experiment_submitted"):
    """An experiment was given to the daemon, whole: its normalised file as canonical JSON.

    ``path`` is the file that it came from: relative paths in it start in its folder. A later submission of the same
    name takes the place of an earlier one. ``by`` is who asked, as they call themselves.
    """

    experiment: str
    config_json: str
    config_digest: str
    path: str
    by: str


class ExperimentPaused(Event, frozen=True, tag="experiment_paused"):
    """No further trial of it starts; what is running goes on to its end."""

    experiment: str
    by: str


class ExperimentResumed(Event, frozen=True, tag="experiment_resumed"):
    """Its trials start again: after a pause, or once more after it stopped for its cost limit or for failed trials."""

    experiment: str
    by: str


class ExperimentCancelled(Event, frozen=True, tag="experiment_cancelled"):
    """Its running trials are ended, and it does not start again before it is submitted again."""

    experiment: str
    by: str


class ExperimentRetuned(Event, frozen=True, tag="experiment_retuned"):
    """From now on at most so many of its trials run at a time, whatever its file says."""

    experiment: str
    concurrency: int
    by: str


class ExperimentRequeued(Event, frozen=True, tag="experiment_requeued"):
    """Trials that were given up are attempted again, with as many attempts as the file allows."""

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
"""Everything that the daemon can be asked."""
