"""The marts for people again, slowly and in plain Python: actions, questions, injections, budgets, costs, classes."""

import json
from collections import Counter, defaultdict
from fractions import Fraction
from math import floor

from lhaw_record.recorder.prose import asking_of
from tests.analytics import reference

PERCENTAGES = (10, 30, 50, 70, 90)
_NO_CLASS = (None,) * 5


def _place(envelope):
    return envelope.recorded_at_us, envelope.stream_id, envelope.sequence


def _streams(envelopes):
    """The events of every attempt in order: stream -> (trial id, attempt, events)."""
    found = {}
    for envelope in sorted(envelopes, key=lambda one: (one.stream_id, one.sequence)):
        if envelope.trial_id is not None:
            stream = found.setdefault(envelope.stream_id, (envelope.trial_id, envelope.attempt, []))
            stream[2].append(envelope.event)
    return found


def _of(events, kind):
    return [event for event in events if type(event).__name__ == kind]


def _counted(trials):
    return {trial.counted.stream_id for trial in trials.values() if trial.state == "valid"}


def actions_of(envelopes, trials):
    """Return each action of every attempt, by (stream, index); what came back is None where it never finished."""
    rows, counted = {}, _counted(trials)
    for stream_id, (trial_id, attempt, events) in _streams(envelopes).items():
        finished = {event.action_index: event for event in _of(events, "ActionFinished")}
        for one in _of(events, "ActionStarted"):
            end = finished.get(one.action_index)
            said = (end.is_error, end.result, end.duration_ms) if end else (None, None, None)
            told = (one.kind, one.name, one.arguments_json, one.model_call_id, one.call_id)
            rows[stream_id, one.action_index] = (trial_id, attempt, stream_id in counted, *told, *said)
    return rows


def trial_endings_of(envelopes, trials):
    """Return how each valid trial ended, and what its replies and actions were, by trial id."""
    rows, streams = {}, _streams(envelopes)
    for trial_id, trial in trials.items():
        if trial.state != "valid":
            continue
        events = streams[trial.counted.stream_id][2]
        aside = {each.call_id for each in _of(events, "ModelCalled") if each.call_kind in ("side", "sub_agent")}
        replies = [each for each in _of(events, "ModelResponded") if each.role == "agent" and each.call_id not in aside]
        reasons = [each.finish_reason for each in replies]
        known = [reason for reason in reasons if reason is not None]
        rows[(trial_id,)] = (
            _of(events, "TrialFinished")[-1].ended_by,
            known[-1] if known else None,
            len(replies),
            reasons.count("length"),
            reasons.count("refusal") + reasons.count("content_filter"),
            sum(each.wire is not None and each.wire.call_in_text is not None for each in replies),
            sum(each.wire is not None and each.wire.calls_split_by is not None for each in replies),
            sum(each.kind != "text" for each in _of(events, "ActionStarted")),
            _asks(replies[-1]) if replies else None,
        )
    return rows


def _asks(last):
    *_, call = last.tool_calls or (None,)
    if call is not None and call.name != "submit":
        return "none"
    answer = json.loads(call.arguments_json).get("answer") if call is not None else None
    words = "\n".join(each for each in (last.text, answer) if each is not None)
    return asking_of(words) if words else None


def arm_cautions_of(envelopes, used):
    """Return what to be careful with, by (agent, kind), among the trials that tables use, of one benchmark."""
    endings, streams = trial_endings_of(envelopes, used), _streams(envelopes)
    arms = defaultdict(list)
    for trial_id, trial in used.items():
        if trial.state == "valid" and "turns" not in (trial.keys.limits_json or ""):  # those are one arm of one trial
            arms[trial.keys.agent].append((trial, streams[trial.counted.stream_id][2], endings[(trial_id,)]))
    rows = {}
    for agent, found in arms.items():
        known = [each for each in found if each[0].is_course_known]
        counts = {
            "no_tool_called": (sum(ending[7] == 0 for *_, ending in known), len(known)),
            "calls_in_text": (sum(ending[5] > 0 for *_, ending in found), len(found)),
            "redacted_tools": (sum(_has_redacted_tool(events) for _, events, _ in found), len(found)),
            "split_replies": (sum(ending[6] for *_, ending in found), sum(ending[2] for *_, ending in found)),
            "cut_replies": (sum(ending[3] for *_, ending in found), sum(ending[2] for *_, ending in found)),
            "refused": (sum(ending[0] == "refused" for *_, ending in found), len(found)),
            "overflowed": (sum(ending[0] == "context_limit" for *_, ending in found), len(found)),
            "identical_trials": _identical(known),
            "failed_asking": _failed_asking(found),
            **_answer_cautions([events for _, events, _ in found]),
        }
        rows.update({(agent, kind): pair for kind, pair in counts.items() if pair[0]})
    return {**rows, **_hang_ups(streams, used)}


