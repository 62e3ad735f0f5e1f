"""The harness can fail: each way of breaking the program is caught, within a part of the cases that CI looks at."""

import pytest

from tests.crash.judge import problems_after
from tests.crash.mutations import MUTATIONS
from tests.crash.test_power_cut import IMAGES_EACH, SEED, cuts, traced


@pytest.mark.thorough
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_broken_program_is_caught(tmp_path, mutation):
    """Among the power cuts of one recording is one whose loss the judge sees."""
    with mutation():
        operations = traced(tmp_path / "whole")
        for cases, (case, root, power) in enumerate(cuts(operations, tmp_path, str(SEED), IMAGES_EACH), 1):
            if problems := problems_after(root, power.acknowledged):
                print(f"caught by case {cases} ({case}): {problems[0]}")
                return
    pytest.fail(f"{cases} power cuts showed nothing")
