"""Every mart and table gives what a person works out on paper."""

import math
from pathlib import Path

import pytest

from lhaw_record.analytics.views.build_order import named_in
from lhaw_record.analytics.views.store import connect
from tests.analytics.cases import build, load

CASES = sorted((Path(__file__).parents[2] / "golden").glob("*.toml"))


@pytest.mark.sampled(15)
@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_the_rows_are_those_worked_by_hand(path):
    """Queries over a small store give the rows of the case, to six places."""
    case = load(path)
    snapshot = build(case).snapshot()
    by_parameters = {}
    for expectation in case.expect:
        by_parameters.setdefault(tuple(expectation.parameters.items()), []).append(expectation)
    for parameters, expectations in by_parameters.items():
        read = set().union(*(named_in(expectation.query) for expectation in expectations))
        connection = connect(snapshot, parameters={"reading": case.reading, **dict(parameters)}, only=read)
        try:
            for expectation in expectations:
                rows = [list(row) for row in connection.execute(expectation.query).fetchall()]
                assert _equal(rows, expectation.rows), f"{expectation.query}\n{expectation.why}\ngot: {rows}"
        finally:
            connection.close()


def _equal(value, wanted):
    """TOML has no null: the text ``null`` stands for it."""
    if wanted == "null":
        return value is None
    if isinstance(wanted, list):
        return len(value) == len(wanted) and all(_equal(*pair) for pair in zip(value, wanted, strict=True))
    if isinstance(wanted, float):
        return value is not None and math.isclose(value, wanted, abs_tol=2e-6)
    return value == wanted
