"""Events about one attempt at a trial: its full description at the start, its grading, and its end."""

from typing import Literal

from lhaw_record.recorder.events.identifiers import Sha256
from lhaw_record.recorder.events.values import Event, Usage

Boundary = Literal["model", "tool", "sandbox", "user_simulator", "grader", "recorder"]
EndedBy = Literal[
    "submitted",
    "gave_up",
    "turn_limit",
    "action_limit",
    "cost_limit",
    "time_limit",
    "context_limit",
    "output_limit",
    "refused",
    "resource_abuse",
]


class TrialStarted(Event, frozen=True, tag="trial_started"):
    """First event of an attempt. It holds everything that was planned for the trial.

    Limits and parameters are canonical JSON. ``origin`` is ``recorded``, or the format that the trial was imported
    from. The seed, the limits, the parameters and the digest of the prompts are None if that format lacks them.
    ``program`` is the name and version of the external program that acts as the agent, or None for the native agent.
    ``source_started_at_us`` is when an imported trial began according to its source, in UTC, None if it does not say.
    ``instruments`` has the versions of the table of endings, the simulated user and the judge, or None for an imported
    trial. A version is raised when the same conversation would give another number. ``response_json`` is how the user
    responds to every question under a condition ``ask_user_NAME``, as canonical JSON, None elsewhere. ``asks_by`` is
    how the agent asks its user where it may, by its entry: a medium or ``none``. ``host`` is what runs the program:
    ``process``, or ``acp/`` and the host's version. Both are None if unknown, and ``host`` for the native agent.
    """

    run_id: str
    benchmark: str
    benchmark_version: str
    task_id: str
    task_digest: str
    prompt_state: str
    channel: str
    condition: str
    agent: str
    agent_digest: str
    model: str
    strategy: str
    persona: str
    ask_notice: str
    trial_index: int
    seed: int | None
    grader: str
    limits_json: str | None
    parameters_json: str | None
    prompts_digest: str | None
    oracle_scope: str
    sandbox: str
    role: str = "evaluated"
    variant_id: str | None = None
    variant_digest: str | None = None
    user_simulator: str | None = None
    user_simulator_digest: str | None = None
    inject_percent: int | None = None
    budget_actions: int | None = None
    inject_after_action: int | None = None
    program: str | None = None
    origin: str = "recorded"
    source_started_at_us: int | None = None
    instruments: str | None = None
    response_json: str | None = None
    asks_by: str | None = None
    host: str | None = None


class TrialFinished(Event, frozen=True, tag="trial_finished"):
    """Last event of a valid attempt. ``final_score`` and ``final_total`` are set if the benchmark gives them.

    ``cost_usd`` is None if the price of any call is unknown. ``charged_ms`` is the agent's own time, which
    ``max_seconds`` limits. ``waited_ms`` is the time spent waiting for infrastructure, ``late_ms`` the part of it in
    which the recording process itself was late. They are None if they were not measured separately. If the source of an
    imported trial does not show what the agent did, ``action_count`` is None, nothing is known about actions and
    questions, and ``ended_by``, ``final_answer`` and ``duration_ms`` may be None. ``stated_usage`` is the agent's usage
    as that source states it for the whole trial, ``stated_actions`` and ``stated_questions`` are its counts of what it
    does not show.
    """

    ended_by: EndedBy | None
    is_success: bool
    final_answer: str | None
    action_count: int | None
    checkpoint_count: int
    duration_ms: float | None
    final_score: float | None = None
    final_total: float | None = None
    cost_usd: float | None = None
    stream_digest: str = ""
    charged_ms: float | None = None
    waited_ms: float | None = None
    stated_usage: Usage | None = None
    late_ms: float | None = None
    stated_actions: int | None = None
    stated_questions: int | None = None


class TrialFailed(Event, frozen=True, tag="trial_failed"):
    """Last event of an attempt that failed because of infrastructure. It is missing data, not a score of zero.

    ``boundary`` is None if the source of an imported trial does not say where it failed. ``charged_ms``,
    ``waited_ms``, ``late_ms`` and ``stated_usage`` are as in ``trial_finished``.
    """

    boundary: Boundary | None
    error_kind: str
    message: str
    is_retry_owed: bool
    duration_ms: float | None = None
    cost_usd: float | None = None
    stream_digest: str = ""
    charged_ms: float | None = None
    waited_ms: float | None = None
    stated_usage: Usage | None = None
    late_ms: float | None = None


class CheckpointScored(Event, frozen=True, tag="checkpoint_scored"):
    """A checkpoint got ``score`` of ``total`` points. Regrading an attempt adds results and never replaces any.

    ``graded_stream_id`` names the graded attempt if the result is recorded in another stream, as in regrading.
    """

    checkpoint_id: str
    label: str
    score: float
    total: float
    details: str
    grader: str
    grading_id: str
    is_primary: bool = True
    graded_stream_id: str | None = None


class ArtifactStored(Event, frozen=True, tag="artifact_stored"):
    """A file from a trial was stored. Its bytes were durable in ``STORE/blobs`` before this event."""

    sha256: Sha256
    media_type: str
    size_bytes: int
    role: str
    name: str


Flag = Literal["no_main_thread", "actions_uncounted", "injection_lost", "asking_unanswered"]


class TrialFlagged(Event, frozen=True, tag="trial_flagged"):
    """A trial behind a gateway whose measurements may be recording artifacts.

    ``no_main_thread`` means that no conversation was recognised as the agent's own. ``actions_uncounted`` means that
    the agent took further actions that were not counted. ``injection_lost`` means that the message was due, or had been
    inserted, but the agent continued without it. ``asking_unanswered`` means that the model was offered a tool of the
    program that asks a user, and nobody answers it. ``detail`` says how this was detected. Each flag is recorded once,
    after the program has ended.
    """

    flag: Flag
    detail: str
