"""The table ``effects``: a logistic model of success for each set of trials, by condition and dimension.

The model is fitted by generalized estimating equations with exchangeable correlation inside clusters, which are the
tasks (docs/metrics.md 5). Every cell of condition and dimension has its own parameter. The effect of a cell is its log
odds ratio to ``underspecified`` in the same dimension. Every trial counts once, in the dimension of the first removed
segment of its variant. Excluded are trials with a task's full prompt, which have no variant, trials of controls, and
trials of requests with a fault. Intervals and p-values use the robust covariance, corrected for few clusters, and
t with G - 1 degrees of freedom; G is the smaller number of clusters of the two cells. If success is rare and few tasks
decide, that p-value is too small (in the coverage study, below 0.05 in up to 0.15 of the studies without an effect).
So it is at least the p-value of sign flips of whole clusters, each with its deviation from the success rate that both
cells would share without an effect.

Source: K.-Y. Liang and S. L. Zeger, Biometrika 73 (1986); L. A. Mancl and T. A. DeRouen, A covariance estimator for GEE
with improved small-sample properties, Biometrics 57 (2001); W. Pan and M. M. Wall, Statistics in Medicine 21 (2002).

If all trials of a cell succeed, or all fail, its log odds are not finite (``separation``). The trials of such a cell
are left out of the fit, so that the other cells can be estimated. If the cell is a baseline, its dimension has no
effects.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lhaw_record.analytics.statistics.inference import InferenceSettings, agreeing, printed
from lhaw_record.analytics.statistics.randomization import sign_flips
from lhaw_record.recorder.processes import allow_pandas

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FEWEST_CLUSTERS = 8
"""With fewer clusters an effect has neither an interval nor a p-value: with 6, simulated coverage was 0.90."""

BASELINE = "underspecified"

_TRIALS = """
select
    int_pools.pool,
    segments.dimension,
    trials.condition,
    concat_ws('|', trials.benchmark, trials.variant_id) as variant,
    clusters.cluster_id,
    trials.is_success
from int_trials_evaluated as trials
inner join int_task_clusters as clusters
    on trials.benchmark = clusters.benchmark and trials.task_id = clusters.task_id
inner join int_pools on trials.benchmark = int_pools.benchmark and not int_pools.is_single
inner join int_variant_segments as segments
    on trials.variant_digest = segments.variant_digest and segments.position = 1
where
    trials.is_measured
    and trials.condition not in ('control', 'control_ask_user', 'faulty', 'faulty_ask_user')
order by all
"""

_GAPS = """
select
    int_pools.pool,
    segments.dimension,
    cells.condition,
    sum(cells.n_missing)::bigint,
    count(distinct segments.variant_digest)
    - count(distinct segments.variant_digest) filter (where cells.n_trials > 0)
from pass_at_k as cells
inner join int_pools on cells.benchmark = int_pools.benchmark and not int_pools.is_single
inner join int_variant_segments as segments
    on cells.variant_digest = segments.variant_digest and segments.position = 1
where
    cells.unit_kind = 'variant'
    and cells.condition not in ('control', 'control_ask_user', 'faulty', 'faulty_ask_user')