def _has_redacted_tool(events):
    tools = [each for call in _of(events, "ModelCalled") for each in json.loads(call.tools_json or "[]")]
    return any("[redacted]" in each["name"] for each in tools)


def _hang_ups(streams, used):
    """Return how many of an agent's attempts that ended did so in a model call that it left, by (agent, kind)."""
    ended, left = Counter(), Counter()
    for trial_id, _, events in streams.values():
        calls = [each for each in events if type(each).__name__ in ("ModelFailed", "ModelResponded")]
        last = next((each for each in reversed(calls) if each.role == "agent"), None)
        failed = [each.error_kind for each in _of(events, "TrialFailed")]
        kinds = failed or [getattr(last, "error_kind", None)]
        if (
            trial_id in used
            and kinds != ["interrupted"]
            and (_of(events, "TrialFailed") or _of(events, "TrialFinished"))
        ):
            agent = used[trial_id].keys.agent
            ended[agent] += 1
            left[agent] += kinds[0] == "hung_up" or failed in (["client_gone"], ["program_no_call"])
    return {(agent, "hung_up"): (left[agent], count) for agent, count in ended.items() if left[agent]}


def _failed_asking(found):
    failures = defaultdict(list)
    for trial, _, ending in found:
        if trial.is_success is False:
            failures[trial.keys.condition].append(ending[8] in ("question", "permission"))
    mostly = [each for each in failures.values() if 2 * sum(each) > len(each)]
    return sum(map(sum, mostly)), sum(map(len, mostly))


def _identical(found):
    cells = defaultdict(list)
    for trial, events, ending in found:
        keys = trial.keys
        told = tuple((one.action_index, one.name, one.arguments_json) for one in _of(events, "ActionStarted"))
        cells[keys.condition, keys.task_id, keys.variant_id].append((told, ending[7]))
    several = [cell for cell in cells.values() if len(cell) > 1 and all(count for _, count in cell)]
    return sum(len({told for told, _ in cell}) == 1 for cell in several), len(several)


def _answer_cautions(streams):
    pairs, known = [], []
    for events in streams:
        asked = {each.question_id: each.question for each in _of(events, "QuestionAsked")}
        answered = _of(events, "QuestionAnswered")
        pairs += [(asked[each.question_id], each) for each in answered]
        (started,) = _of(events, "TrialStarted")
        if started.prompt_state != "full":
            known += [each.revealed for each in answered if each.revealed is not None]
    echoes = 0
    for question, answer in pairs:
        texts = ((text or "").lower() for text in (question, answer.answer))
        one, other = ("".join(each for each in text if each.isalnum()) for text in texts)
        echoes += bool(one) and 0.8 * len(one) <= len(other) <= 1.2 * len(one) and (one in other or other in one)
    said = sum(answer.answer is not None for _, answer in pairs)
    return {
        "nothing_revealed": (0 if any(known) else len(known), len(known)),
        "echoed_questions": (echoes, said),
    }


