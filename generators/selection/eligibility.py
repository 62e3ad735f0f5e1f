"""Finds the variants of a store that may be selected, with their classes, and counts the excluded ones by reason.

The class of a variant is its label, or else what the classifier's trials show (docs/metrics.md 2). A variant with c = 0
and one terminal state is outcome-critical and counts as unjudged until a judge decides whether it is a new task.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.analytics.exports.dataset_rows import UNCLASSIFIED
from lhaw_record.analytics.views.rows import rows_of
from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.generators.errors import GeneratorError
from lhaw_record.generators.selection.quotas import CLASSES, Candidate

VOTE = "vote"
"""Names, in place of a classifying agent, what most of them say."""

REASONS = {
    "control": "a control, made for calibration",
    "fault": "a request with a fault, which has a table of its own",
    "no_segments": "nothing was removed, or what was removed is unknown",
    "superseded": "made from an earlier version of its task",
    "no_task": "its task is not registered",
    "no_class": "no label and no trials of the classifier",
    "trials_incomplete": "fewer valid trials of the classifier than planned",
    "classifiers_tie": "equally many classifiers say two different classes",
    "new_task": "it became another task, by its label or a judge's verdict",
    "failed_checks": "given up, because every rewriting failed the checks",
    "withdrawn": "refused by a model that judged it after it was made",
    "not_reviewed": "reviewed by fewer people than required",
    "not_accepted": "a reviewer rejected or replaced it",
}
"""Why a variant is excluded. If several reasons apply, the first one counts."""

_VARIANTS = """
    with withdrawals as (
        select experiment_id, variant_id
        from stg_variants_rejected
        where rewriting_attempt = 0
    ),

    kept as (
        select variants.variant_id
        from stg_variants_generated as variants
        anti join withdrawals using (experiment_id, variant_id)
        where variants.rewriter is not null
    ),

    registrations as (
        select
            *,
            (experiment_id, variant_id) in (select (experiment_id, variant_id) from withdrawals)
            -- a run registers the variants that it uses, without their maker
            or (
                rewriter is null
                and variant_id in (select variant_id from withdrawals)
                and variant_id not in (select variant_id from kept)
            ) as is_withdrawn
        from stg_variants_generated
        where benchmark = $benchmark and ($experiment is null or experiment_id = $experiment)
    ),

    registered as (
        select
            variant_id,
            arg_max(variant_digest, (not is_withdrawn, recorded_at_us, stream_id, sequence)) as variant_digest,
            bool_and(is_withdrawn) as is_withdrawn
        from registrations
        group by variant_id
    ),

    latest_tasks as (
        select task_id, task_digest
        from tasks
        where benchmark = $benchmark and is_latest
    )

    select
        variants.variant_id,
        variants.variant_digest,
        variants.task_id,
        variants.origin,
        variants.severity,
        variants.fault,
        variants.dimensions,
        variants.segment_count,
        registered.is_withdrawn,
        case when variants.class_source = 'label' then variants.ambiguity_class end as label,
        case when variants.class_source = 'label' then variants.classified_by end as classified_by,
        latest_tasks.task_digest is not null as has_task,
        coalesce(variants.task_digest <> latest_tasks.task_digest, false) as is_superseded
    from registered
    inner join variants on registered.variant_digest = variants.variant_digest
    left join latest_tasks on variants.task_id = latest_tasks.task_id
    order by variants.variant_id
"""
_CLASSES = """
    select variant_digest, agent, agent_name, ambiguity_class, new_task_verdict, reason, n_planned
    from observed_classes
    where role in ('classifier', 'vote') and benchmark = $benchmark
    order by variant_digest, agent
"""
_REVIEWS = """
    select
        variant_digest,
        count(*) filter (where decision = 'accepted')::bigint as accepting,
        count(*) filter (where decision <> 'accepted')::bigint as refusing
    from (
        select variant_digest, reviewer, decision from variant_reviews
        union
        select edited_digest, reviewer, 'accepted' from variant_reviews where edited_digest is not null
        union
        select edited_digest, reviewer, 'withdrawn' from stg_variants_reviewed
        where
            edited_digest is not null
            and edited_digest not in (select edited_digest from variant_reviews where edited_digest is not null)
    )
    group by variant_digest
"""
_GIVEN_UP = """
    select count(distinct variant_id) as n
    from stg_variants_rejected
    where
        benchmark = $benchmark
        and is_final
        and ($experiment is null or experiment_id = $experiment)
        and variant_id not in (select variant_id from stg_variants_generated)
