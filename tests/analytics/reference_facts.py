"""The marts that show recorded facts again, slowly and in plain Python: tasks, variants, runs, model calls, answers."""

import json
import re
from collections import Counter, defaultdict

from tests.analytics.reference_marts import _of, _place, _streams, cut_off_requests

LEAST_CHARACTERS = 3


def _recorded(envelopes, kind):
    """The envelopes of one type, by class name, in the order in which they were recorded."""
    return [each for each in sorted(envelopes, key=_place) if type(each.event).__name__ == kind]


def registered(envelopes):
    """Return every registered variant by its digest."""
    return {each.event.variant_digest: each.event.variant for each in _recorded(envelopes, "VariantGenerated")}


def tasks_of(envelopes, variants):
    """Return (task, version, is latest, prompt, checkpoints, points, variants) by task digest."""
    rows, latest = {}, {}
    of_task = Counter(variant.task_id for variant in variants.values())
    for each in _recorded(envelopes, "TaskRegistered"):
        task, digest = each.event.task, each.event.task_digest
        latest[task.task_id] = digest
        points = float(sum(checkpoint.total for checkpoint in task.checkpoints))
        shown = (task.task_id, task.benchmark_version, None, task.prompt, len(task.checkpoints), points)
        rows[digest] = (*shown, of_task[task.task_id])
    return {digest: (*row[:2], latest[row[0]] == digest, *row[3:]) for digest, row in rows.items()}


def variants_of(envelopes, classes):
    """Return what variants shows of each, by variant digest.

    Args:
        envelopes: The records.
        classes: (class, where it is from, who gave it, verdict, reason) by variant digest.
    """
    made, latest = defaultdict(list), {}
    for each in _recorded(envelopes, "VariantGenerated"):
        made[each.event.variant_digest].append(each.event)
        latest[each.event.variant.variant_id] = each.event.variant_digest
    rows = {}
    for digest, events in made.items():
        variant = events[0].variant
        task_digests = [event.task_digest for event in events if event.task_digest]
        rewriters = [(event.rewriter, event.diff) for event in events if event.rewriter]
        rows[digest] = (
            variant.variant_id,
            task_digests[-1] if task_digests else None,
            latest[variant.variant_id] == digest,
            variant.severity,
            len(variant.segments),
            list(dict.fromkeys(segment.dimension for segment in variant.segments)),
            variant.failure_mode,
            *classes[digest],
            *(rewriters[0] if rewriters else (None, None)),
        )
    return rows


def segments_of(variants):
    """Return (variant, segment, severity, dimension, value, scores, priority, questions) by (digest, position)."""
    rows = {}
    for variant in variants.values():
        expected = {group.segment_id: list(group.questions) for group in variant.expected_questions}
        for position, segment in enumerate(variant.segments, 1):
            scores = (segment.criticality, segment.guessability)
            priority = None if None in scores else segment.criticality - segment.criticality * segment.guessability
            shown = (variant.variant_id, segment.segment_id, variant.severity, segment.dimension, segment.value)
            questions = expected.get(segment.segment_id, [])
            rows[variant.variant_digest, position] = (*shown, *scores, priority, questions)
    return rows


def checkpoints_of(envelopes, trials):
    """Return (position, condition, label, score, total, share, grader) by (trial, checkpoint), of valid trials."""
    tasks = {each.event.task_digest: each.event.task for each in _recorded(envelopes, "TaskRegistered")}
    rows = {}
    for trial_id, trial in trials.items():
        if trial.state != "valid":
            continue
        results = {each.checkpoint_id: each for each in trial.counted.of("CheckpointScored") if each.is_primary}
        for position, checkpoint in enumerate(tasks[trial.keys.task_digest].checkpoints, 1):
            found = results[checkpoint.checkpoint_id]
            share = found.score / checkpoint.total if checkpoint.total else None
            shown = (position, trial.keys.condition, checkpoint.label, found.score, checkpoint.total)
            rows[trial_id, checkpoint.checkpoint_id] = (*shown, share, found.grader)
    return rows


