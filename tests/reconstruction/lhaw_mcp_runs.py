"""Further runs of LHAW on MCP-Atlas as single trials: tables 4 and 17, 12 and 14, which hold other runs than table 3.

The first 50 variants are those of table 12. A trial with questions asks one, and a second one where a judge says so of
the order of its questions, or where table 14 counts more.
"""

from collections.abc import Mapping

from lhaw_record.recorder.events.values import Variant
from tests.reconstruction.printed_values import nearest, rows, values
from tests.reconstruction.told import TRIALS, Agent, Tale, Told, asking_first, task, variant

BENCHMARK = "mcp_atlas"
N_VARIANTS = 100
JUDGED_FLAGS = {
    "question_quality": "vague_questions",
    "question_targeting": "missed_critical_segments",
    "information_integration": "ignoring_user_response",
    "over_clarification": "unnecessary_questions",
    "under_clarification": "false_confidence",
    "timing_strategy": "inefficient_question_sequence",
    "response_misinterpretation": "literal_misunderstanding",
}
"""Of each category one flag that a judge raises."""

_LOWEST, _HIGHEST_MISS = 0.75, 0.74
"""The lowest score of a success, and the highest of a failure."""

Slot = tuple[Variant, int]
"""A trial: its variant and its index."""


def lhaw_mcp_runs() -> Tale:
    """Return these runs as one store: five models, and three personas of one of them."""
    tale = Tale("lhaw-mcp-runs", "task")
    critical = int(rows("lhaw_fidelity", benchmark=BENCHMARK)[0]["n_variants"])
    for number in range(N_VARIANTS):
        one = task(BENCHMARK, number)
        tale.tasks.append(one)
        label = "outcome-critical" if number < critical else "divergent"
        tale.variants.append(variant(one, number, ("goal",), label))
    printed = values("lhaw_by_persona", "persona", "metric", benchmark=BENCHMARK)
    under = float(printed["original", "underspecified_ckpt_pct"]) / 100
    with_personas = rows("lhaw_by_persona")[0]["model"]
    for model in dict.fromkeys(row["model"] for row in rows("lhaw_fidelity", benchmark=BENCHMARK)):
        is_base = model == with_personas
        asked = under + float(printed["original", "ckpt_gain_pp"]) / 100 if is_base else 1.0
        questions = int(printed["original", "questions"]) if is_base else None
        _add_model(tale, model, critical, (under if is_base else 1.0, asked), questions)
    for persona in dict.fromkeys(persona for persona, _ in printed if persona != "original"):
        tale.agents[persona] = Agent(with_personas, persona=persona)
        mean = under + float(printed[persona, "ckpt_gain_pp"]) / 100
        asks = dict.fromkeys(_slots(tale.variants)[: int(printed[persona, "questions"])], 1)
        _add_arm(tale, persona, "ask_user", [], mean, asks)
    return tale


def _add_model(tale: Tale, model: str, critical: int, progress: tuple[float, float], questions: int | None) -> None:
    """Add the three arms of a model; ``progress`` is what is wanted without ``ask_user`` and with it."""
    shares = values("lhaw_fidelity", "metric", benchmark=BENCHMARK, model=model)
    full, under, asking = (
        nearest(shares[f"{arm}_pass3",], critical, 1.0) for arm in ("baseline", "underspecified", "with_user")
    )
    for number, one in enumerate(tale.tasks[:critical]):
        is_success = number < full
        tale.trials.extend(Told(model, one, "full", index, float(is_success), is_success) for index in range(TRIALS))
    _add_arm(tale, model, "underspecified", _slots(tale.variants[:under])[:under], progress[0])
    passing = _slots(tale.variants[:asking])[:asking]
    successes, failures = _asked(model, tale.variants, passing, tale.variants[asking:critical])
    flags = _flags(model, successes, failures)
    asks = {slot: 1 + (JUDGED_FLAGS["timing_strategy"] in own) for slot, own in flags.items()}
    for slot in [slot for slot, number in asks.items() if number == 1][: max(0, (questions or 0) - sum(asks.values()))]:
        asks[slot] = 2
    _add_arm(tale, model, "ask_user", list(dict.fromkeys((*successes, *passing))), progress[1], asks, flags)


def _asked(
    model: str, variants: list[Variant], passing: list[Slot], failing: list[Variant]
) -> tuple[list[Slot], list[Slot]]:
    """The trials with questions of a model, those that succeed and those that fail."""
    n_asked, n_failed = (
        int(rows(name, model=model)[0]["n_trials"]) for name in ("lhaw_failure_modes", "lhaw_failure_modes_failed")
    )
    hopeless = _slots(failing)
    free = [slot for slot in _slots(variants) if slot not in passing and slot not in hopeless]
    successes = [*passing, *free][: n_asked - n_failed]
    failures = [*hopeless, *free[::-1]][:n_failed]
    assert not {*successes} & {*failures}, f"{model}: too few trials"
    return successes, failures


def _flags(model: str, successes: list[Slot], failures: list[Slot]) -> dict[Slot, frozenset[str]]:
    """The flags that the judge raises in each trial with questions; tables 4 and 17 tell how many of each."""
    raised: dict[Slot, set[str]] = {slot: set() for slot in (*failures, *successes)}
    of_all = values("lhaw_failure_modes", "failure_mode", model=model)
    of_failed = values("lhaw_failure_modes_failed", "failure_mode", model=model)
    for category, flag in JUDGED_FLAGS.items():
        total = nearest(of_all[category,], len(raised), 1.0)
        failed = nearest(of_failed[category,], len(failures), 1.0)
        for slot in (*failures[:failed], *successes[: total - failed]):
            raised[slot].add(flag)
    return {slot: frozenset(flags) for slot, flags in raised.items()}


def _add_arm(
    tale: Tale,
    model: str,
    condition: str,
    successes: list[Slot],
    progress: float,
    asks: Mapping[Slot, int] = {},
    flags: Mapping[Slot, frozenset[str]] = {},
) -> None:
    """Add three trials of every variant with a mean progress, as near as can be."""
    slots = _slots(tale.variants)
    share = len(successes) / len(slots)
    missed = max(0.0, min(_HIGHEST_MISS, (progress - share) / (1 - share)))
    reached = max(_LOWEST, min(1.0, (progress - (1 - share) * missed) / share)) if successes else 1.0
    for slot in slots:
        one, index = slot
        is_success = slot in successes
        score = reached if is_success else missed
        trial = asking_first(model, one, condition, index, score, is_success, asks.get(slot, 0), flags.get(slot))
        tale.trials.append(trial)


def _slots(variants: list[Variant]) -> list[Slot]:
    return [(one, index) for index in range(TRIALS) for one in variants]