def questions_of(envelopes, trials):
    """Return each question of every attempt, by (stream, question id)."""
    rows, counted = {}, _counted(trials)
    for stream_id, (trial_id, attempt, events) in _streams(envelopes).items():
        answers = {event.question_id: event for event in _of(events, "QuestionAnswered")}
        count = len(_of(events, "ActionStarted"))
        for number, one in enumerate(_of(events, "QuestionAsked"), 1):
            answer = answers[one.question_id]
            place = (number, one.action_index, float(Fraction(100 * one.action_index, count)))
            asked, volunteered = (
                None
                if answer.revealed is None
                else [each.segment_id for each in answer.revealed if each.is_requested is on]
                for on in (True, False)
            )
            checks = (
                None if answer.revealed is None or answer.withheld is None else list(answer.withheld),
                [each.problem for each in answer.rejected],
            )
            key = stream_id, one.question_id
            rows[key] = (trial_id, attempt, stream_id in counted, *place, answer.answer, asked, volunteered, *checks)
    return rows


def first_asks_of(trials):
    """Return (questions, actions, action of the first question, its place in %) of the trials that asked."""
    rows = {}
    for trial_id, trial in trials.items():
        if trial.state == "valid" and trial.questions:
            first = min(one.action_index for one in trial.counted.of("QuestionAsked"))
            rows[trial_id] = (trial.questions, len(trial.actions), first, trial.first_ask_pct)
    return rows


def target(budget, percent):
    """The action after which the information goes in."""
    return max(1, floor(Fraction(budget * percent, 100)))


def injections_of(trials):
    """Return (budget, target, recorded target, after, is injected, actions, is collapsed) of valid injected trials."""
    rows = {}
    for trial_id, trial in trials.items():
        keys = trial.keys
        if trial.state != "valid" or keys.inject_percent is None:
            continue
        wanted = target(keys.budget_actions, keys.inject_percent)
        others = [target(keys.budget_actions, each) for each in PERCENTAGES if each != keys.inject_percent]
        (message,) = trial.counted.of("ClarificationInjected")
        count = len(trial.actions) if trial.is_course_known else None
        place = (message.target_action, message.after_action, message.status == "injected")
        rows[trial_id] = (keys.budget_actions, wanted, *place, count, wanted in others)
    return rows


def budgets_of(envelopes):
    """Return (unit, recorded budget, the mean of the counts rounded half up), by (stream, sequence)."""
    rows = {}
    for envelope in envelopes:
        event = envelope.event
        if type(event).__name__ == "OracleBudgetSet":
            counts = event.action_counts
            mean = floor(Fraction(sum(counts), len(counts)) + Fraction(1, 2)) if counts else None
            rows[envelope.stream_id, envelope.sequence] = (event.unit_id, event.budget_actions, mean)
    return rows


def arms_of(envelopes):
    """Return (trials, model, experiments) by (agent, limits), the only settings that differ in these stores."""
    arms = defaultdict(dict)
    for envelope in envelopes:
        event = envelope.event
        if type(event).__name__ == "TrialStarted":
            arms[event.agent, event.limits_json][envelope.trial_id] = event.model
    return {key: (len(trials), max(trials.values()), ["e"]) for key, trials in arms.items()}


def wasted_actions_of(trials):
    """Return (number among equals, supply, is wasted) of every pre-injection action, by (trial, index).

    Args:
        trials: Those that the tables use.
    """
    rows = {}
    for trial_id, trial in trials.items():
        if trial.keys.inject_percent is None or not reference.is_measured(trial) or not trial.is_course_known:
            continue
        traces = reference._oracle_traces(trials, trial.keys)
        supply = reference._supply(traces, "arguments", "max") if traces else Counter()
        seen = Counter()
        for one in trial.actions:
            if one.action_index <= trial.after_action and reference._counts(one):
                key = reference._key(one, "arguments")
                seen[key] += 1
                is_wasted = seen[key] > supply[key] if traces else None
                rows[trial_id, one.action_index] = (seen[key], supply[key], is_wasted)
    return rows


def task_ask_rates_of(rows, variants):
    """Return (units, trials, missing, asking trials, ask %) by (agent, task), from the rows of pass_at_k."""
    cells = defaultdict(list)
    for (agent, kind, unit, condition), row in rows.items():
        if kind == "variant" and condition == "ask_user":
            cells[agent, variants[unit].task_id].append(row)
    found = {}
    for key, cell in cells.items():
        trials, missing = (sum(row[name] for row in cell) for name in ("n_trials", "n_missing"))
        asking = [row["n_asking_trials"] for row in cell]
        asking = None if None in asking else sum(asking)
        share = 100 * Fraction(asking, trials) if trials and asking is not None else None
        found[key] = (len(cell), trials, missing, asking, share)
    return found


