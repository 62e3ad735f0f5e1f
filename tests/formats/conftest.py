"""The readers of other programs as judges: installed and run by ``make test-formats``; CI leaves them out."""

from tests.conftest import IS_CI

collect_ignore_glob = ["test_*.py"] if IS_CI else []
