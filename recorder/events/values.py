"""Value types that events and all layers share, such as tasks, segments, variants and conditions."""

from functools import cache
from typing import Literal, get_type_hints

import msgspec

from lhaw_record.recorder.events.canonical_json import digest

Dimension = Literal["goal", "constraint", "input", "context"]
Severity = Literal["delete", "vaguify", "genericize", "decoy", "environment"]
SegmentKind = Literal["removed", "contradiction"]
PromptState = Literal["full", "underspecified", "control", "faulty"]
Fault = Literal["conflicting_instructions", "stale_information", "missing_authority", "underspecified_follow_up"]
Channel = Literal["none", "ask_user", "inject_10", "inject_30", "inject_50", "inject_70", "inject_90"]

DIMENSIONS: tuple[Dimension, ...] = ("goal", "constraint", "input", "context")
INJECT_PERCENTAGES = (10, 30, 50, 70, 90)
_PROMPTS_AND_CHANNELS: dict[str, tuple[PromptState, Channel]] = {
    "full": ("full", "none"),
    "underspecified": ("underspecified", "none"),
    "ask_user": ("underspecified", "ask_user"),
    "inject_10": ("underspecified", "inject_10"),
    "inject_30": ("underspecified", "inject_30"),
    "inject_50": ("underspecified", "inject_50"),
    "inject_70": ("underspecified", "inject_70"),
    "inject_90": ("underspecified", "inject_90"),
    "full_ask_user": ("full", "ask_user"),
    "control": ("control", "none"),
    "control_ask_user": ("control", "ask_user"),
    "faulty": ("faulty", "none"),
    "faulty_ask_user": ("faulty", "ask_user"),
}
CONDITIONS = tuple(_PROMPTS_AND_CHANNELS)
LATE_ANSWERS = "ask_user_"
"""Begins the name of a condition in which the experiment says how the user responds, under ``[responses]``."""
CONTROL_CONDITIONS = ("control", "control_ask_user")
FAULTY_CONDITIONS = ("faulty", "faulty_ask_user")


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base class of every recorded value. Values are frozen, and equal values always encode to the same bytes.

    Stream digests depend on this. Two things would break it, so they are normalised when a value is created. First, an
    integer in a float field has a different msgpack type from the float that Parquet returns. Second, ``omit_defaults``
    compares strings and floats with their defaults by identity, but decoded values are new objects.
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


class Event(Value, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """A recorded fact. An event is complete when it is written and never changes.

    Some values are always known to our own runner but may be missing from the source of an imported event. They are
    then None, never guessed. The check ``recorded_trials_are_known`` finds recorded trials that lack such a value.

    A field added later needs a default. Defaults are not encoded, so old records keep their digests. If the field may
    be None, its default must be None, because the field reads as null in the rows of older segments.
    """


@cache
def _normalised_fields(cls: type[msgspec.Struct]) -> tuple[tuple[str, bool, object], ...]:
    """Return the fields to normalise, each as (name, whether it is a float, default)."""
    hints = get_type_hints(cls)
    fields = []
    for field in msgspec.structs.fields(cls):
        is_float = hints[field.name] in (float, float | None)
        if is_float or isinstance(field.default, str | float | Value):
            fields.append((field.name, is_float, field.default))
    return tuple(fields)


class Checkpoint(Value, frozen=True):
    """A sub-goal of a task that can be graded, worth ``total`` points."""

    checkpoint_id: str
    label: str
    total: float = 1.0


class Task(Value, frozen=True):
    """A well-specified prompt, its environment and its checkpoints, which are in the order of a terminal state."""

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
        """SHA-256 over every field."""
        return digest(self)


class Segment(Value, frozen=True):
    """An atomic, removable piece of a prompt. Scores are 0, 0.5 or 1, or None if unknown.

    ``decoy`` is the wrong value that replaces the segment, or None if the segment was only removed. ``revealed_after``
    is the id of the segment that must be known before this one can be asked for. A ``contradiction``
    removes nothing: two sentences of the prompt disagree, and ``value`` settles it.
    """

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
    decoy: str | None = None
    revealed_after: str | None = None
    kind: SegmentKind = "removed"


class ExpectedQuestions(Value, frozen=True):
    """Questions that a good agent might ask about one removed segment."""

    segment_id: str
    questions: tuple[str, ...]


class ChangeArgument(Value, frozen=True):
    """One named argument of a change to an environment."""

    name: str
    value: str


class EnvironmentChange(Value, frozen=True):
    """A change to a task's environment, interpreted by the benchmark."""

    kind: str
    arguments: tuple[ChangeArgument, ...]

    def argument(self, name: str) -> str:
        """Return the value of a named argument."""
        return {each.name: each.value for each in self.arguments}[name]


class Variant(Value, frozen=True):
    """A prompt made from a task by removing segments. ``severity`` is None if an imported variant lacks it.

    With severity ``environment``, the prompt is the task's own, and ``environment_change`` says what differs in the
    environment. With origin ``control``, nothing that matters is missing from the prompt.

    ``fault`` says what is wrong with a request from which nothing is missing. Its segments are then what the user
    means, and each ``decoy`` is what the request says instead. ``follow_up`` is a second request from the user, made
    when the agent hands in the first; the segments then belong to the second.
    """

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
    environment_change: EnvironmentChange | None = None
    fault: Fault | None = None
    follow_up: str | None = None

    @property
    def prompt_state(self) -> PromptState:
        """The prompt state of the conditions that the variant runs under."""
        if self.is_control:
            return "control"
        return "underspecified" if self.fault is None else "faulty"

    @property
    def is_control(self) -> bool:
        """Whether this is a control variant."""
        return self.origin == "control"

    @property
    def variant_digest(self) -> str:
        """SHA-256 over every field that a trial can depend on, which excludes the assigned ambiguity class."""
        measured = msgspec.structs.replace(self, ambiguity_class=None, classified_by=None)
        return digest(measured)


class Usage(Value, frozen=True):
    """Token counts and price of one or more model calls. Numbers that were not reported are None, never 0.

    ``input_tokens`` includes tokens read from and written to a cache. ``output_tokens`` includes reasoning tokens.
    """

    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cached_input_tokens: int | None = 0
    cost_usd: float | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    provider_cost_usd: float | None = None


def is_own_condition(condition: str) -> bool:
    """Return whether an experiment itself says, under ``[responses]``, how the user responds under a condition."""
    return condition.startswith(LATE_ANSWERS) and len(condition) > len(LATE_ANSWERS)


def prompt_state_and_channel(condition: str) -> tuple[PromptState, Channel]:
    """Return the prompt state and the channel of a condition."""
    condition = "ask_user" if is_own_condition(condition) else condition
    if condition not in _PROMPTS_AND_CHANNELS:
        raise ValueError(f"unknown condition {condition!r}; known: {', '.join(CONDITIONS)}")
    return _PROMPTS_AND_CHANNELS[condition]
