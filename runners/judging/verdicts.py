"""The failure-mode flags that a judge is asked for, and the verdicts read from its replies."""

import re
from typing import Any, Literal

import msgspec

from lhaw_record.recorder.events import JudgedFlag
from lhaw_record.recorder.events.judging import FlagVerdict
from lhaw_record.runners.base.errors import UnusableReply
from lhaw_record.runners.models.llm_jobs.json_replies import json_object
from lhaw_record.runners.models.reply_forms import ReplyForm, object_schema

FLAGS: dict[str, tuple[str, str, str]] = {
    "question_quality": ("vague_questions", "compound_questions", "closed_questions"),
    "question_targeting": ("missed_critical_segments", "wrong_dimension_focus", "inferable_information_asked"),
    "information_integration": (
        "ignoring_user_response",
        "incorrect_information_application",
        "partial_information_utilization",
    ),
    "over_clarification": ("redundant_questions", "unnecessary_questions", "excessive_cost"),
    "under_clarification": ("premature_execution", "insufficient_question_depth", "false_confidence"),
    "timing_and_strategy": ("late_clarification", "upfront_question_dump", "inefficient_question_sequence"),
    "response_misinterpretation": (
        "literal_misunderstanding",
        "context_misapplication",
        "implicit_information_missed",
    ),
}
"""Maps each category to its flags, in the order of the source."""

COMPUTED = frozenset(
    {
        "redundant_questions",
        "excessive_cost",
        "insufficient_question_depth",
        "late_clarification",
        "upfront_question_dump",
    }
)
"""The flags that are computed from recorded facts. No judge is asked about them."""

JUDGED: tuple[str, ...] = tuple(flag for flags in FLAGS.values() for flag in flags if flag not in COMPUTED)
"""The flags that a judge decides."""


_WORDS: dict[str, FlagVerdict] = {
    "yes": "yes",
    "no": "no",
    "na": "not_applicable",
    "n/a": "not_applicable",
    "not_applicable": "not_applicable",
}
_PREFIX = "flag_"


FLAGS_FORM = ReplyForm(
    "failure_modes",
    object_schema(
        {
            "flags": object_schema(
                {
                    flag: object_schema(
                        {"verdict": {"type": "string", "enum": ["YES", "NO", "N/A"]}, "reason": {"type": "string"}}
                    )
                    for flag in JUDGED
                }
            )
        }
    ),
)
"""The form of a reply about failure modes."""
NEW_TASK_FORM = ReplyForm(
    "new_task",
    object_schema(
        {
            "same_answer": {"type": "boolean"},
            "completes_task": {"type": "boolean"},
            "reason": {"type": "string"},
        }
    ),
)
"""The form of a reply about a new task."""


class NewTaskVerdict(msgspec.Struct, frozen=True):
    """A judge's verdict about the trials of a variant."""

    same_answer: bool
    completes_task: bool
    reason: str

    @property
    def verdict(self) -> Literal["confirmed", "rejected"]:
        """``confirmed`` only if every trial gave the same answer and that answer completes the underspecified task."""
        return "confirmed" if self.same_answer and self.completes_task else "rejected"


class _Flag(msgspec.Struct, frozen=True):
    verdict: str
    reason: str


def read_flags(reply: str) -> tuple[JudgedFlag, ...]:
    """Return the verdict on each judged flag, in the order of ``JUDGED``. Other flags are ignored."""
    said = json_object(reply, "flags")["flags"]
    if not isinstance(said, dict):
        raise UnusableReply('the key "flags" has no object')
    by_name = {str(name).strip().lower().removeprefix(_PREFIX): value for name, value in said.items()}
    missing = [name for name in JUDGED if name not in by_name]
    if missing:
        raise UnusableReply(f"these flags are missing: {', '.join(missing)}")
    return tuple(_flag(name, by_name[name]) for name in JUDGED)


def read_new_task(reply: str) -> NewTaskVerdict:
    """Return a judge's verdict about the trials of a variant."""
    try:
        return msgspec.convert(json_object(reply, "same_answer"), NewTaskVerdict)
    except msgspec.ValidationError as error:
        raise UnusableReply(_plain(error)) from error


def _flag(name: str, value: Any) -> JudgedFlag:
    try:
        flag = msgspec.convert(value, _Flag)
    except msgspec.ValidationError as error:
        raise UnusableReply(f"{name}: {_plain(error)}") from error
    word = re.sub(r"[\s-]+", "_", flag.verdict.strip().lower())
    if word not in _WORDS:
        raise UnusableReply(f'{name}: the verdict must be "YES", "NO" or "N/A", not {flag.verdict!r}')
    return JudgedFlag(flag=name, verdict=_WORDS[word], reason=flag.reason)


def _plain(error: msgspec.ValidationError) -> str:
    return str(error).replace("`", "'")
