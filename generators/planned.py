"""One variant to be made: its id before it exists, and the events of its making or its rejection."""

from typing import Literal

import msgspec

from generators.beyond.decoying import decoy_problems
from generators.protocol import Removal, Rewriter, Rewriting, SourceTask
from generators.rewriting.checks import problems_of
from generators.rewriting.diff import prompt_diff
from recorder.canonical import short_digest
from recorder.events import FailedCheck, VariantGenerated, VariantRejected
from recorder.values import Variant


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What is removed from which task, by which rewriter; with origin ``control`` it is something that nobody needs."""

    source: SourceTask
    removal: Removal
    rewriter: Rewriter
    origin: Literal["generated", "control"] = "generated"

    @property
    def variant_id(self) -> str:
        """Task, severity and segments to read, and a digest of the values and the rewriter."""
        names = "-".join(segment.segment_id for segment in self.removal.segments)
        what = [[segment.value for segment in self.removal.segments], self.removal.severity, self.rewriter.digest]
        more = [
            mark for each in self.removal.segments for mark in (each.decoy, each.revealed_after) if mark is not None
        ]
        kind = "control" if self.origin == "control" else self.removal.severity
        return f"{self.source.task.task_id}/{kind}-{names}-{short_digest([*what, *more])[:8]}"

    def problems(self, rewriting: Rewriting) -> tuple[FailedCheck, ...]:
        """Return every check that a rewriting fails."""
        check = decoy_problems if self.removal.severity == "decoy" else problems_of
        return check(self.source.task.prompt, rewriting, self.removal)

    def generated(self, rewriting: Rewriting) -> VariantGenerated:
        """Return the event of a variant that passed its checks."""
        task = self.source.task
        variant = Variant(
            benchmark=task.benchmark,
            task_id=task.task_id,
            variant_id=self.variant_id,
            prompt=rewriting.prompt,
            segments=self.removal.segments,
            origin=self.origin,
            severity=self.removal.severity,
            expected_questions=rewriting.expected_questions,
            failure_mode=rewriting.failure_mode,
        )
        return VariantGenerated(
            variant=variant,
            variant_digest=variant.variant_digest,
            task_digest=task.task_digest,
            rewriter=self.rewriter.name,
            rewriter_digest=self.rewriter.digest,
            diff=prompt_diff(task.prompt, rewriting.prompt),
        )

    def rejected(
        self, rewriting: Rewriting | None, failed: tuple[FailedCheck, ...], reason: str, *, attempt: int, is_final: bool
    ) -> VariantRejected:
        """Return the event of one that did not; ``reason`` where there is no rewriting."""
        task = self.source.task
        return VariantRejected(
            benchmark=task.benchmark,
            task_id=task.task_id,
            task_digest=task.task_digest,
            variant_id=self.variant_id,
            severity=self.removal.severity,
            segments=self.removal.segments,
            rewriter=self.rewriter.name,
            rewriter_digest=self.rewriter.digest,
            attempt=attempt,
            is_final=is_final,
            reason=reason or "; ".join(check.message for check in failed),
            checks=failed,
            prompt=rewriting.prompt if rewriting else None,
            diff=prompt_diff(task.prompt, rewriting.prompt) if rewriting else None,
        )


def problems_seen(rejected: VariantRejected | None) -> tuple[str, ...]:
    """Return what the next attempt is told of the last one."""
    if rejected is None:
        return ()
    return tuple(check.message for check in rejected.checks) or (rejected.reason,)
