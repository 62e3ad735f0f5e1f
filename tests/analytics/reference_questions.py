"""Questions again, slowly and in plain Python: ledger, flags, shares of failure modes, verdicts on new tasks."""

from fractions import Fraction
from math import ceil

from lhaw_record.runners.judging.failure_modes import COMPUTED, FLAGS
from tests.analytics import reference

NEEDS_JUDGE = {flag for flags in FLAGS.values() for flag in flags} - COMPUTED


def ledger_of(trials, variants):
    """Return (questions, targeting, removed, requested, volunteered, precision, recall, f1, met) by trial id.

    What nobody knows is None.
    """
    return {
        trial_id: _ledger(trial, variants)
        for trial_id, trial in trials.items()
        if trial.state == "valid" and trial.keys.channel == "ask_user" and trial.keys.prompt_state != "full"
    }


def _ledger(trial, variants):
    answers = trial.counted.of("QuestionAnswered")
    removed = len(_segments(trial, variants))
    if not trial.is_course_known or any(answer.revealed is None for answer in answers):
        return (trial.questions, None, removed, None, None, None, None, None, None)
    met = {each.segment_id for answer in answers for each in answer.revealed if each.is_requested}
    requested = set().union(*map(_asked, answers))
    everything = {each.segment_id for answer in answers for each in answer.revealed}
    targeting = sum(bool(_asked(answer)) for answer in answers)
    counts = (trial.questions, targeting, removed, len(requested), len(everything - requested))
    if trial.keys.user_simulator == "dump":
        return (*counts, None, None, None, len(met))
    precision = Fraction(targeting, trial.questions) if trial.questions else None
    recall = Fraction(len(requested), removed) if removed else None
    return (*counts, precision, recall, _harmonic(precision, recall), len(met))


def _asked(answer):
    return {each.segment_id for each in answer.revealed or () if each.is_requested}.union(answer.withheld or ())


def _harmonic(precision, recall):
    if precision is None or recall is None:
        return None
    return 2 * precision * recall / (precision + recall) if precision + recall else Fraction(0)


def _segments(trial, variants):
    keys = trial.keys
    return variants[keys.variant_id].segments if keys.prompt_state == "underspecified" else ()


def first_uses_of(trials, variants):
    """Return the earliest share of a full trial's actions at which a value is used, by (variant, segment)."""
    found = {}
    for variant_id, variant in variants.items():
        for segment in variant.segments:
            shares = [
                Fraction(action.action_index, len(trial.actions))
                for trial in trials.values()
                if trial.state == "valid" and trial.keys.condition == "full" and trial.keys.task_id == variant.task_id
                for action in trial.actions
                if len(segment.value) >= 3 and segment.value.lower() in action.arguments_json.lower()
            ]
            if shares:
                found[variant_id, segment.segment_id] = min(shares)
    return found


def computed_of(trial, variants, uses):
    """Return the verdict of each computed flag of a trial with questions."""
    questions, _, _, _, _, precision, recall, _, _ = _ledger(trial, variants)
    segments = _segments(trial, variants)
    asked = trial.counted.of("QuestionAsked")
    answers = {answer.question_id: answer for answer in trial.counted.of("QuestionAnswered")}
    is_unknown = any(answer.revealed is None for answer in trial.counted.of("QuestionAnswered"))
    places = [question.action_index for question in asked]
    first, seen, repeats = {}, set(), 0
    for question in asked:
        answer = answers[question.question_id]
        repeats += bool(_asked(answer) & seen)
        seen |= {each.segment_id for each in answer.revealed or ()}
        for segment_id in _asked(answer):
            first.setdefault(segment_id, question.action_index)
    early = {}
    for segment in segments:
        use = uses.get((trial.keys.variant_id, segment.segment_id))
        if use is not None and use <= Fraction(1, 2):
            early[segment.segment_id] = use
    late = [name for name, use in early.items() if name in first and Fraction(first[name], len(trial.actions)) > use]
    limit = max(3, ceil(Fraction(len(trial.actions), 10)))
    upfront = max(places) <= limit and max(places) - min(places) + 1 == len(places)
    critical = sum(segment.criticality >= 0.5 for segment in segments)
    verdicts = {
        "redundant_questions": (questions >= 2, repeats > 0),
        "excessive_cost": (questions >= 3, precision is not None and precision < Fraction(3, 10)),
        "insufficient_question_depth": (critical >= 2, recall is not None and recall < Fraction(1, 2)),
        "late_clarification": (bool(early), bool(late)),
        "upfront_question_dump": (questions >= 3, upfront),
    }
    is_dump = trial.keys.user_simulator == "dump"
    found = {}
    for flag, (applies, is_raised) in verdicts.items():
        needs_targets = flag != "upfront_question_dump"
        if not applies or (needs_targets and is_dump):
            found[flag] = "not_applicable"
        elif needs_targets and is_unknown:
            found[flag] = None
        else:
            found[flag] = "yes" if is_raised else "no"
    return found


def judged_of(envelopes):
    """Return the last verdicts by judged stream."""
    found = {}
    for envelope in sorted(envelopes, key=lambda one: (one.recorded_at_us, one.stream_id, one.sequence)):
        if type(envelope.event).__name__ == "QuestionJudged":
            found[envelope.event.judged_stream_id] = {flag.flag: flag.verdict for flag in envelope.event.flags}
    return found


