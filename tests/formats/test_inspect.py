"""Logs for inspect_ai, opened by inspect_ai's own reader."""

import pytest

from lhaw_record.analytics.exports import inspect_logs
from tests.analytics.exports.test_exports import timing_trials
from tests.runners.imports.files import imported, write
from tests.support.foreign_readers import inspect_samples
from tests.support.needs import needs

pytestmark = needs("formats")


def test_inspect_reads_every_sample(tmp_path):
    """Every log whole and by sample: scores, messages with tool calls, results, metadata; and its headline score."""
    imported("ask-early-trials", write(tmp_path / "trials" / "t.json", timing_trials()), tmp_path / "s")
    for name, content in inspect_logs(tmp_path / "s").files.items():
        write(tmp_path / "logs" / name, content)
    found = inspect_samples(tmp_path / "logs")
    assert sorted(each["condition"] for each in found) == ["full"] * 3 + ["inject_50", "inject_90", "underspecified"]
    assert [each["success"] for each in found] == [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    (injected,) = [each for each in found if each["condition"] == "inject_50"]
    assert "By the way, since 2001." in injected["texts"]
    assert injected["calls"][0] == ["read_file", {"path": "1.csv"}]
    assert injected["events"][0] == "sample_init"
    assert injected["events"].count("tool") == len(injected["calls"])
    assert injected["asked"] == sorted({*injected["asked"]}) != []
    assert injected["events"].count("score") == len(injected["explanations"])
    assert [each["mean"] for each in found if each["condition"] == "full"] == [pytest.approx(1.0)] * 3
