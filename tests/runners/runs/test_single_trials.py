"""``wrap``: one trial of any command."""

import contextlib

import msgspec
import pytest

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.values import ThreadRules
from lhaw_record.runners.runs import preflight
from lhaw_record.runners.runs.single_trials import WrapOptions, next_trial

OPTIONS = WrapOptions(
    task="desk/log-triage",
    variant=None,
    condition=None,
    model="scripted/balanced",
    name="mine",
    environment=(),
    mounts=(),
    answer="last_message",
    is_unisolated=True,
    threads=("main=You are the (lead|main) agent", "step=request"),
    command=("python3", "-c", "print(1)"),
)


def test_threads_are_declared_as_in_an_entry(tmp_path):
    """Each --thread is a key of the table [threads]; a value may have any sign."""
    (trial,) = next_trial(OPTIONS, tmp_path / "store").plan.trials
    assert trial.agent.external.threads == ThreadRules(main="You are the (lead|main) agent", step="request")


@pytest.mark.parametrize("given", ["step=never", "mian=x", "main=("])
def test_a_wrong_declaration_is_refused(tmp_path, given):
    """An unknown key, an unknown value and a broken expression are named before anything runs."""
    with pytest.raises(ExperimentError, match="thread"):
        next_trial(msgspec.structs.replace(OPTIONS, threads=(given,)), tmp_path / "store")


@pytest.mark.parametrize("is_unisolated", [True, False])
async def test_unisolated_is_a_way_out_where_nothing_isolates(is_unisolated, tmp_path, monkeypatch):
    """A program is a plain process then; without the flag it is refused."""

    async def problem():
        return "nothing isolates here"

    monkeypatch.setattr(preflight, "isolation_problem", problem)
    planned = next_trial(msgspec.structs.replace(OPTIONS, is_unisolated=is_unisolated), tmp_path / "store")
    expected = contextlib.nullcontext() if is_unisolated else pytest.raises(ExperimentError, match="without isolation")
    with expected:
        assert (await preflight.choose_sandbox(planned.experiment, lambda _: None)).kind == "process"
