"""Claims judged by a language model: one call per claim, a checked reply, and an error instead of an invented score."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from recorder.canonical import digest
from recorder.resources import data_path
from runners.benchmarks.mcp_atlas.claims import ClaimScore
from runners.benchmarks.protocol import AskJudge
from runners.errors import ExperimentError, GraderError, UnusableReply

_SCORES = {"fulfilled": 1.0, "partially_fulfilled": 0.5, "not_fulfilled": 0.0}
_SEPARATOR = "\n---\n"
_ATTEMPTS = 2


class Verdict(msgspec.Struct, frozen=True):
    """What the judge must reply with, as one JSON object."""

    label: Literal["fulfilled", "partially_fulfilled", "not_fulfilled"]
    reason: str
    confidence: float


class ClaimJudge:
    """The judge: a wording, and the model that is asked.

    Args:
        path: A template like the bundled ``data/prompts/claim_judge.md``: the system prompt, a line of three dashes,
            and the user prompt with ``{claim}`` and ``{answer}``; the bundled one if None.
        model: The model's name; another model is another judge.
        parameters: Its generation parameters, without the seed; others are another judge.

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
        self.name = f"mcp_atlas/judge-1-{digest([source, dict(parameters)])[:12]}:{model}"

    async def score(self, claims: Sequence[str], answer: str, ask: AskJudge) -> list[ClaimScore]:
        """Ask about every claim by itself; the judge sees the claim and the answer only.

        Raises:
            GraderError: The judge could not be reached, or gave no usable reply twice.
        """
        return [await self._score_one(claim, answer, ask) for claim in claims]

    def user(self, claim: str, answer: str) -> str:
        """Return the user prompt for one claim."""
        return self._user.replace("{claim}", claim).replace("{answer}", answer).strip()

    def repair(self, problem: str) -> None:
        """Return nothing: an unusable reply is asked for again as before."""

    def read(self, reply: str) -> ClaimScore:
        """Return the score of a reply.

        Raises:
            UnusableReply: It holds no verdict.
        """
        verdict = parse_verdict(reply)
        if verdict is None:
            raise UnusableReply(f"it holds no verdict; it began {reply[:120]!r}")
        return ClaimScore(_SCORES[verdict.label], f"{verdict.reason} (confidence {verdict.confidence:g})")

    async def _score_one(self, claim: str, answer: str, ask: AskJudge) -> ClaimScore:
        problem = ""
        for _ in range(_ATTEMPTS):
            reply = await ask(self.system, self.user(claim, answer))
            try:
                return self.read(reply)
            except UnusableReply as error:
                problem = str(error)
        raise GraderError(
            f"the judge gave no usable verdict in {_ATTEMPTS} attempts; of the last reply: {problem}",
            kind="malformed_verdict",
        )


def parse_verdict(reply: str) -> Verdict | None:
    """Return the verdict of a reply, or None when it holds none; what surrounds the JSON object is forgiven."""
    for candidate in (reply, *re.findall(r"\{[^{}]*\}", reply, re.DOTALL)):
        verdict = _decoded(candidate)
        if verdict is not None:
            return verdict
    return None


def _decoded(text: str) -> Verdict | None:
    try:
        raw: Any = json.loads(text)
        if isinstance(raw, dict) and isinstance(raw.get("label"), str):
            raw["label"] = re.sub(r"[\s-]+", "_", raw["label"].strip().lower())
            raw.setdefault("reason", "")
        verdict = msgspec.convert(raw, Verdict, strict=False)
    except (ValueError, msgspec.ValidationError):
        return None
    return verdict if 0.0 <= verdict.confidence <= 1.0 else None
