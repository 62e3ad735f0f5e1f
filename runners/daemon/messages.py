"""What goes over the wire: requests, replies, and the data of live events; the API is described from these."""

from typing import Annotated, Literal

import msgspec

ShownState = Literal[
    "waiting", "running", "pausing", "paused", "cancelling", "cancelled", "finished", "failed", "cost_limit", "problem"
]
MOST_AT_A_TIME = 100_000
"""The largest concurrency: more than any machine runs."""

TrialState = Literal["started", "finished", "failed", "interrupted"]


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A JSON object in which an unknown field is an error."""


class Submission(Message, frozen=True):
    """An experiment file to run.

    ``config_toml`` is its text, ``path`` the absolute path that it has on the daemon's host: relative paths in it start
    in that folder. ``by`` is who asks, as they call themselves.
    """

    config_toml: str
    path: str
    by: str = "unnamed"


class Order(Message, frozen=True):
    """Something to do with an experiment, and who asks."""

    by: str = "unnamed"


class Retuning(Message, frozen=True):
    """How many trials of an experiment may run at a time from now on."""

    concurrency: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": MOST_AT_A_TIME})]
    by: str = "unnamed"


class SignIn(Message, frozen=True):
    """The token, given once by a person in front of the web page."""

    token: str


class Cell(Message, frozen=True):
    """The trials of one agent under one condition."""

    agent: str
    condition: str
    planned: int
    finished: int
    running: int


class LiveTrial(Message, frozen=True):
    """A trial that is running; ``began_at_us`` is UTC in microseconds since the epoch."""

    trial_id: str
    attempt: int
    agent: str
    condition: str
    task_id: str
    variant_id: str | None
    began_at_us: int


class Overview(Message, frozen=True):
    """One experiment at a glance.

    ``planned`` and ``finished`` count trials and are null until its file was planned by this daemon. ``spent_usd`` is
    the known cost of every attempt ever; ``unpriced`` attempts cost what nobody knows. ``left_s`` is how long the rest
    takes at the pace of the live run, in seconds. ``problem`` says why it cannot run now.
    """

    name: str
    state: ShownState
    planned: int | None
    finished: int | None
    running: int
    given_up: int
    concurrency: int
    spent_usd: float
    max_cost_usd: float | None
    left_s: float | None
    failures: dict[str, int]
    submitted_at_us: int
    submitted_by: str
    problem: str | None = None
    unpriced: int = 0


class Detail(Message, frozen=True):
    """One experiment with its cells and its live trials."""

    overview: Overview
    path: str
    cells: tuple[Cell, ...]
    live: tuple[LiveTrial, ...]


class Listing(Message, frozen=True):
    """Every experiment, in the order of submission."""

    experiments: tuple[Overview, ...]


class DaemonFacts(Message, frozen=True):
    """Which daemon answers, for which store, with how many trials at a time; ``running`` are those now."""

    store: str
    daemon_id: str
    version: str
    max_trials: int
    running: int


class Requeued(Message, frozen=True):
    """The trials that are attempted again."""

    trial_ids: tuple[str, ...]


class TrialChange(Message, frozen=True):
    """A live event: an attempt began or ended. ``boundary`` says where a failed one failed."""

    experiment: str
    state: TrialState
    trial: LiveTrial
    boundary: str | None = None


class Problem(Message, frozen=True):
    """Why a request was refused: a stable word, and a sentence that names the thing and the next step."""

    kind: str
    message: str


class Refused(Message, frozen=True):
    """The body of every refusal."""

    error: Problem