def selections_of(envelopes, variants):
    """Return (variant, task, class, classifier, wanted, chosen) by (name, position), of the latest of each name."""
    latest = {each.event.selection: each.event for each in _recorded(envelopes, "BenchmarkSelected")}
    rows = {}
    for name, event in latest.items():
        quotas = {quota.ambiguity_class: (quota.wanted, quota.chosen) for quota in event.quotas}
        for position, each in enumerate(event.variants, 1):
            task_id = variants[each.variant_digest].task_id
            quota = quotas.get(each.ambiguity_class, (None, None))
            rows[name, position] = (each.variant_id, task_id, each.ambiguity_class, event.classifier, *quota)
    return rows


def segment_outcomes_of(trials, variants):
    """Return (scores, trials without, trials with a wrong value, measured scores) by segment."""
    seen = defaultdict(list)
    for trial in trials.values():
        variant = variants.get(trial.keys.variant_digest)
        if (
            trial.state in ("valid", "missing")
            and trial.keys.condition == "underspecified"
            and variant
            and len(variant.segments) == 1
        ):
            (segment,) = variant.segments
            is_wrong = variant.severity in ("decoy", "environment")
            key = variant.benchmark, variant.task_id, segment.dimension, segment.value
            seen[key].append((segment, is_wrong, trial.is_success if trial.state == "valid" else None))
    rows = {}
    for key, found in seen.items():
        scores = [_mean_score(name, found) for name in ("criticality", "guessability")]
        missing = [is_success for _, is_wrong, is_success in found if not is_wrong and is_success is not None]
        failed = [not is_success for *_, is_success in found if is_success is not None]
        guessed = sum(missing) / len(missing) if missing else None
        critical = sum(failed) / len(failed) if failed else None
        rows[key] = (*scores, len(missing), len(failed) - len(missing), len(found) - len(failed), critical, guessed)
    return rows


def _mean_score(name, found):
    """The mean over trials of a score that variants assert of a segment."""
    known = [getattr(segment, name) for segment, *_ in found if getattr(segment, name) is not None]
    return sum(known) / len(known) if known else None


def generation_methods_of(envelopes, live):
    """Return (tasks, accepted, refused, judged, rate, attempts, agreement, cost) by (step, method, digest)."""

    def named(step, name, digest):
        return step, name, name if name == "written" else digest

    paid = _rewriting_costs(envelopes, live)
    last, attempts, costs = {}, Counter(), defaultdict(list)
    for each in (found.event for found in _recorded(envelopes, "SegmentsExtracted")):
        method = named("extraction", each.extractor, each.extractor_digest)
        costs[method].append(each.usage.cost_usd if each.usage else None)
        last[method, each.task_digest] = each
        attempts[method] += 1
    rows = {}
    for method in attempts:
        own = {task: each for (name, task), each in last.items() if name == method}
        accepted, refused = (
            sum(len(getattr(each, part)) for each in own.values()) for part in ("segments", "rejected")
        )
        agreements = [
            _dice(each, other)
            for task, each in own.items()
            for (name, other_task), other in last.items()
            if task == other_task and name[2] != method[2]
        ]
        agreement = sum(agreements) / len(agreements) if agreements else None
        rows[method] = (
            len(own),
            accepted,
            refused,
            None,
            _rate(accepted, refused),
            attempts[method],
            agreement,
            _sum(costs[method]),
        )
    there, judged = defaultdict(lambda: [False, False, 0, False]), set()
    for found in _recorded(envelopes, "VariantGenerated"):
        each = found.event
        if each.rewriter is not None and each.variant.origin != "hand_written":
            method = named("rewriting", each.rewriter, each.rewriter_digest)
            key = method, each.variant.variant_id, each.task_digest, found.experiment_id
            there[key][0] = True
            judged |= {key} if each.judgement else set()
    for found in _recorded(envelopes, "VariantRejected"):
        each = found.event
        method = named("rewriting", each.rewriter, each.rewriter_digest)
        counts = there[method, each.variant_id, each.task_digest, found.experiment_id]
        counts[1:] = [counts[1] or each.is_final, counts[2] + 1, counts[3] or each.attempt == 0]
    tried = defaultdict(lambda: defaultdict(lambda: [False, False, 0]))
    passed = defaultdict(set)
    for key, (is_made, is_final, rejections, is_withdrawn) in there.items():
        method, variant_id, task, _ = key
        counts, is_kept = tried[method][variant_id, task], is_made and not is_withdrawn
        counts[:] = [counts[0] or is_kept, counts[1] or is_final, counts[2] + rejections + is_kept]
        passed[method] |= {(variant_id, task)} if is_kept and key in judged else set()
    for method, variants in tried.items():
        made = sum(is_made for is_made, *_ in variants.values())
        given_up = sum(is_final and not is_made for is_made, is_final, _ in variants.values())
        tries = sum(count for *_, count in variants.values())
        tasks = {task for _, task in variants if task is not None}
        spent = _sum([usd for variant, _ in variants for usd in paid[variant]])
        rows[method] = (len(tasks), made, given_up, len(passed[method]), _rate(made, given_up), tries, None, spent)
    return rows


