"""The documents of ATIF (Agent Trajectory Interchange Format) 1.0 to 1.8, as strict as Harbor's own classes.

Source: harbor 0.25.0, ``harbor.models.trajectories``. As in Harbor, unknown keys are rejected, and missing or repeated
results, times and totals are not checked.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))
_IMAGES = frozenset(f"image/{kind}" for kind in ("jpeg", "png", "gif", "webp"))
_AUDIO = frozenset(f"audio/{kind}" for kind in ("wav", "mpeg", "mp4", "aac", "ogg", "flac", "webm", "aiff"))
_AUDIO_ALIASES = frozenset(
    f"audio/{kind}"
    for kind in ("mp3", "mpga", "x-mpeg", "x-wav", "wave", "vnd.wave", "x-m4a", "m4a", "x-aac", "x-flac")
) | {"audio/x-aiff"}

Extra = dict[str, Any] | None


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of every object in a document."""


class MediaSource(_Part, frozen=True):
    """The location of an image or a sound. Only a sound has a duration."""

    media_type: str
    path: str
    duration_sec: Annotated[float, msgspec.Meta(ge=0)] | None = None


class ContentPart(_Part, frozen=True):
    """A part of a message: text, or a reference to an image or a sound."""

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: MediaSource | None = None

    def __post_init__(self) -> None:
        if self.type == "text":
            if self.text is None or self.source is not None:
                raise ValueError("a part of type text needs a text and no source")
            return
        if self.source is None or self.text is not None:
            raise ValueError(f"a part of type {self.type} needs a source and no text")
        given = self.source.media_type.strip().lower()
        allowed = _IMAGES if self.type == "image" else _AUDIO | _AUDIO_ALIASES
        if given not in allowed or (self.type == "image" and self.source.duration_sec is not None):
            raise ValueError(f"a part of type {self.type} has the media type {given!r}")


Content = str | list[ContentPart]


class SubAgentRef(_Part, frozen=True):
    """A reference to a sub-agent's trajectory, in the same document or in a file."""

    trajectory_id: str | None = None
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: Extra = None

    def __post_init__(self) -> None:
        if self.trajectory_id is None and self.trajectory_path is None:
            raise ValueError("a reference to a sub-agent has neither trajectory_id nor trajectory_path")


class AtifResult(_Part, frozen=True):
    """The result of a call of the same step or, if it names no call, a message from the environment."""

    source_call_id: str | None = None
    content: Content | None = None
    subagent_trajectory_ref: list[SubAgentRef] | None = None
    extra: Extra = None


class Observation(_Part, frozen=True):
    """The results of a step."""

    results: list[AtifResult]


class AtifCall(_Part, frozen=True):
    """A tool call."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: Extra = None


class Metrics(_Part, frozen=True):
    """Tokens and cost of a step. ``prompt_tokens`` include the cached ones."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: Extra = None


class AtifStep(_Part, frozen=True):
    """One step: a message from the system or the user, or a turn of the agent with its results."""

    step_id: Annotated[int, msgspec.Meta(ge=1)]
    source: Literal["system", "user", "agent"]
    message: Content
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    reasoning_content: str | None = None
    tool_calls: list[AtifCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: Annotated[int, msgspec.Meta(ge=0)] | None = None
    extra: Extra = None

    @property
    def results(self) -> list[AtifResult]:
        return self.observation.results if self.observation else []

    def __post_init__(self) -> None:
        if self.timestamp is not None:
            datetime.fromisoformat(self.timestamp)
        if self.source != "agent":
            names = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
            self._refuse(names, f"a step of source {self.source}")
        elif self.llm_call_count == 0:
            self._refuse(("metrics", "reasoning_content"), "a step with llm_call_count 0")
        calls = {call.tool_call_id for call in self.tool_calls or ()}
        for result in self.results:
            if result.source_call_id is not None and result.source_call_id not in calls:
                raise ValueError(
                    f"step {self.step_id} has a result of {result.source_call_id!r}, which it did not call"
                )

    def _refuse(self, names: tuple[str, ...], what: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"{what} has {name}")


class Agent(_Part, frozen=True):
    """The agent of a document."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: Extra = None


class FinalMetrics(_Part, frozen=True):
    """Totals of a document."""

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: Annotated[int, msgspec.Meta(ge=0)] | None = None
    extra: Extra = None


class AtifDocument(_Part, frozen=True):
    """One document. A longer run continues in another document."""

    agent: Agent
    steps: Annotated[list[AtifStep], msgspec.Meta(min_length=1)]
    schema_version: str = VERSIONS[-1]
    session_id: str | None = None
    trajectory_id: str | None = None
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: Extra = None
    subagent_trajectories: "list[AtifDocument] | None" = None

    def __post_init__(self) -> None:
        if self.schema_version not in VERSIONS:
            raise ValueError(f"schema_version is {self.schema_version!r}; known: {VERSIONS[0]} to {VERSIONS[-1]}")
        for expected, step in enumerate(self.steps, 1):
            if step.step_id != expected:
                raise ValueError(f"step {expected} has step_id {step.step_id}: steps are missing, or in another order")
        ids = [each.trajectory_id for each in self.subagent_trajectories or ()]
        if None in ids or len(set(ids)) < len(ids):
            raise ValueError("every one of subagent_trajectories needs a trajectory_id of its own")


def read_document(value: Any) -> AtifDocument:
    """Check a decoded JSON value and return it as a document."""
    if not isinstance(value, Mapping):
        raise ValueError("expected an object with agent and steps")  # noqa: TRY004 - one error class
    try:
        return msgspec.convert(value, AtifDocument)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
