"""Claims judged by a language model: one call per claim, a checked reply, and an error instead of an invented score."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from recorder.canonical import digest
from recorder.resources import data_path
from runners.benchmarks.mcp_atlas.claims import ClaimScore
from runners.benchmarks.protocol import AskJudge
from runners.errors import ExperimentError, GraderError

_SCORES = {"fulfilled": 1.0, "partially_fulfilled": 0.5, "not_fulfilled": 0.0}
_SEPARATOR = "\n---\n"
_ATTEMPTS = 2


class Verdict(msgspec.Struct, frozen=True):
    """What the judge must reply with, as one JSON object."""

    label: Literal["fulfilled", "partially_fulfilled", "not_fulfilled"]
    reason: str
    confidence: float


class ClaimJudge:
    """The wording of the judge.

    Args:
        path: A template like the bundled ``data/prompts/claim_judge.md``: the system prompt, a line of three dashes,
            and the user prompt with ``{claim}`` and ``{answer}``; the bundled one if None.

    Raises:
        ExperimentError: The template lacks one of its parts.
    """

    def __init__(self, path: Path | None = None) -> None:
        source = (path or data_path("prompts", "claim_judge.md")).read_text(encoding="utf-8")
        self._system, separator, self._user = source.partition(_SEPARATOR)
        if not separator or "{claim}" not in self._user or "{answer}" not in self._user:
            raise ExperimentError(
                f"{path}: a claim judge's template has a system prompt, a line '---', and a user prompt with {{claim}} "
                "and {answer}; copy data/prompts/claim_judge.md"
            )
        self.name = f"mcp_atlas/judge-1-{digest(source)[:12]}"

    async def score(self, claims: Sequence[str], answer: str, ask: AskJudge) -> list[ClaimScore]:
        """Ask about every claim by itself; the judge sees the claim and the answer only.

        Raises:
            GraderError: The judge could not be reached, or gave no usable reply twice.
        """
        return [await self._score_one(claim, answer, ask) for claim in claims]

    async def _score_one(self, claim: str, answer: str, ask: AskJudge) -> ClaimScore:
        user = self._user.replace("{claim}", claim).replace("{answer}", answer).strip()
        reply = ""
        for _ in range(_ATTEMPTS):
            reply = await ask(self._system.strip(), user)
            verdict = parse_verdict(reply)
            if verdict is not None:
                return ClaimScore(_SCORES[verdict.label], f"{verdict.reason} (confidence {verdict.confidence:g})")
        raise GraderError(
            f"the judge gave no usable verdict in {_ATTEMPTS} attempts; its last reply began {reply[:120]!r}",
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