group by all
"""

_LEAST_VARIANCE = 1e-9
"""A smaller variance means that all clusters had the same counts. An interval would then claim too much certainty."""

EffectCell = tuple[str, str]
"""A dimension and a condition."""

Gaps = Mapping[EffectCell, tuple[int, int]]
Row = dict[str, Any]


class Trial(NamedTuple):
    """The data of one trial that the model uses."""

    cell: EffectCell
    variant: str
    cluster: str
    is_success: bool


class Fit(NamedTuple):
    """The fitted model: the log odds of success per cell and their robust covariance, in the order of ``cells``."""

    cells: tuple[EffectCell, ...]
    log_odds: "Floats"
    covariance: "Floats"


def effects(connection: "duckdb.DuckDBPyConnection") -> "pa.Table":
    """Compute the table ``effects``: the log odds ratio to ``underspecified`` for each set, dimension and condition.

    Rows with the dimension ``all`` test whether a condition has the same effect in every dimension (chi-squared Wald
    test).
    """
    import pyarrow as pa

    ((confidence, permutations, seed),) = connection.execute(
        "select getvariable('confidence'), getvariable('permutations'), getvariable('seed')"
    ).fetchall()
    settings = InferenceSettings(confidence, permutations=permutations, seed=seed)
    trials: dict[str, list[Trial]] = {}
    for pool, dimension, condition, *trial in connection.execute(_TRIALS).fetchall():
        trials.setdefault(pool, []).append(Trial((dimension, condition), *trial))
    gaps: dict[str, dict[EffectCell, tuple[int, int]]] = {}
    for pool, dimension, condition, n_missing, n_dropped in connection.execute(_GAPS).fetchall():
        gaps.setdefault(pool, {})[dimension, condition] = (n_missing, n_dropped)
    rows = [
        {"benchmark": pool, "agent": "all", **row}
        for pool in sorted(trials)
        for row in _corrected(effect_rows(trials[pool], gaps[pool], settings))
    ]
    return pa.Table.from_pylist(rows, schema=_schema())


def _schema() -> "pa.Schema":
    import pyarrow as pa

    return pa.schema(
        [
            *((name, pa.string()) for name in ("benchmark", "dimension", "agent", "condition", "measure")),
            *((name, pa.float64()) for name in ("value", "low", "high")),
            *((name, pa.int64()) for name in ("n_units", "n_dropped", "n_clusters", "n_trials", "n_missing")),
            *((name, pa.string()) for name in ("method", "reason")),
            ("p_value", pa.float64()),
            ("p_holm", pa.float64()),
        ]
    )


def _corrected(rows: Sequence[Row]) -> list[Row]:
    """Add Holm's p-values. Effects are one family; tests of equal effects across dimensions are another."""
    from statsmodels.stats.multitest import multipletests

    families: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("p_value") is not None:
            families.setdefault(row["measure"], []).append(row)
    for family in families.values():
        _, corrected, *_ = multipletests([row["p_value"] for row in family], method="holm")
        for row, p_value in zip(family, corrected, strict=True):
            row["p_holm"] = _significant(float(p_value))
    return list(rows)


def effect_rows(trials: Sequence[Trial], gaps: Gaps, settings: InferenceSettings) -> list[Row]:
    """Compute the rows of the table for one set of trials."""
    cells: dict[EffectCell, list[Trial]] = {}
    for trial in trials:
        cells.setdefault(trial.cell, []).append(trial)
    separated = {cell for cell, members in cells.items() if len({trial.is_success for trial in members}) == 1}
    fit = fit_cells([trial for trial in trials if trial.cell not in separated])
    rows = [
        {**_counts(cell, cells, gaps), **_effect(cell, cells, fit, settings)} for cell in cells if cell[1] != BASELINE
    ]
    return rows + [_homogeneity([row for row in rows if row["condition"] == name], fit) for name in _conditions(rows)]


def fit_cells(trials: Sequence[Trial]) -> Fit | None:
    """Fit the log odds of success of every cell. Return None if there are no cells or the fit does not converge."""
    allow_pandas()
    import numpy as np
    from statsmodels.genmod.cov_struct import Exchangeable
    from statsmodels.genmod.families import Binomial
    from statsmodels.genmod.generalized_estimating_equations import GEE

    cells = tuple(dict.fromkeys(trial.cell for trial in trials))
    if not cells:
        return None
    place = {cell: column for column, cell in enumerate(cells)}
    clusters = {cluster: number for number, cluster in enumerate(dict.fromkeys(trial.cluster for trial in trials))}
    design = np.zeros((len(trials), len(cells)))
    design[np.arange(len(trials)), [place[trial.cell] for trial in trials]] = 1.0
    outcome = np.array([trial.is_success for trial in trials], dtype=np.float64)
    groups = np.array([clusters[trial.cluster] for trial in trials])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence is checked below
        try:
            model = GEE(outcome, design, groups, family=Binomial(), cov_struct=Exchangeable())
            result = model.fit(maxiter=100, cov_type="bias_reduced")
            log_odds, covariance = np.asarray(result.params), np.asarray(result.cov_robust_bc)
        except (ValueError, np.linalg.LinAlgError):
            return None
    if not result.converged or not np.isfinite(log_odds).all() or not np.isfinite(covariance).all():
        return None
    return Fit(cells, log_odds, covariance)


def _counts(cell: EffectCell, cells: Mapping[EffectCell, Sequence[Trial]], gaps: Gaps) -> Row:
    baseline = (cell[0], BASELINE)
    return {
        "dimension": cell[0],
        "condition": cell[1],
        "measure": "log_odds_ratio",
        "n_units": len({trial.variant for trial in cells[cell]}),
        "n_dropped": gaps[cell][1],
        "n_trials": len(cells[cell]) + len(cells.get(baseline, ())),
        "n_missing": sum(gaps[each][0] for each in (cell, baseline) if each in gaps),
        "n_clusters": _n_clusters(cells, cell, baseline),
    }


