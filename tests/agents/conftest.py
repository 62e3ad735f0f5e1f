"""The real programs are installed and run only when they are asked for: ``make test-agents``."""

import os

ASKED_FOR = "LHAW_RECORD_TEST_AGENTS"
"""``all``, or names of ready-made entries with commas between them."""

collect_ignore_glob = [] if os.environ.get(ASKED_FOR) else ["test_*.py"]