def costs_of(envelopes, live):
    """Return calls, failed calls, tokens in, out, cached, written, reasoned, USD, the provider's, and seconds.

    The key is (stream, purpose); None where nobody knows.
    """
    cut_off = cut_off_requests(envelopes, live)
    later = defaultdict(list)
    for envelope in envelopes:
        event = envelope.event
        is_over = type(event).__name__ in _ENDS or id(event) in cut_off
        if envelope.trial_id is None and is_over and event.role == "judge":
            later[event.call_id.removeprefix("judge-").rpartition(".")[0]].append(event)
    rows = {}
    for stream_id, (_, _, events) in _streams(envelopes).items():
        start = events[0]
        replies = [event for event in events if type(event).__name__ in _ENDS or id(event) in cut_off]
        is_imported = start.origin != "recorded"
        ends = _of(events, "TrialFinished")
        is_course_known = bool(ends) and ends[0].action_count is not None
        is_unasked = start.channel != "ask_user" or (is_course_known and not _of(events, "QuestionAsked"))
        by_purpose = {
            "agent": ([each for each in replies if each.role == "agent"], is_imported),
            "user_simulator": (
                [each for each in replies if each.role == "user_simulator"],
                is_imported and not is_unasked,
            ),
            "grader_and_judge": ([each for each in replies if each.role in ("grader", "judge")], is_imported),
        }
        if later:
            by_purpose["judging"] = (later[stream_id], False)
        for purpose, (said, is_unknown_if_none) in by_purpose.items():
            rows[stream_id, purpose] = _summed(said, is_unknown_if_none)
        agent = rows[stream_id, "agent"]
        if is_imported and ends and agent[_COST] is None:
            rows[stream_id, "agent"] = (*agent[:_COST], ends[0].cost_usd, *agent[_COST + 1 :])
    return rows


_COST = 7  # the place of the USD in a row


_ENDS = ("ModelResponded", "ModelFailed")


def cut_off_requests(envelopes, live):
    """Return the identities of requests that got no end before their writer died."""
    ended = {(each.stream_id, each.event.call_id) for each in envelopes if type(each.event).__name__ in _ENDS}
    return {
        id(each.event)
        for each in envelopes
        if type(each.event).__name__ == "ModelCalled"
        and each.stream_id not in live
        and (each.stream_id, each.event.call_id) not in ended
    }


def _summed(ends, is_unknown_if_none):
    if not ends:
        return (None,) * 10 if is_unknown_if_none else (0,) * 10
    usage = {"ModelResponded": _reply_usage, "ModelFailed": _failure_usage, "ModelCalled": _cut_off_usage}
    rows = [usage[type(end).__name__](end) for end in ends]
    n_failed = sum(type(end).__name__ != "ModelResponded" for end in ends)
    sums = [reference._sum(list(column)) for column in zip(*rows, strict=True)]
    return (len(ends) - n_failed, n_failed, *sums[:7], None if sums[7] is None else sums[7] / 1000)


def _reply_usage(reply):
    return (
        reply.usage.input_tokens,
        reply.usage.output_tokens,
        reply.usage.cached_input_tokens,
        reply.usage.cache_write_tokens,
        reply.usage.reasoning_tokens,
        reply.usage.cost_usd,
        reply.usage.provider_cost_usd,
        reply.latency_ms,
    )


def _cut_off_usage(request):
    """A script is free; what another model took for a request that was cut off, nobody knows."""
    return (*(0 if request.model.startswith("scripted/") else None,) * 7, 0)


