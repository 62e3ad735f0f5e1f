"""Events of one attempt at a trial: its complete description at the start, and how it ended."""

from typing import Literal

from lhaw_record.recorder.events.values import Event

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


class TrialFinished(Event, frozen=True, tag="trial_finished"):
    """Last event of a valid attempt. ``final_score`` and ``final_total`` are set if the benchmark gives them.

    ``cost_usd`` is None if the price of any call is unknown. ``charged_ms`` is the agent's own time, which
    ``max_seconds`` limits. ``waited_ms`` is the time spent waiting for infrastructure. Both are None if they were not
    measured separately. If the source of an imported trial does not show what the agent did, ``action_count`` is None,
    nothing is known about actions and questions, and ``ended_by``, ``final_answer`` and ``duration_ms`` may be None.
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


class TrialFailed(Event, frozen=True, tag="trial_failed"):
    """Last event of an attempt that failed because of infrastructure. It means missing data, never a score of zero.

    ``boundary`` is None if the source of an imported trial does not say where it failed. ``charged_ms`` and
    ``waited_ms`` are as in ``trial_finished``.
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
