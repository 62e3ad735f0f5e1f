"""The real programs run where they are installed, and are installed by ``make test-agents``.

CI installs one that asks by every medium, and runs what it asks on one task.
"""

import os

from tests.conftest import IS_CI

ASKED_FOR = "LHAW_RECORD_TEST_AGENTS"
"""``all``, or names of ready-made entries with commas between them."""

CONDITIONS = os.environ.get("LHAW_RECORD_TEST_CONDITIONS", "ask_user" if IS_CI else "full,inject_50,ask_user").split(
    ","
)
"""The conditions that every entry runs under."""

collect_ignore = ["test_compaction.py", "test_on_harbor.py", "test_on_mcp_atlas.py"] if IS_CI else []


def pytest_collection_modifyitems(items):
    """Leave out tests of conditions that this run leaves out."""
    items[:] = [each for each in items if all(mark.args[0] in CONDITIONS for mark in each.iter_markers("condition"))]