def _rewriting_costs(envelopes, live):
    """The costs of a variant's requests in USD, None where unknown."""
    threads = {
        (each.stream_id, each.event.call_id): each.event.thread_id.removeprefix("rewrite-")
        for each in _recorded(envelopes, "ModelCalled")
        if each.event.role == "rewriter"
    }
    costs = defaultdict(list)
    for kind in ("ModelResponded", "ModelFailed"):
        for each in _recorded(envelopes, kind):
            variant = threads.get((each.stream_id, each.event.call_id))
            if variant is not None and kind == "ModelResponded":
                costs[variant].append(each.event.usage.cost_usd)
            elif variant is not None:
                known = each.event.usage.cost_usd if each.event.usage else 0
                costs[variant].append(None if each.event.has_unknown_cost else known)
    cut_off = cut_off_requests(envelopes, live)
    for each in _recorded(envelopes, "ModelCalled"):
        if each.event.role == "rewriter" and id(each.event) in cut_off:
            costs[each.event.thread_id.removeprefix("rewrite-")].append(None)
    return costs


def _sum(costs):
    return None if None in costs else sum(costs)


def _dice(one, other):
    """How far two extractions have the same values."""
    left, right = ({segment.value.lower().strip() for segment in each.segments} for each in (one, other))
    return 2 * len(left & right) / (len(left) + len(right)) if left or right else 1.0


def _rate(accepted, refused):
    return accepted / (accepted + refused) if accepted + refused else None


def variant_reviews_of(envelopes):
    """Return what a reviewer decided last about a variant, and how often, by (variant, reviewer)."""
    rows, counts = {}, Counter()
    for each in _recorded(envelopes, "VariantReviewed"):
        event = each.event
        key = event.variant_digest, event.reviewer
        counts[key] += 1
        decided = (event.decision, event.reason, event.note, event.edited_digest, event.shown_s)
        rows[key] = (event.benchmark, event.task_id, event.variant_id, *decided, counts[key])
    return rows


def runs_of(envelopes, live):
    """Return (outcome, end, planned, attempts, finished, packages) by run."""
    attempts = Counter(each.event.run_id for each in _recorded(envelopes, "TrialStarted"))
    ends = {each.event.run_id: each for each in _recorded(envelopes, "RunFinished")}
    rows = {}
    for each in _recorded(envelopes, "RunStarted"):
        event, end = each.event, ends.get(each.event.run_id)
        open_outcome = "running" if each.stream_id in live else "killed"
        rows[event.run_id] = (
            end.event.outcome if end else open_outcome,
            end.recorded_at_us if end else None,
            event.planned_trials,
            attempts[event.run_id],
            end.event.trials_finished if end else None,
            sorted(f"{package.name} {package.version}" for package in event.packages),
        )
    return rows


