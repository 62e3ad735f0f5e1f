"""A second judge of the engine: other draws (logit-normal rates), and the same tests by scipy and by plain numpy."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit, logit

from lhaw_record.analytics.statistics.agreement import rank_correlation, tau_by_chance, weighted_kappa
from lhaw_record.analytics.statistics.effects import Trial, effect_rows
from lhaw_record.analytics.statistics.inference import InferenceSettings, Units, estimate
from lhaw_record.analytics.statistics.randomization import Draws, permuted

pytestmark = pytest.mark.thorough
SETTINGS = InferenceSettings(draws=1_000, permutations=1_000)
STUDIES = 300
LEAST = 0.93 - 3 * (0.93 * 0.07 / STUDIES) ** 0.5
MOST = 0.06 + 3 * (0.05 * 0.95 / STUDIES) ** 0.5


def mean_rate(shift, spread):
    """The mean of expit(shift + spread z) over a standard normal z, by quadrature."""
    return quad(lambda z: expit(shift + spread * z) * stats.norm.pdf(z), -8, 8)[0]


def study(rng, tasks, spread):
    """The normal part and the number of variants of each task, one after the other variant's task."""
    return spread * rng.standard_normal(tasks), np.repeat(np.arange(tasks), rng.integers(1, 6, tasks))


def plain(values, members):
    """Units of a mean."""
    return Units(values, np.ones(len(values)), members)


@pytest.mark.parametrize(("tasks", "shift", "spread"), [(6, 0.0, 2.0), (13, -2.0, 1.5), (40, -1.0, 3.0)])
def test_levels_and_gains_hold_the_truth(tasks, shift, spread):
    """A level, and a gain whose effect is a shift of the logit: both as often as is promised."""
    rng, held = np.random.default_rng(tasks), []
    truths = mean_rate(shift, spread), mean_rate(shift + 1, spread) - mean_rate(shift, spread)
    for _ in range(STUDIES):
        normal, members = study(rng, tasks, spread)
        base, asked = (rng.binomial(3, expit(shift + more + normal)[members]) / 3 for more in (0, 1))
        found = (
            estimate("level", plain(base, members), SETTINGS),
            estimate("gain", plain(asked - base, members), SETTINGS),
        )
        held.append(
            [one.low <= truth <= one.high for one, truth in zip(found, truths, strict=True) if one.low is not None]
        )
    assert min(np.mean([each[place] for each in held if len(each) == 2]) for place in (0, 1)) >= LEAST