def _failure_usage(failure):
    """What was never sent, or refused with an error, used nothing; of any other what was not reported is unknown."""
    used = failure.usage
    said = (
        ()
        if used is None
        else (
            used.input_tokens,
            used.output_tokens,
            used.cached_input_tokens,
            used.cache_write_tokens,
            used.reasoning_tokens,
            used.cost_usd,
            used.provider_cost_usd,
        )
    )
    was_sent = failure.wire is not None and failure.wire.sent_sha256 is not None
    was_refused = failure.http_status is not None and failure.http_status not in (408, 504)
    if any(each is not None for each in said):
        return (*said, 0)
    return (*(None,) * 7, 0) if was_sent and not was_refused else (0,) * 8


def classes_of(envelopes, trials, variants, planned, verdicts):
    """Return (class, where it is from, who gave it, verdict, reason) of every variant, by its id.

    Args:
        envelopes: The records.
        trials: ``reference.trials_of``.
        variants: Those of the store, by id.
        planned: Trials per cell.
        verdicts: ``reference_verdicts.new_task_verdicts_of``.
    """
    chosen = {}
    for envelope in sorted(envelopes, key=_place):
        event = envelope.event
        if type(event).__name__ == "BenchmarkSelected":
            chosen[event.selection] = (_place(envelope), event)
    selected = {}
    for _, event in sorted(chosen.values(), key=lambda pair: pair[0]):
        for each in event.variants:
            selected[each.variant_digest] = (each.ambiguity_class, event.classifier)
    return {
        variant_id: _class_of(variant, selected.get(variant.variant_digest), trials, planned, verdicts)
        for variant_id, variant in variants.items()
    }


def _class_of(variant, selected, trials, planned, verdicts):
    if variant.ambiguity_class is not None:
        return variant.ambiguity_class, "label", variant.classified_by, "not_applicable", None
    cells = defaultdict(list)
    for trial in trials.values():
        keys = trial.keys
        if (keys.variant_digest, keys.role, keys.condition) == (variant.variant_digest, "classifier", "underspecified"):
            cells[keys.agent].append(trial)
    if selected:
        cells = {agent: cell for agent, cell in cells.items() if agent == selected[1]}
    reason, found, verdict, agent = "no_label_and_no_classifier", None, None, None
    if len(cells) > 1:
        reason = "several_classifiers"
    elif cells:
        ((agent, cell),) = cells.items()
        states = [(trial.is_success, tuple(trial.scores)) for trial in cell if trial.state == "valid"]
        found = reference._class(states, max(planned, len(cell)), "paper")
        reason = "trials_incomplete" if found is None else None
        said = verdicts.get((variant.variant_digest, agent, "classifier"), ("not_applicable", None, None))[0]
        found, verdict = ("new_task" if said == "confirmed" else found), (None if found is None else said)
    if selected:
        return selected[0], "selection", selected[1], verdict or "not_applicable", None
    if reason is not None:
        return None, None, None, None, reason
    return found, "classifier", agent, verdict, None


def screened(envelopes, trials, classes):
    """Return why the tables leave a trial out, by trial id; None for those that they use."""
    started = {id(each.event): each.recorded_at_us for each in envelopes}
    latest = {}
    for trial in sorted(trials.values(), key=lambda trial: started[id(trial.keys)]):
        latest["task", trial.keys.task_id] = trial.keys.task_digest
        latest["variant", trial.keys.variant_id] = trial.keys.variant_digest
    found = {}
    for trial_id, trial in trials.items():
        keys = trial.keys
        own = (keys.task_digest, keys.variant_digest)
        if keys.role == "classifier":
            found[trial_id] = "classifying_trial"
        elif own != (latest["task", keys.task_id], latest["variant", keys.variant_id]):
            found[trial_id] = "superseded"
        elif classes.get(keys.variant_digest, _NO_CLASS)[0] == "new_task":
            found[trial_id] = "new_task"
        else:
            found[trial_id] = None
    return found


