"""Instances on a real engine: solved by their published patches, in two languages, through the whole program."""

import pytest

from runners.benchmarks.contract import problems_of
from tests.runners.sandboxes.docker_fixtures import needs_engine, own_names

pytestmark = [pytest.mark.docker, needs_engine]


async def test_the_promises_of_every_benchmark(benchmark, settings):
    """Untouched no instance is solved, its published patch solves it, grading twice gives the same, nothing is left."""
    assert await problems_of(benchmark, settings) == []
    assert own_names() == []
