"""Which stream of a store is meant by a part of its id."""

import pytest

from lhaw_record.recorder.errors import StoreError
from lhaw_record.runners.cli import attempt_text


def test_the_id_of_a_trial_means_its_last_attempt(tmp_path, monkeypatch, capsys):
    """Ten attempts of a trial have no longer common id, so the last is shown and others are named; two trials do."""
    there = [*(f"ab1-{number}" for number in range(1, 11)), "ab2-1", "cd-1"]
    monkeypatch.setattr(attempt_text, "stream_ids", lambda _: there)
    assert attempt_text.stream_of(tmp_path, "ab1") == "ab1-10"
    assert "the last of 10 attempts; earlier ones: ab1-5, ab1-6, ab1-7, ab1-8, ab1-9" in capsys.readouterr().err
    assert attempt_text.stream_of(tmp_path, "ab1-1") == "ab1-1"
    assert attempt_text.stream_of(tmp_path, "c") == "cd-1"
    assert capsys.readouterr().err == ""
    with pytest.raises(StoreError, match="give more characters of the id"):
        attempt_text.stream_of(tmp_path, "ab")