def exclusions_of(envelopes, trials, variants, classes, planned, k):
    """Return what the tables leave out or should be read with, counted by kind.

    Args:
        envelopes: The records of one benchmark, whose oracle scope is task.
        trials: ``reference.trials_of``.
        variants: Those of the store, by id.
        classes: ``classes_of``, by the variant's digest.
        planned: Trials per cell.
        k: Of pass@k.
    """
    why = screened(envelopes, trials, classes)
    kept = {trial_id: trial for trial_id, trial in trials.items() if why[trial_id] is None}
    kinds = Counter(reason for reason in why.values() if reason)
    kinds.update(_cell_kinds(kept, planned, k))
    met = {trial.keys.variant_digest for trial_id, trial in trials.items() if why[trial_id] != "superseded"} - {None}
    of_met = [classes.get(digest, _NO_CLASS) for digest in met]
    kinds["new_task_variants"] = sum(found[0] == "new_task" for found in of_met)
    kinds["unjudged_variants"] = sum(found[3] == "unjudged" for found in of_met)
    kinds["unclassified_variants"] = sum(found[0] is None for found in of_met)
    kinds["several_classifiers"] = sum(found[4] == "several_classifiers" for found in of_met)
    kinds["classifiers"] = len({found[2] for found in of_met} - {None})
    bare = {each.variant_digest for each in variants.values() if not each.segments}
    kinds["variants_without_segments"] = len(met & bare)
    kinds["collapsed_units"] = _collapsed(kept)
    kinds.update(_not_common(kept))
    arms = {_arm(each.keys) for each in kept.values()}
    kinds["arms_by_settings"] = len(arms) - len({agent for agent, *_ in arms})
    kinds["unstarted_trials"] = _unstarted(envelopes)
    return {kind: n for kind, n in kinds.items() if n}


def _arm(keys):
    return keys.agent, keys.limits_json, keys.benchmark_version


def _not_common(kept):
    """Units that every arm with measured trials under a condition has there, and those that one of them lacks."""
    agents = defaultdict(lambda: defaultdict(set))
    for trial in filter(reference.is_measured, kept.values()):
        keys = trial.keys
        unit = keys.task_id if keys.condition.startswith("full") else keys.variant_id
        agents[keys.condition][unit].add(_arm(keys))
    kinds = Counter()
    for how, conditions in (
        ("tasks", ("full", "full_ask_user")),
        ("variants", ("underspecified", "ask_user")),
        ("injected", [name for name in agents if name.startswith("inject")]),
    ):
        units, lacking = set(), set()
        for condition in conditions:
            every = set().union(*agents[condition].values())
            units |= agents[condition].keys()
            lacking |= {unit for unit, met in agents[condition].items() if met != every}
        if lacking:
            kinds[f"{how}_common"], kinds[f"{how}_not_common"] = len(units - lacking), len(lacking)
    return kinds


def _cell_kinds(kept, planned, k):
    kinds = Counter()
    for (_, kind, _, condition), cell in reference.cells_of(kept).items():
        if kind == "task" and condition not in ("full", "full_ask_user"):
            continue
        states = Counter(trial.state for trial in cell)
        measured = sum(reference.is_measured(trial) for trial in cell)
        kinds["missing_trials"] += max(planned, len(cell)) - states["valid"] - states["running"]
        kinds["failed_trials"] += states["missing"]
        kinds["running_trials"] += states["running"]
        kinds["not_injected_trials"] += states["valid"] - measured
        kinds["cells_with_too_few_trials"] += measured < k
    return kinds


def _unstarted(envelopes):
    """Planned trials of the last run that were neither finished before nor started."""
    runs = [each for each in sorted(envelopes, key=_place) if type(each.event).__name__ == "RunStarted"]
    run = runs[-1].event
    started = {
        each.trial_id
        for each in envelopes
        if type(each.event).__name__ == "TrialStarted" and each.event.run_id == run.run_id
    }
    return max(run.planned_trials - run.finished_before - len(started), 0)


def _collapsed(trials):
    """Count (agent, variant) units of which two percentages, both run, give the same action."""
    percentages = defaultdict(lambda: defaultdict(set))
    for trial_id, (_, wanted, *_) in injections_of(trials).items():
        keys = trials[trial_id].keys
        percentages[keys.agent, keys.variant_id][wanted].add(keys.inject_percent)
    return sum(any(len(each) > 1 for each in by_action.values()) for by_action in percentages.values())
