"""A process has one warden for each engine."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lhaw_record.runners.environments.sandboxes.docker import warden


@pytest.mark.thorough
def test_threads_that_ask_at_once_get_one_warden(monkeypatch):
    """A second one would be forgotten, with its pipe open."""
    started = []

    def start(command, **_):
        time.sleep(0.1)
        started.append(command)

    monkeypatch.setattr(warden, "start", start)
    monkeypatch.setattr(warden, "_wardens", {})
    monkeypatch.setattr(warden.atexit, "register", lambda *_: None)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(warden.watch)
    assert len(started) == 1
