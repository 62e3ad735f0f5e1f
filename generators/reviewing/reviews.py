"""Which variants are there to review, and what has been decided about them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from lhaw_record.generators.errors import GeneratorError
from lhaw_record.generators.gate.decision import findings_against, why_unjudged
from lhaw_record.generators.sources.written import WRITTEN
from lhaw_record.recorder.events import FailedCheck, GateJudgement, VariantReviewed
from lhaw_record.recorder.events.canonical_json import short_digest
from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.reading.registrations import Registrations
from lhaw_record.recorder.reading.typed_rows import events_of_types, in_recorded_order
from lhaw_record.runners.runs.daemon.messages import ApiMessage

REASONS: Mapping[str, str] = {
    "unnatural": "does not read as if a person wrote it",
    "recoverable": "still reveals what was removed, or enough to infer it",
    "collateral": "more than the segments was removed, or something was added",
    "not_a_task": "is no longer a task, or has only one sensible reading",
    "questions": "an expected question is wrong, or reveals the value",
    "segment": "the segment is badly chosen: nobody would ask for it",
}
"""Why a variant is rejected or edited."""
_OUTCOMES = """
    select variant_digest, agent, condition, count(*)::bigint as trials, count(*) filter (where is_success) as successes
    from trials
    where trial_state = 'valid' and variant_digest is not null
    group by all
    order by all
"""


class Decisions(msgspec.Struct, frozen=True, kw_only=True):
    """What reviewers decided.

    Attributes:
        last: The last decision of each reviewer about each variant, by variant digest and reviewer.
        withdrawn: The digests of variants that reviewers wrote, and then decided otherwise.
    """

    last: Mapping[tuple[str, str], VariantReviewed]
    withdrawn: frozenset[str]


class Reviewable(msgspec.Struct, frozen=True, kw_only=True):
    """A variant that a person may review.

    Attributes:
        variant: The variant.
        variant_digest: Its digest.
        task: The version of the task that it was made from.
        others: The other variants of the store.
        is_written: Whether a person wrote it with the task.
        judgement: What a model said of it, or None if none was asked.
    """

    variant: Variant
    variant_digest: str
    task: Task
    others: tuple[Variant, ...] = ()
    is_written: bool = False
    judgement: GateJudgement | None = None

    def findings(self, prompt: str | None = None) -> tuple[tuple[FailedCheck, ...], str]:
        """Return what the gate's rules find against the variant, or against another prompt in its place.

        Where they cannot judge it, there is a reason and no finding. A variant that changes the environment instead of
        the prompt has no findings.
        """
        if self.variant.environment_change is not None or not self.variant.segments:
            return (), ""
        variant = self.variant if prompt is None else msgspec.structs.replace(self.variant, prompt=prompt)
        found = findings_against(variant, self.task.prompt, self.others)
        reason = why_unjudged(found, is_written=self.is_written)
        return () if reason else found, reason

    def check_edit(self, prompt: str) -> None:
        """Check that a prompt is another one than the variant's, and not the full one."""
        if not prompt.strip():
            raise GeneratorError("nothing was changed: the edited prompt is empty")
        if prompt == self.variant.prompt:
            raise GeneratorError("nothing was changed: the edited prompt is the variant's own")
        if prompt == self.task.prompt:
            raise GeneratorError("nothing was changed: the edited prompt is the full one, in which nothing is missing")


def read_decisions(snapshot: Snapshot) -> Decisions:
    """Return what the reviewers of a store decided."""
    last: dict[tuple[str, str], VariantReviewed] = {}
    written: set[str] = set()
    for envelope in sorted(events_of_types(snapshot, (VariantReviewed,)), key=in_recorded_order):
        assert isinstance(envelope.event, VariantReviewed)
        last[envelope.event.variant_digest, envelope.event.reviewer] = envelope.event
        if envelope.event.edited_digest is not None:
            written.add(envelope.event.edited_digest)
    return Decisions(last=last, withdrawn=frozenset(written - {each.edited_digest for each in last.values()}))


def reviewable(snapshot: Snapshot, benchmark: str | None = None, experiment_id: str | None = None) -> list[Reviewable]:
    """Return the variants of a store that a person can review, in an order that is the same for every reviewer.

    The order mixes tasks, so that reviewers who stop early have read the same variants. Controls, requests with a
    fault (nothing was removed from them) and variants whose task is not registered are left out; of several variants
    with one id only the latest counts.
    """
    registrations = Registrations.read(snapshot)
    latest = {each.event.variant.variant_id: each.event for each in registrations.of_experiment(experiment_id)}
    variants = tuple(each.variant for each in latest.values())
    found = []
    for event in latest.values():
        variant, task = event.variant, registrations.task_of(event.variant_digest, experiment_id)
        if task is None or variant.is_control or variant.fault or benchmark not in (None, variant.benchmark):
            continue
        made = [each.event for each in registrations.of_variant(event.variant_digest)]
        found.append(
            Reviewable(
                variant=variant,
                variant_digest=event.variant_digest,
                task=task,
                others=variants,
                is_written=any(each.rewriter == WRITTEN for each in made),
                judgement=next((each.judgement for each in reversed(made) if each.judgement), None),
            )
        )
    return sorted(found, key=lambda each: short_digest(each.variant_digest))


def choices(snapshot: Snapshot) -> tuple[list[str], list[str]]:
    """Return the benchmarks and the experiments of a store that have variants, sorted."""
    registered = list(Registrations.read(snapshot).of_experiment())
    benchmarks = {each.event.variant.benchmark for each in registered}
    return sorted(benchmarks), sorted({each.experiment_id for each in registered})


def to_review(items: Sequence[Reviewable], decisions: Decisions, reviewer: str) -> list[Reviewable]:
    """Return the variants that a reviewer has not decided about, and did not write. Withdrawn ones are left out."""
    own = [each for (_, name), each in decisions.last.items() if name == reviewer]
    done = {each.variant_digest for each in own} | {each.edited_digest for each in own} | decisions.withdrawn
    return [each for each in items if each.variant_digest not in done]


def edited(item: Reviewable, prompt: str) -> Variant:
    """Return the variant that a reviewer makes by writing another prompt. It has no class: it has had no trials."""
    old = item.variant
    return msgspec.structs.replace(
        old,
        variant_id=f"{old.variant_id}-{short_digest(prompt)[:8]}",
        prompt=prompt,
        origin="hand_written",
        ambiguity_class=None,
        classified_by=None,
    )


class VariantOutcome(ApiMessage, frozen=True):
    """How many of the valid trials of one agent with a variant under one condition succeeded."""

    agent: str
    condition: str
    trials: int
    successes: int


Outcomes = Mapping[str, Sequence[VariantOutcome]]
"""What the trials of each variant showed, by variant digest."""


def outcomes_of(store: Path) -> Outcomes:
    """Return what the valid trials of each variant in a store showed."""
    from lhaw_record.analytics.views.rows import rows_of
    from lhaw_record.analytics.views.store import open as open_store

    with open_store(store, only={"trials"}) as connection:
        rows = rows_of(connection, _OUTCOMES)
    found: dict[str, list[VariantOutcome]] = {}
    for row in rows:
        found.setdefault(row.pop("variant_digest"), []).append(VariantOutcome(**row))
    return found