def known_not_to_apply(trial, variants):
    """Return the judged flags whose prerequisite fails by the facts; every segment has its scores here."""
    segments = _segments(trial, variants)
    fails = {
        "missed_critical_segments": not any(s.criticality >= 0.5 and s.guessability <= 0.5 for s in segments),
        "wrong_dimension_focus": len({segment.dimension for segment in segments}) < 2,
        "inferable_information_asked": not any(segment.guessability >= 0.5 for segment in segments),
        "premature_execution": sum(segment.criticality >= 0.5 for segment in segments) < 2,
        "inefficient_question_sequence": trial.questions < 2,
    }
    return {flag for flag, does_fail in fails.items() if does_fail}


def flags_of(trial, variants, uses, judged):
    """Return the verdict of each of the 21 flags, None where nobody judged."""
    verdicts = {flag: judged.get(trial.counted.stream_id, {}).get(flag) for flag in NEEDS_JUDGE}
    verdicts |= dict.fromkeys(known_not_to_apply(trial, variants), "not_applicable")
    return verdicts | computed_of(trial, variants, uses)


def shares_of(trials, variants, judged, *, only_failed):
    """Return (share, trials) by (agent, category, measure)."""
    uses = first_uses_of(trials, variants)
    values = {}
    for trial in trials.values():
        if trial.keys.condition != "ask_user" or trial.state != "valid" or not trial.questions:
            continue
        if only_failed and trial.is_success:
            continue
        verdicts = flags_of(trial, variants, uses, judged)
        is_judged = trial.counted.stream_id in judged
        for category, flags in FLAGS.items():
            raised = [None if verdicts[flag] is None else verdicts[flag] == "yes" for flag in flags]
            measures = {"any_flag": any(raised) if is_judged and None not in raised else None}
            for flag, is_raised in zip(flags, raised, strict=True):
                measures[flag] = is_raised if is_judged or flag in COMPUTED else None
            for measure, value in measures.items():
                values.setdefault((trial.keys.agent, category, measure), []).append(value)
    return {
        key: (reference.mean(known), len(known))
        for key, found in values.items()
        for known in [[Fraction(value) for value in found if value is not None]]
    }


def quality_of(trials, variants):
    """Return precision, recall and their kin by (agent, simulator, measure); a variant with an unknown is dropped."""
    rows = ledger_of({key: trial for key, trial in trials.items() if trial.keys.condition == "ask_user"}, variants)
    groups = {}
    for trial_id, row in rows.items():
        keys = trials[trial_id].keys
        groups.setdefault((keys.agent, keys.user_simulator or "unknown"), []).append((keys.variant_id, row))
    found = {}
    for (agent, simulator), everything in groups.items():
        unknown = {variant_id for variant_id, row in everything if row[1] is None}
        members = [(variant_id, row) for variant_id, row in everything if variant_id not in unknown]
        measures = {} if simulator == "dump" else _measures(members)
        for name in ("precision", "recall", "f1"):
            for kind in ("micro", "macro"):
                found[agent, simulator, f"{name}_{kind}"] = measures.get(f"{name}_{kind}")
        for name in ("recall_of_all", "met_of_requested", "ask_precision", "ask_recall", "ask_f1"):
            found[agent, simulator, name] = measures.get(name)
    return found


def _measures(members):
    asking = [(variant_id, row) for variant_id, row in members if row[0]]
    precision = _ratio(sum(row[1] for _, row in asking), sum(row[0] for _, row in asking))
    recall = _ratio(sum(row[3] for _, row in asking), sum(row[2] for _, row in asking))
    found = {"precision_micro": precision, "recall_micro": recall, "f1_micro": _harmonic(precision, recall)}
    for place, name in ((5, "precision_macro"), (6, "recall_macro"), (7, "f1_macro")):
        by_variant = {}
        for variant_id, row in asking:
            by_variant.setdefault(variant_id, []).append(row[place])
        found[name] = reference.mean([reference.mean(values) for values in by_variant.values()])
    found["recall_of_all"] = _ratio(sum(row[3] for _, row in members), sum(row[2] for _, row in members))
    found["met_of_requested"] = _ratio(sum(row[8] for _, row in members), sum(row[3] for _, row in members))
    given, removed = (sum(row[place] for _, row in members) for place in (8, 2))
    sought = sum(max(row[0], row[8]) for _, row in members)
    found |= {"ask_precision": _ratio(given, sought), "ask_recall": _ratio(given, removed)}
    found["ask_f1"] = _harmonic(found["ask_precision"], found["ask_recall"]) if sought else _ratio(0, removed)
    return found


def _ratio(above, below):
    return Fraction(above, below) if below else None


def new_tasks_of(trials, envelopes):
    """Return the verdict about exactly the valid trials of each (agent, variant) with c = 0 and |S| = 1."""
    said = {}
    for envelope in sorted(envelopes, key=lambda one: (one.recorded_at_us, one.stream_id, one.sequence)):
        if type(envelope.event).__name__ == "NewTaskJudged":
            said[envelope.event.variant_digest, frozenset(envelope.event.judged_stream_ids)] = envelope.event.verdict
    found = {}
    for (agent, kind, unit, condition), cell in reference.cells_of(trials).items():
        valid = [trial for trial in cell if trial.state == "valid"]
        is_one_way = len({tuple(trial.scores) for trial in valid}) == 1 and not any(t.is_success for t in valid)
        if kind == "variant" and condition == "underspecified" and is_one_way:
            key = (valid[0].keys.variant_digest, frozenset(trial.counted.stream_id for trial in valid))
            found[agent, unit] = said.get(key, "unjudged")
    return found
