"""Variants that change the environment are not for this benchmark."""

import pytest

from lhaw_record.recorder.events.values import EnvironmentChange, Variant
from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.benchmark import McpAtlasBenchmark


def test_a_changed_environment_is_refused():
    """The message names the variant, the change and the remedy, and no retry is owed."""
    variant = Variant(
        benchmark="mcp_atlas",
        task_id="t",
        variant_id="t/v",
        prompt="p",
        segments=(),
        origin="generated",
        environment_change=EnvironmentChange(kind="stale_copy", arguments=()),
    )
    benchmark = McpAtlasBenchmark.__new__(McpAtlasBenchmark)
    with pytest.raises(SandboxBoundaryError, match=r"t/v .*stale_copy.*'variants'") as caught:
        benchmark.open(None, None, variant)
    assert not caught.value.is_retry_owed
