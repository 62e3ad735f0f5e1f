"""Judge claims with a language model.

Each claim takes one call. Replies are validated, and an unusable reply is an error instead of an invented score.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError, GraderError, UnusableReply
from lhaw_record.runners.environments.benchmarks.mcp_atlas.claims import ClaimScore
from lhaw_record.runners.environments.benchmarks.protocol import AskJudge
from lhaw_record.runners.models.reply_forms import ReplyForm, object_schema

_SCORES = {"fulfilled": 1.0, "partially_fulfilled": 0.5, "not_fulfilled": 0.0}
_SEPARATOR = "\n---\n"
_ATTEMPTS = 2
_MOST_CHARACTERS = 500_000  # the published program shows its judge no more of an answer
_CUT = "\n\n[TRUNCATED — original response was too long]"
_CRASHED = "ERROR:"  # what the published harness writes in the place of an answer that it did not get


VERDICT_FORM = ReplyForm(
    "claim_verdict",
    object_schema(
        {
            "label": {"type": "string", "enum": list(_SCORES)},
            "reason": {"type": "string"},
            "confidence": {"type": "number"},
        }
    ),
)
"""The form of a reply, for models that take JSON schemas."""


class ClaimVerdict(msgspec.Struct, frozen=True):
    """The reply that the judge must give, as one JSON object."""

    label: Literal["fulfilled", "partially_fulfilled", "not_fulfilled"]
    reason: str
    confidence: float


class ClaimJudge:
    """Scores each claim of a task by asking a model whether the answer fulfils it.

    Args:
        path: A template like ``data/prompts/claim_judge.md``, or None to use that file. It has the system
            prompt, a line of three dashes, and the user prompt with ``{claim}`` and ``{answer}``.
        model: The model's name. It is part of the judge's name.
        parameters: The model's generation parameters without the seed. They are part of the judge's name.

    Raises:
        ExperimentError: The template cannot be read, or lacks one of its parts.
    """

    def __init__(self, path: Path | None, model: str, parameters: Mapping[str, Any]) -> None:
        try:
            source = (path or data_path("prompts", "claim_judge.md")).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ExperimentError(f"{path}: the claim judge's template cannot be read: {error}") from error
        system, separator, self._user = source.partition(_SEPARATOR)
        if not separator or "{claim}" not in self._user or "{answer}" not in self._user:
            raise ExperimentError(
                f"{path}: a claim judge's template has a system prompt, a line '---', and a user prompt with {{claim}} "
                "and {answer}; copy data/prompts/claim_judge.md"
            )
        self.system = system.strip()
        self.name = f"mcp_atlas/judge-2-{digest([source, dict(parameters)])[:12]}:{model}"

    async def score(self, claims: Sequence[str], answer: str, ask: AskJudge) -> list[ClaimScore]:
        """Score every claim with a separate question. The judge sees only the claim and the answer."""
        return [await self._score_one(claim, answer, ask) for claim in claims]

    def user(self, claim: str, answer: str) -> str:
        """Return the user prompt for one claim. An answer is cut where the published program cuts it."""
        shown = answer if len(answer) <= _MOST_CHARACTERS else answer[:_MOST_CHARACTERS] + _CUT
        return self._user.replace("{claim}", claim).replace("{answer}", shown).strip()

    def repair(self, problem: str) -> None:
        """Return None, because the same question is asked again after an unusable reply."""

    def read(self, reply: str) -> ClaimScore:
        """Return the score that a reply gives."""
        verdict = parse_verdict(reply)
        if verdict is None:
            raise UnusableReply(f"it has no verdict; it begins with {reply[:120]!r}")
        return ClaimScore(_SCORES[verdict.label], f"{verdict.reason} (confidence {verdict.confidence:g})")

    async def _score_one(self, claim: str, answer: str, ask: AskJudge) -> ClaimScore:
        problem = ""
        for _ in range(_ATTEMPTS):
            reply = await ask(self.system, self.user(claim, answer), VERDICT_FORM)
            try:
                return self.read(reply)
            except UnusableReply as error:
                problem = str(error)
        raise GraderError(
            f"the judge gave no usable verdict in {_ATTEMPTS} attempts; about the last reply: {problem}",
            kind="malformed_verdict",
        )


def scores_unasked(claims: Sequence[str], answer: str) -> list[ClaimScore] | None:
    """Return the scores of an answer about which no judge is asked, or None: there is none, or only an error's message.

    Such an answer is the agent's doing, and scores 0 in the published program (``score_claims.py``).
    """
    if answer.strip() and not answer.startswith(_CRASHED):
        return None
    reason = f"the answer begins with {_CRASHED}" if answer.strip() else "the answer is empty"
    return [ClaimScore(0.0, reason) for _ in claims]


def parse_verdict(reply: str) -> ClaimVerdict | None:
    """Return the verdict in a reply, or None if it does not contain one. Text around the JSON object is ignored."""
    for candidate in (reply, *re.findall(r"\{[^{}]*\}", reply, re.DOTALL)):
        verdict = _decoded(candidate)
        if verdict is not None:
            return verdict
    return None


def _decoded(text: str) -> ClaimVerdict | None:
    try:
        raw: Any = json.loads(text)
        if isinstance(raw, dict) and isinstance(raw.get("label"), str):
            raw["label"] = re.sub(r"[\s-]+", "_", raw["label"].strip().lower())
            raw.setdefault("reason", "")
        verdict = msgspec.convert(raw, ClaimVerdict, strict=False)
    except (ValueError, msgspec.ValidationError):
        return None
    return verdict if 0.0 <= verdict.confidence <= 1.0 else None
