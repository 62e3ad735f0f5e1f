"""The life of one attempt of one trial: its keys at the start, how it ended at the end."""

from typing import Literal

from recorder.events._base import Event

Boundary = Literal["model", "tool", "sandbox", "user_simulator", "grader", "recorder"]
EndedBy = Literal["submitted", "turn_limit", "action_limit", "cost_limit", "time_limit", "gave_up", "resource_abuse"]


class TrialStarted(Event, frozen=True, tag="trial_started"):
    """First event of an attempt: every key of the trial, as planned. Limits and parameters are canonical JSON.

    ``origin`` is ``recorded``, or the format that the trial was imported from. Seed, limits, parameters and the digest
    of the prompts are None where that does not tell them. ``program`` is the name and version of a program that was the
    agent, None for the native one.
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
    """Last event of a valid attempt. ``final_score`` and ``final_total`` only where the benchmark gives them.

    ``cost_usd`` is None when any call of the attempt had no known price. ``action_count`` is None where a source does
    not tell what the agent did; then nothing is known of its actions and questions. ``ended_by``, ``final_answer`` and
    ``duration_ms`` are None where it does not tell them. Of the agent's part, ``charged_ms`` were its own, which
    ``max_seconds`` limits, and ``waited_ms`` went to infrastructure; None where nobody kept them apart.
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
    """Last event of an attempt that infrastructure ended: missing data, never a score of zero.

    ``boundary`` is None where a source does not tell at which one it failed. ``charged_ms`` and ``waited_ms`` as in
    ``trial_finished``. ``separated_from`` is the name under which the earlier events of the stream are stored, where
    two recordings had been given one name.
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
    separated_from: str | None = None
