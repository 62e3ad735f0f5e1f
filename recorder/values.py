"""Shared value types: what a task, a segment and a variant are, in every layer and in the events."""

from functools import cache
from typing import Literal, get_type_hints

import msgspec

from recorder.canonical import digest

Dimension = Literal["goal", "constraint", "input", "context"]
Severity = Literal["delete", "vaguify", "genericize"]
PromptState = Literal["full", "underspecified", "control"]
Channel = Literal["none", "ask_user", "inject_10", "inject_30", "inject_50", "inject_70", "inject_90"]

DIMENSIONS: tuple[Dimension, ...] = ("goal", "constraint", "input", "context")
INJECT_PERCENTAGES = (10, 30, 50, 70, 90)
CONDITIONS = (
    "full",
    "underspecified",
    "ask_user",
    *(f"inject_{percentage}" for percentage in INJECT_PERCENTAGES),
    "full_ask_user",
)


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of every recorded value: frozen, and encoded to the same bytes wherever it has been.

    Two things would break that. An integer in a float field is another msgpack type than the float that comes back
    from Parquet. And ``omit_defaults`` recognises a default by identity, which a text or a float that was decoded
    does not have. Both are mended when a value is made; the digest of a stream depends on it.
    """

    def __post_init__(self) -> None:
        for name, is_float, default in _normalised_fields(type(self)):
            value = getattr(self, name)
            if value is default or value is None:
                continue
            if value == default:
                msgspec.structs.force_setattr(self, name, default)
            elif is_float and type(value) is not float:
                msgspec.structs.force_setattr(self, name, float(value))


@cache
def _normalised_fields(cls: type[msgspec.Struct]) -> tuple[tuple[str, bool, object], ...]:
    """The fields that may need mending: name, whether it is a float, and its default."""
    hints = get_type_hints(cls)
    fields = []
    for field in msgspec.structs.fields(cls):
        is_float = hints[field.name] in (float, float | None)
        if is_float or isinstance(field.default, str | float):
            fields.append((field.name, is_float, field.default))
    return tuple(fields)


class Checkpoint(Value, frozen=True):
    """One gradable sub-goal of a task, worth ``total`` points."""

    checkpoint_id: str
    label: str
    total: float = 1.0


class Task(Value, frozen=True):
    """One well-specified prompt with its environment and checkpoints, in the order of its terminal state."""

    benchmark: str
    benchmark_version: str
    task_id: str
    prompt: str
    checkpoints: tuple[Checkpoint, ...]
    environment_digest: str
    domain: str | None = None
    licence: str | None = None

    @property
    def task_digest(self) -> str:
        """SHA-256 over every field: a changed prompt, checkpoint or environment is another task."""
        return digest(self)


class Segment(Value, frozen=True):
    """One atomic removable piece of a prompt; scores in {0, 0.5, 1}, None where the source lacks them."""

    segment_id: str
    value: str
    dimension: str
    subdimension: str
    text: str | None = None
    criticality: float | None = None
    guessability: float | None = None
    is_used_in_trajectory: bool | None = None
    first_use_pct: float | None = None
    checkpoint_refs: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()


class ExpectedQuestions(Value, frozen=True):
    """Questions that a good agent might ask about one removed segment."""

    segment_id: str
    questions: tuple[str, ...]


class Variant(Value, frozen=True):
    """A prompt made from a task by removing segments; ``severity`` is None where an import lacks it."""

    benchmark: str
    task_id: str
    variant_id: str
    prompt: str
    segments: tuple[Segment, ...]
    origin: Literal["hand_written", "generated", "imported", "control"]
    severity: Severity | None = None
    expected_questions: tuple[ExpectedQuestions, ...] = ()
    failure_mode: str | None = None
    ambiguity_class: str | None = None
    classified_by: str | None = None

    @property
    def variant_digest(self) -> str:
        """SHA-256 over what a trial can depend on: the assigned class is left out."""
        measured = msgspec.structs.replace(self, ambiguity_class=None, classified_by=None)
        return digest(measured)


class Usage(Value, frozen=True):
    """Tokens and price of one or more model calls; an unknown price is None, never 0."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cost_usd: float | None = None


def condition_of(prompt_state: str, channel: str) -> str:
    """Return the condition's name for a prompt state and a channel, as the glossary gives it.

    Raises:
        ValueError: The pair is not a condition (for example a full prompt with an injection).
    """
    pairs = {
        ("full", "none"): "full",
        ("full", "ask_user"): "full_ask_user",
        ("underspecified", "none"): "underspecified",
        ("underspecified", "ask_user"): "ask_user",
    }
    if (prompt_state, channel) in pairs:
        return pairs[prompt_state, channel]
    if prompt_state == "underspecified" and channel.startswith("inject_"):
        return channel
    raise ValueError(f"no condition has prompt state {prompt_state!r} and channel {channel!r}")


def prompt_state_and_channel(condition: str) -> tuple[PromptState, Channel]:
    """Return the prompt state and the channel of a condition; the inverse of :func:`condition_of`.

    Raises:
        ValueError: The name is not a condition.
    """
    if condition not in CONDITIONS:
        raise ValueError(f"unknown condition {condition!r}; known: {', '.join(CONDITIONS)}")
    if condition in ("full", "full_ask_user"):
        return "full", "ask_user" if condition == "full_ask_user" else "none"
    channel: Channel = "none" if condition == "underspecified" else condition  # type: ignore[assignment]
    return "underspecified", channel
