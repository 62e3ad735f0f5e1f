"""Hugging Face's datasets and TRL as judges: installed and run by ``make test-training``; CI leaves them out."""

from tests.conftest import IS_CI

collect_ignore_glob = ["test_*.py"] if IS_CI else []