@pytest.mark.parametrize("tasks", [10, 25])
def test_effects_hold_the_truth_and_see_nothing_where_nothing_is(tasks):
    """The marginal log odds ratio of logit-normal tasks, by quadrature, and the share of p-values below 0.05."""
    rng, held, seen = np.random.default_rng(tasks), [], []
    for more in (0.0, 1.0):
        truth = logit(mean_rate(-1.5 + more, 2)) - logit(mean_rate(-1.5, 2))
        for _ in range(STUDIES // 2):
            normal, members = study(rng, tasks, 2)
            trials = [
                Trial(("goal", name), str(variant), str(task), bool(rng.random() < expit(-1.5 + shift + normal[task])))
                for variant, task in enumerate(members.tolist())
                for name, shift in (("underspecified", 0.0), ("ask_user", more))
                for _ in range(2)
            ]
            row = effect_rows(trials, {trial.cell: (0, 0) for trial in trials}, SETTINGS)[0]
            if row.get("low") is not None:
                held.append(row["low"] <= truth <= row["high"])
                seen += [row["p_value"] < 0.05] * (more == 0)
    assert np.mean(held) >= LEAST
    assert np.mean(seen) <= MOST + 0.02  # half as many studies


def test_kappa_holds_the_truth():
    """Graders who share a claim's difficulty: the truth is kappa of two million claims of as many tasks."""
    rng, held = np.random.default_rng(5), []

    def graded(normal):
        one, other = (rng.random(len(normal)) < expit(-1 + 2.5 * normal) for _ in range(2))
        return one.astype(float), other.astype(float)

    one, other = graded(rng.standard_normal(2_000_000))
    by_chance = one.mean() * (1 - other.mean()) + other.mean() * (1 - one.mean())
    truth = 1 - np.mean(one != other) / by_chance
    for _ in range(STUDIES):
        normal, members = study(rng, 10, 1)
        found = weighted_kappa(*graded(normal[members]), members, SETTINGS)
        held += [found.low <= truth <= found.high] if found.low is not None else []
    assert np.mean(held) >= LEAST


def test_p_values_are_those_of_scipy():
    """The sign-flip and the exchange of whole tasks, exact, by scipy.stats.permutation_test over the same statistic."""
    rng = np.random.default_rng(1)
    gains = rng.integers(-1, 4, 9) / 3
    ours = estimate("gain", plain(gains, np.arange(9)), SETTINGS)
    theirs = stats.permutation_test((gains,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert ours.p_value == pytest.approx(theirs.pvalue, abs=1e-8)
    greater = stats.permutation_test(
        (gains,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="greater"
    )
    assert ours.p_greater == pytest.approx(greater.pvalue, abs=1e-8)

    def studentised(left, right):
        return abs(stats.ttest_ind(left, right, equal_var=False).statistic)

    left, right = rng.random(6), rng.random(5) / 2
    apart = permuted((left, np.ones(6)), (right, np.ones(5)), 0.95, Draws(10_000, 1))
    theirs = stats.permutation_test((left, right), studentised, n_resamples=np.inf, alternative="greater")
    assert apart.p_value == pytest.approx(theirs.pvalue, abs=1e-8)


def test_the_covariance_of_effects_is_that_of_the_paper():
    """Mancl and DeRouen (2001), equation 5, in plain numpy on unequal tasks, at the same working correlation."""
    rng = np.random.default_rng(3)
    normal, members = study(rng, 9, 1.5)
    trials = [
        Trial(("goal", name), str(variant), f"{task:02}", bool(rng.random() < expit(shift + normal[task])))
        for variant, task in enumerate(members.tolist())
        for name, shift in (("underspecified", -0.5), ("ask_user", 0.8))
        for _ in range(2)
    ]
    row = effect_rows(trials, {trial.cell: (0, 0) for trial in trials}, SETTINGS)[0]
    x = np.array([[trial.cell[1] == "ask_user", trial.cell[1] != "ask_user"] for trial in trials], dtype=float)
    y = np.array([trial.is_success for trial in trials], dtype=float)
    groups = [
        np.flatnonzero([trial.cluster == name for trial in trials]) for name in sorted({t.cluster for t in trials})
    ]
    beta, alpha = np.zeros(2), 0.0
    for _ in range(200):
        mu = expit(x @ beta)
        pearson = (y - mu) / np.sqrt(mu * (1 - mu))
        pairs = sum(len(group) * (len(group) - 1) / 2 for group in groups)
        products = sum((pearson[group].sum() ** 2 - (pearson[group] ** 2).sum()) / 2 for group in groups)
        alpha = products / (pairs - 2) / (np.sum(pearson**2) / (len(y) - 2))
        parts = [_parts(x[group], y[group], mu[group], alpha) for group in groups]
        beta = beta + np.linalg.solve(sum(d.T @ v @ d for d, v, _ in parts), sum(d.T @ v @ r for d, v, r in parts))
    bread = np.linalg.inv(sum(d.T @ v @ d for d, v, _ in parts))
    scores = [d.T @ v @ np.linalg.solve(np.eye(len(r)) - d @ bread @ d.T @ v, r) for d, v, r in parts]
    covariance = bread @ sum(np.outer(score, score) for score in scores) @ bread
    ratio, error = beta[0] - beta[1], np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    assert row["value"] == pytest.approx(ratio, abs=2e-4)
    assert row["high"] == pytest.approx(ratio + stats.t.isf(0.025, 8) * error, abs=2e-3)


def _parts(x, y, mu, alpha):
    """The derivative, the inverse of the working covariance and the residuals of one task."""
    scale = np.sqrt(mu * (1 - mu))
    working = scale[:, None] * scale[None, :] * (alpha + (1 - alpha) * np.eye(len(y)))
    return x * (mu * (1 - mu))[:, None], np.linalg.inv(working), y - mu


def test_what_tau_is_by_chance_is_that_of_all_pairings():
    """One cell per task: the standard error is the spread of tau over all 8! pairings of two agents' tasks.

    Equal values make each of the 336 orders that differ as frequent as the others.
    """
    one = np.array([0, 0, 0, 0, 1, 2, 0, 3.0])
    other = np.array([0, 1, 0, 0, 2, 0, 0, 3.0])
    paired = [stats.kendalltau(one, order).statistic for order in set(itertools.permutations(other))]
    values = np.unique(one)[:, None, None], np.unique(other)[None, :, None]
    cells = ((values[0] == one) & (values[1] == other)).transpose(2, 0, 1).astype(float)
    assert tau_by_chance(cells) == pytest.approx(np.std(paired), rel=1e-6)


def test_two_agents_with_nothing_in_common_seldom_agree():
    """Rare success in few tasks, twenty tasks of five timings: tau below 0.05 as seldom as is promised."""
    rng, seen = np.random.default_rng(2), []
    for _ in range(STUDIES):
        normal, members = zip(*(study(rng, 20, 3) for _ in range(2)), strict=True)
        cells = np.repeat(members[0], 5)
        one, other = (rng.binomial(3, expit(-3 + each)[cells]) / 3 for each in normal)
        found = rank_correlation(one, other, cells, SETTINGS)
        seen += [found.p_value < 0.05] if found.p_value is not None else []
    assert np.mean(seen) <= MOST
