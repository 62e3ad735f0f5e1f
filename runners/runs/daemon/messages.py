"""The messages of the control API: request bodies, reply bodies, refusals and the data of live events."""

from typing import Annotated, Literal

import msgspec

from lhaw_record.recorder.events import NoteCause
from lhaw_record.runners.base.errors import RunnerError
from lhaw_record.runners.users.simulated_user.person import OpenQuestion

ShownState = Literal[
    "waiting", "running", "pausing", "paused", "cancelling", "cancelled", "finished", "failed", "cost_limit", "problem"
]
MOST_AT_A_TIME = 100_000
"""The largest concurrency that an order may set. It is larger than any machine can use."""
AttemptState = Literal["started", "finished", "failed", "interrupted"]


class ApiMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message of the control API, sent as a JSON object. Unknown fields are an error."""

    @property
    def pending_at(self) -> str | None:
        """Where to ask again, if what was asked for is not ready. The reply then has the status 202."""
        return None


class Submission(ApiMessage, frozen=True):
    """An experiment file to run.

    ``config_toml`` is the text of the file. ``path`` is its absolute path on the daemon's host. Relative paths in the
    file are resolved from its folder. ``by`` is the name that the caller gives.
    """

    config_toml: str
    path: str
    by: str = "unnamed"


class ExperimentOrder(ApiMessage, frozen=True):
    """An order about an experiment. ``by`` is the name that the caller gives."""

    by: str = "unnamed"


class Retuning(ApiMessage, frozen=True):
    """An order that changes how many trials of an experiment may run at a time."""

    concurrency: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": MOST_AT_A_TIME})]
    by: str = "unnamed"


class AttemptNote(ApiMessage, frozen=True):
    """What a person notes about an attempt. ``is_undone`` takes the author's note back."""

    author: str
    note: str = ""
    cause: NoteCause | None = None
    is_undone: bool = False


class OpenQuestions(ApiMessage, frozen=True):
    """The questions that wait for a person, the oldest first."""

    questions: tuple[OpenQuestion, ...]


class PersonAnswer(ApiMessage, frozen=True):
    """What a person answers to a question, null if they decline, and whether they saw the full prompt."""

    text: str | None
    by: str
    saw_values: bool = False


class SignIn(ApiMessage, frozen=True):
    """The token that a person typed on the sign-in page."""

    token: str


class CellCounts(ApiMessage, frozen=True):
    """The numbers of trials of one agent under one condition."""

    agent: str
    condition: str
    planned: int
    finished: int
    successes: int
    running: int


class LiveTrial(ApiMessage, frozen=True):
    """A running trial. ``began_at_us`` is the time at which its attempt began, in UTC microseconds since the epoch."""

    trial_id: str
    attempt: int
    agent: str
    condition: str
    task_id: str
    variant_id: str | None
    began_at_us: int


class Overview(ApiMessage, frozen=True):
    """An overview of the state of one experiment.

    ``planned`` and ``finished`` count trials, and are null until this daemon has planned the experiment. ``spent_usd``
    is the total cost of the attempts whose cost is known, and ``unpriced`` is the number of the other attempts.
    ``left_s`` is the estimated time in seconds until the live run ends. ``problem`` says why the experiment cannot run
    now.
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


class Detail(ApiMessage, frozen=True):
    """The state of one experiment, with its counts by agent and condition and its live trials."""

    overview: Overview
    path: str
    cells: tuple[CellCounts, ...]
    live: tuple[LiveTrial, ...]


class Listing(ApiMessage, frozen=True):
    """Overviews of all experiments, in the order of their submission, and what the models' endpoints do, in words."""

    experiments: tuple[Overview, ...]
    endpoints: tuple[str, ...] = ()


class DaemonFacts(ApiMessage, frozen=True):
    """The identity of a daemon, with its store, its limit on running trials, and the number of trials running now."""

    store: str
    daemon_id: str
    version: str
    max_trials: int
    running: int


class RequeueReply(ApiMessage, frozen=True):
    """The ids of the trials that will be attempted again."""

    trial_ids: tuple[str, ...]


class LeaseRequest(ApiMessage, frozen=True):
    """A request for the next trial of a leased agent.

    ``experiment`` and ``agent`` are names, or null for any. ``idle_s`` is after how many seconds without a sign of life
    the lease expires.
    """

    experiment: str | None = None
    agent: str | None = None
    idle_s: float = 600.0


class LeaseClosing(ApiMessage, frozen=True):
    """How the agent of a leased trial ended.

    An ``exit_code`` other than 0 means that it gave up. ``answer`` is its final answer; null takes the last text of its
    main thread.
    """

    exit_code: int = 0
    answer: str | None = None


class LeaseReply(ApiMessage, frozen=True):
    """The state of a lease.

    ``lease_token``, given only to who takes the lease, lets its holder ask for it, close it and give it back, and opens
    nothing else. From ``prompt`` to ``workspace_url`` is for the agent, and null unless the lease is open:
    ``gateway_url`` is the trial's address at the gateway (OpenAI's clients add /v1), ``token`` the key for all three
    addresses, ``mcp_url`` null if the agent may not ask. ``workspace_url`` gives the work directory as a tar archive
    (GET), and takes it back (PUT). ``limit`` is the limit that the agent has reached; send the files, and close.
    ``state`` is opening, open, grading, graded, returned (owed to the next who asks) or failed (missing data), and
    ``message`` says why. ``score`` of ``total`` are the points of the checkpoints.
    """

    lease_id: str
    state: str
    experiment: str
    agent: str
    trial_id: str
    attempt: int
    idle_s: float
    lease_token: str | None = None
    prompt: str | None = None
    model: str | None = None
    gateway_url: str | None = None
    token: str | None = None
    mcp_url: str | None = None
    workspace_url: str | None = None
    limit: str | None = None
    message: str = ""
    ended_by: str | None = None
    is_success: bool | None = None
    score: float | None = None
    total: float | None = None

    @property
    def pending_at(self) -> str | None:
        """The address to ask again while the trial is being opened."""
        return f"/api/leases/{self.lease_id}" if self.state == "opening" else None


class TrialChange(ApiMessage, frozen=True):
    """A live event that says that an attempt began or ended. ``boundary`` says where a failed attempt failed."""

    experiment: str
    state: AttemptState
    trial: LiveTrial
    boundary: str | None = None


class ErrorDetail(ApiMessage, frozen=True):
    """Why a request was refused.

    ``kind`` is an identifier for programs. ``message`` tells people the reason and what to do next.
    """

    kind: str
    message: str


class ErrorReply(ApiMessage, frozen=True):
    """The body of every reply that refuses a request."""

    error: ErrorDetail


class DaemonRefusal(RunnerError):
    """The daemon refuses a request.

    Args:
        message: What cannot be done, and what to do next.
        kind: A short identifier of the error for programs. It never changes.
        status: The HTTP status of the reply.
    """

    def __init__(self, message: str, *, kind: str, status: int) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