"""


class EligibleVariants(msgspec.Struct, frozen=True, kw_only=True):
    """The variants that may be selected, and how many may not.

    Attributes:
        candidates: The variants that may be selected, sorted by variant id.
        excluded: The number of other variants by reason, a key of ``REASONS``.
        classifier: The agent whose trials gave the classes, or the source of the labels.
        unjudged: The ids of outcome-critical candidates that may be new tasks.
        trials: The planned number of classifying trials per variant; None if all classes come from labels.
        is_classified: Whether any variant of the benchmark has a class, or trials that could give it one.
    """

    candidates: tuple[Candidate, ...]
    excluded: Mapping[str, int]
    classifier: str
    unjudged: frozenset[str]
    trials: int | None
    is_classified: bool


def eligible_variants(
    store: Path,
    benchmark: str,
    *,
    classifier: str | None = None,
    classifier_experiment: str | None = None,
    experiment: str | None = None,
    reviewers: int = 0,
) -> EligibleVariants:
    """Return the variants of a store that may be selected.

    If reviewers are wanted and no variant has a class yet, all are candidates, as ``unclassified``.
    """
    asked = {"benchmark": benchmark}
    views = {"tasks", "variants", "observed_classes", "stg_variants_generated", "stg_variants_rejected"}
    views |= {"stg_variants_reviewed", "variant_reviews"} if reviewers else set()
    with open_store(
        store,
        parameters={"classifier_experiment": classifier_experiment},
        only=views,
    ) as connection:
        variants = rows_of(connection, _VARIANTS, asked | {"experiment": experiment})
        classes = rows_of(connection, _CLASSES, asked)
        reviews = {row["variant_digest"]: row for row in rows_of(connection, _REVIEWS)} if reviewers else {}
        ((given_up,),) = connection.execute(_GIVEN_UP, asked | {"experiment": experiment}).fetchall()
    if not variants:
        where = f" under experiment {experiment}" if experiment else ""
        raise GeneratorError(f"{store} has no variants of benchmark {benchmark}{where}; generate or import some first")
    observed = _observed(classes, classifier)
    is_classified = bool(observed) or any(row["label"] for row in variants)
    without = UNCLASSIFIED if reviewers and not is_classified else ""
    candidates: list[Candidate] = []
    excluded: Counter[str] = Counter({"failed_checks": given_up} if given_up else {})
    for row in variants:
        seen = observed.get(row["variant_digest"], {})
        found = str(row["label"] or seen.get("ambiguity_class") or without)
        reason = _reason(row, seen, found) or _review_reason(reviews.get(row["variant_digest"], {}), reviewers)
        if reason:
            excluded[reason] += 1
        else:
            candidates.append(_candidate(row, found))
    chosen = {each.variant_digest for each in candidates}
    by_trials = [seen for digest, seen in observed.items() if digest in chosen and digest not in _labelled(variants)]
    unjudged = {seen["variant_digest"] for seen in by_trials if seen["new_task_verdict"] == "unjudged"}
    givers = sorted({str(row["classified_by"] or "unknown") for row in variants if row["label"]})
    return EligibleVariants(
        candidates=tuple(candidates),
        excluded={name: excluded[name] for name in REASONS if excluded[name]},
        classifier=by_trials[0]["agent"] if by_trials else ", ".join(givers),
        unjudged=frozenset(each.variant_id for each in candidates if each.variant_digest in unjudged),
        trials=max((seen["n_planned"] for seen in by_trials), default=None),
        is_classified=is_classified,
    )


def _labelled(variants: Sequence[Mapping[str, Any]]) -> set[str]:
    return {row["variant_digest"] for row in variants if row["label"]}


def _observed(classes: Sequence[Mapping[str, Any]], classifier: str | None) -> dict[str, Mapping[str, Any]]:
    """Return the class that the classifier's trials give each variant, by variant digest."""
    agents = sorted({row["agent"] for row in classes} - {VOTE})
    if classifier is None:
        classes = [row for row in classes if row["agent"] != VOTE]
    else:
        classes = [row for row in classes if classifier in (row["agent"], row["agent_name"])]
        if not classes:
            there = f"there are: {', '.join(agents)}" if agents else "no agent has any"
            raise GeneratorError(
                f'agent {classifier!r} has no classifying trials ({there}); give it role = "classifier" in the '
                "experiment file and run it under underspecified"
            )
    named = sorted({row["agent"] for row in classes})
    if len(named) > 1:
        raise GeneratorError(
            f"agents {', '.join(named)} classified variants; name one of them with --classifier, or {VOTE}"
        )
    return {row["variant_digest"]: row for row in classes}


def _reason(row: Mapping[str, Any], seen: Mapping[str, Any], found: str) -> str | None:
    """Return the reason to exclude a variant with what was found as its class, or None if it may be selected."""
    checks = {
        "control": row["origin"] == "control",
        "fault": row["fault"] is not None,
        "no_segments": not row["dimensions"],
        "superseded": row["is_superseded"],
        "no_task": not row["has_task"],
        "withdrawn": row["is_withdrawn"],
        "no_class": not found and not seen,
        "trials_incomplete": not row["label"] and seen.get("reason") == "trials_incomplete",
        "classifiers_tie": not row["label"] and seen.get("reason") == "classifiers_tie",
        "new_task": found not in (*CLASSES, UNCLASSIFIED),
    }
    return next((name for name, applies in checks.items() if applies), None)


def _review_reason(review: Mapping[str, Any], reviewers: int) -> str | None:
    """Return the reason to exclude a variant that its reviewers give, or None if enough of them accept it."""
    if review.get("refusing"):
        return "not_accepted"
    return "not_reviewed" if review.get("accepting", 0) < reviewers else None


def _candidate(row: Mapping[str, Any], ambiguity_class: str) -> Candidate:
    return Candidate(
        variant_id=row["variant_id"],
        variant_digest=row["variant_digest"],
        task_id=row["task_id"],
        dimensions=tuple(row["dimensions"]),
        segment_count=row["segment_count"],
        severity=row["severity"] or "unknown",
        ambiguity_class=ambiguity_class,
    )