def _n_clusters(cells: Mapping[EffectCell, Sequence[Trial]], *pair: EffectCell) -> int:
    return min(len({trial.cluster for trial in cells.get(cell, ())}) for cell in pair)


def _effect(
    cell: EffectCell, cells: Mapping[EffectCell, Sequence[Trial]], fit: Fit | None, settings: InferenceSettings
) -> Row:
    """Compute the log odds ratio of a cell to the baseline of its dimension, or the reason why it is undefined."""
    from scipy.special import stdtr, stdtrit

    pair = (cell, (cell[0], BASELINE))
    if pair[1] not in cells:
        return {"reason": "no_baseline"}
    if any(len({trial.is_success for trial in cells[each]}) == 1 for each in pair):
        return {"reason": "separation"}
    if fit is None:
        return {"reason": "not_converged"}
    plus, minus = (fit.cells.index(each) for each in pair)
    ratio = float(fit.log_odds[plus] - fit.log_odds[minus])
    variance = float(fit.covariance[plus, plus] + fit.covariance[minus, minus] - 2 * fit.covariance[plus, minus])
    value = {"value": round(ratio, 6)}
    n_clusters = _n_clusters(cells, *pair)
    if n_clusters < FEWEST_CLUSTERS:
        return {**value, "reason": "too_few_clusters"}
    if variance < _LEAST_VARIANCE:
        return {**value, "reason": "no_variation"}
    error = math.sqrt(variance)
    half = float(stdtrit(n_clusters - 1, 0.5 + settings.confidence / 2)) * error
    p_value = 2 * float(stdtr(n_clusters - 1, -abs(ratio) / error))
    p_value, level = max(p_value, _flipped(cells[pair[0]], cells[pair[1]], settings)), settings.level
    low, high = agreeing(ratio - half, ratio + half, 0 if p_value >= level else 1 if ratio > 0 else -1)
    return {**value, "low": low, "high": high, "method": "gee", "p_value": _significant(printed(p_value, level))}


def _flipped(plus: Sequence[Trial], minus: Sequence[Trial], settings: InferenceSettings) -> float:
    """Test two cells for equal success rates by flipping the signs of whole clusters."""
    import numpy as np

    names = sorted({trial.cluster for trial in (*plus, *minus)})
    place = {name: number for number, name in enumerate(names)}
    share = sum(trial.is_success for trial in (*plus, *minus)) / (len(plus) + len(minus))
    sums = np.zeros(len(names))
    for trials, weight in ((plus, 1 / len(plus)), (minus, -1 / len(minus))):
        for trial in trials:
            sums[place[trial.cluster]] += weight * (trial.is_success - share)
    return sign_flips(np.sort(sums), np.ones(len(sums)), settings.confidence, settings.exchanges).p_value


def _homogeneity(rows: Sequence[Row], fit: Fit | None) -> Row:
    """Test whether a condition has the same effect in all dimensions in which its effect has an interval."""
    import numpy as np
    from scipy.special import fdtrc

    condition = rows[0]["condition"]
    pairs = [((row["dimension"], condition), (row["dimension"], BASELINE)) for row in rows if row.get("method")]
    counts = {name: sum(row[name] for row in rows) for name in ("n_units", "n_dropped", "n_trials", "n_missing")}
    keys = {"dimension": "all", "condition": condition, "measure": "effect_by_dimension_chi2", **counts}
    keys["n_clusters"] = min((row["n_clusters"] for row in rows if row.get("method")), default=0)
    if fit is None or len(pairs) < 2:
        return {**keys, "reason": "fewer_than_two_dimensions"}
    contrasts = np.zeros((len(pairs), len(fit.cells)))
    for line, pair in enumerate(pairs):
        contrasts[line, [fit.cells.index(each) for each in pair]] = (1.0, -1.0)
    differences = contrasts[1:] - contrasts[0]
    shift, spread = differences @ fit.log_odds, differences @ fit.covariance @ differences.T
    statistic = float(shift @ np.linalg.solve(spread, shift))
    degrees, count = keys["n_clusters"] - 1, len(differences)
    scale = (degrees - count + 1) / (degrees * count)  # as in Hotelling's test: estimated covariance
    p_value = float(fdtrc(count, degrees - count + 1, scale * statistic))
    return {**keys, "value": round(statistic, 6), "reason": "test_statistic", "p_value": _significant(p_value)}


def _conditions(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["condition"] for row in rows))


def _significant(number: float) -> float:
    return float(f"{number:.6g}")
