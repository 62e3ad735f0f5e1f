"""The real programs run where they are installed, and are installed by ``make test-agents``; CI has none of them."""

import os

from tests.conftest import IS_CI

ASKED_FOR = "LHAW_RECORD_TEST_AGENTS"
"""``all``, or names of ready-made entries with commas between them."""

CONDITIONS = os.environ.get("LHAW_RECORD_TEST_CONDITIONS", "full,inject_50,ask_user").split(",")
"""The conditions that every entry runs under."""

collect_ignore_glob = ["test_*.py"] if IS_CI and not os.environ.get(ASKED_FOR) else []