def model_calls_of(envelopes, trials):
    """Return (trial, is counted, role, outcome, kind, why it ended, error, time, tokens, USD) by (stream, call)."""
    counted = {trial.counted.stream_id for trial in trials.values() if trial.state == "valid"}
    answers = {}
    for kind in ("ModelResponded", "ModelFailed"):
        for each in _recorded(envelopes, kind):
            answers[each.stream_id, each.event.call_id] = each.event
    rows = {}
    for each in _recorded(envelopes, "ModelCalled"):
        call, answer = each.event, answers.get((each.stream_id, each.event.call_id))
        shown = (each.trial_id, each.stream_id in counted, call.role)
        if answer is None:
            said = ("unanswered", call.call_kind, *(None,) * 5)
        elif type(answer).__name__ == "ModelFailed":
            used = (answer.usage.input_tokens, answer.usage.cost_usd) if answer.usage else (None, None)
            said = ("failed", call.call_kind, None, answer.error_kind, answer.latency_ms, *used)
        else:
            told = (answer.finish_reason, None, answer.latency_ms, answer.usage.input_tokens, answer.usage.cost_usd)
            said = ("responded", call.call_kind, *told)
        rows[each.stream_id, call.call_id] = (*shown, *said)
    return rows


def answer_uses_of(envelopes, trials, variants):
    """Return (is requested, asked at, is used, first use, actions until, used before, reason) of revealed segments.

    The key is (stream, question, segment).
    """
    streams, rows = _streams(envelopes), {}
    for trial in trials.values():
        if trial.state != "valid":
            continue
        events = streams[trial.counted.stream_id][2]
        asked = {each.question_id: each.action_index for each in _of(events, "QuestionAsked")}
        variant = variants.get(trial.keys.variant_digest)
        values = {segment.segment_id: segment.value for segment in variant.segments} if variant else {}
        for answer in _of(events, "QuestionAnswered"):
            place = asked[answer.question_id]
            key = trial.counted.stream_id, answer.question_id
            if answer.revealed is None:
                rows[*key, None] = (None, place, *(None,) * 4, "unknown_revealed")
                continue
            requested = defaultdict(bool)
            for each in answer.revealed:
                requested[each.segment_id] |= each.is_requested
            for segment_id, is_requested in requested.items():
                found = _use(trial, _of(events, "ActionStarted"), place, values.get(segment_id))
                rows[*key, segment_id] = (is_requested, place, *found)
    return rows


def _use(trial, actions, asked_at, value):
    if not trial.is_course_known:
        return (*(None,) * 4, "unknown_actions")
    if value is None:
        return (*(None,) * 4, "unknown_segment")
    if len(value.strip()) < LEAST_CHARACTERS:
        return (*(None,) * 4, "value_too_short")
    others = [each for each in actions if each.name != "ask_user"]
    using = [each.action_index for each in others if _holds(each.arguments_json.lower(), value)]
    later = [index for index in using if index > asked_at]
    was_used_before = any(index < asked_at for index in using)
    if later:
        return True, min(later), min(later) - asked_at, was_used_before, None
    if " " in value.strip() and not _parts(value):
        return (*(None,) * 3, was_used_before or None, "value_in_words")
    return False, None, None, was_used_before, "value_never_used"


def _holds(arguments, value):
    if json.dumps(value.strip(), ensure_ascii=False)[1:-1].lower() in arguments:
        return True
    parts = _parts(value)
    return bool(parts) and all(part in _without_separators(arguments) for part in parts)


def _parts(value):
    words = re.split(r"[\s,;()\"']+", _without_separators(value.lower()))
    return [word for word in words if len(word) >= LEAST_CHARACTERS and any(each.isdigit() for each in word)]


def _without_separators(text):
    return re.sub(r"(?<=\d),(?=\d\d\d)", "", text)


def trials_shown(trials, variants, classes):
    """Return (class, severity, dimensions, limits, grader, sandbox) of every trial, by its id."""
    rows = {}
    for trial_id, trial in trials.items():
        keys = trial.keys
        variant = variants.get(keys.variant_digest)
        of_variant = (None, None, None)
        if variant is not None:
            dimensions = list(dict.fromkeys(segment.dimension for segment in variant.segments))
            of_variant = (classes[variant.variant_digest][0], variant.severity, dimensions)
        rows[trial_id] = (*of_variant, keys.limits_json, keys.grader, keys.sandbox)
    return rows
