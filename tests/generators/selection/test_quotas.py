"""Choosing: quotas add up, a choice is spread, repeats itself, and never fills a class from another."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.generators.selection.quotas import CLASSES, Candidate, choose, quotas
from lhaw_record.recorder.events.values import DIMENSIONS


def candidate(name, ambiguity_class="benign", task="t", dimensions=("goal",), segments=1, severity="delete"):
    """A candidate."""
    return Candidate(
        variant_id=name,
        variant_digest=name,
        task_id=task,
        dimensions=tuple(dimensions),
        segment_count=segments,
        severity=severity,
        ambiguity_class=ambiguity_class,
    )


@st.composite
def many(draw):
    """Up to forty candidates of three tasks."""
    chance = Random(draw(st.integers(0, 2**32)))
    return [
        candidate(
            f"v{number}",
            chance.choice(CLASSES),
            chance.choice("abc"),
            tuple(chance.sample(DIMENSIONS, chance.randint(1, 2))),
            chance.randint(1, 3),
            chance.choice(["delete", "vaguify", "genericize", "unknown"]),
        )
        for number in range(draw(st.integers(0, 40)))
    ]


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (100, (40, 30, 30)),
        (85, (34, 26, 25)),
        (20, (8, 6, 6)),
        (3, (1, 1, 1)),
        (2, (1, 1, 0)),
        (1, (1, 0, 0)),
        (7, (3, 2, 2)),
    ],
)
def test_quotas_are_rounded_by_the_largest_remainder(most, expected):
    """85: 34, 25.5 and 25.5; of equal remainders the class that is named first is rounded up. 7: 2.8, 2.1 and 2.1."""
    assert quotas(most) == dict(zip(CLASSES, expected, strict=True))


@given(most=st.integers(1, 500), first=st.integers(0, 100), second=st.integers(0, 100))
def test_quotas_add_up_and_are_never_off_by_one(most, first, second):
    """They sum to the number, and each lies less than one beside its exact share."""
    percents = dict(zip(CLASSES, (first, (100 - first) * second // 100, 0), strict=True))
    percents["benign"] = 100 - sum(percents.values())
    wanted = quotas(most, percents)
    assert sum(wanted.values()) == most
    assert all(abs(wanted[name] - most * percents[name] / 100) < 1 for name in CLASSES)


@given(candidates=many(), most=st.integers(1, 40), seed=st.integers(0, 9), chance=st.randoms(use_true_random=False))
def test_a_choice_depends_on_what_there_is_and_the_seed_only(candidates, most, seed, chance):
    """The order of the candidates does not matter, and nobody is chosen twice."""
    chosen = choose(candidates, quotas(most), seed)
    shuffled = list(candidates)
    chance.shuffle(shuffled)
    assert choose(shuffled, quotas(most), seed) == chosen
    assert len({each.variant_id for each in chosen}) == len(chosen)


@given(candidates=many(), most=st.integers(1, 40), seed=st.integers(0, 9))
def test_a_class_gets_its_quota_or_all_it_has(candidates, most, seed):
    """Shortfalls stay: no class is filled up from another."""
    counts = Counter(each.ambiguity_class for each in choose(candidates, quotas(most), seed))
    available = Counter(each.ambiguity_class for each in candidates)
    assert all(counts[name] == min(wanted, available[name]) for name, wanted in quotas(most).items())


@given(candidates=many(), most=st.integers(1, 40), seed=st.integers(0, 9))
def test_tasks_are_used_evenly_in_every_class(candidates, most, seed):
    """A task that has variants left is at most one behind any other task of its class, after every step."""
    chosen = choose(candidates, quotas(most), seed)
    for step in range(1, len(chosen) + 1):
        for name in CLASSES:
            taken = Counter(each.task_id for each in chosen[:step] if each.ambiguity_class == name)
            left = {each.task_id for each in candidates if each.ambiguity_class == name and each not in chosen[:step]}
            assert all(taken[task] >= max(taken.values(), default=0) - 1 for task in left)


@given(candidates=many(), seed=st.integers(0, 9))
def test_classes_take_turns(candidates, seed):
    """While every class has variants left, no class is a whole turn ahead of its share."""
    wanted = quotas(40)
    taken = Counter()
    for each in choose(candidates, wanted, seed):
        taken[each.ambiguity_class] += 1
        available = Counter(one.ambiguity_class for one in candidates)
        if any(available[name] <= taken[name] for name in CLASSES):
            return
        shares = [taken[name] / wanted[name] for name in CLASSES]
        assert max(shares) - min(shares) <= 1 / min(wanted.values()) + 1e-9


def test_the_rarest_comes_next():
    """Of one class and task: first by dimension, then by the number of segments, then by severity."""
    candidates = [
        candidate("a-goal-1"),
        candidate("b-goal-1"),
        candidate("c-input-1", dimensions=["input"]),
        candidate("d-goal-input-2", dimensions=["goal", "input"], segments=2),
        candidate("e-input-2", dimensions=["input"], segments=2, severity="vaguify"),
    ]
    every = [each.variant_id for each in choose(candidates, {"benign": 5})]
    first_input = next(name for name in every if "input" in name.split("-")[1:])
    assert every.index(first_input) <= 1, "after a goal comes an input, or the other way round"
    rare = {
        "dimension": candidate("z", dimensions=["input"]),
        "segments": candidate("z", segments=2),
        "severity": candidate("z", severity="vaguify"),
    }
    for seed in range(20):
        for what, other in rare.items():
            chosen = choose([candidate("x"), candidate("y"), other], {"benign": 2}, seed)
            assert other in chosen, what


def test_the_whole_set_counts_where_a_class_does_not_tell():
    """A class that begins takes a task that no class has had."""
    candidates = [
        candidate("o", "outcome-critical", "a"),
        candidate("d", "divergent", "b"),
        *(candidate(f"b{task}", "benign", task) for task in "abc"),
    ]
    for seed in range(5):
        chosen = choose(candidates, {"outcome-critical": 1, "divergent": 1, "benign": 1}, seed)
        assert [each.task_id for each in chosen] == ["a", "b", "c"]


def test_seeds_decide_between_equals():
    """Equal variants are chosen by the seed, on every machine alike, and some two seeds differ."""
    candidates = [candidate(f"v{number}") for number in range(20)]
    assert [each.variant_id for each in choose(candidates, {"benign": 3}, 7)] == ["v2", "v15", "v0"]
    choices = {choose(candidates, {"benign": 3}, seed) for seed in range(10)}
    assert len(choices) > 1


def test_a_published_distribution_with_a_shortfall():
    """LHAW 3.6, TheAgentCompany: of 146 / 54 / 15 classified variants a target of 100 gives 40 / 30 / 15, 85 in all."""
    counts = {"outcome-critical": 146, "divergent": 54, "benign": 15}
    candidates = [
        candidate(f"{name}{number}", name, f"t{number % 13}")
        for name, count in counts.items()
        for number in range(count)
    ]
    chosen = choose(candidates, quotas(100))
    assert Counter(each.ambiguity_class for each in chosen) == {"outcome-critical": 40, "divergent": 30, "benign": 15}
    assert len({each.task_id for each in chosen}) == 13
