"""Which sandbox a run gets where nothing on the machine isolates."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.sandboxes import kinds
from lhaw_record.runners.environments.sandboxes.kinds import remedy
from lhaw_record.runners.experiment.tables import AgentSpec, BenchmarkSpec, Experiment, SandboxSpec
from lhaw_record.runners.runs import preflight

WHY = "unshare: Operation not permitted"


def experiment_of(model: str, **sandbox: object) -> Experiment:
    """Return an experiment with one agent."""
    return Experiment(
        name="choice",
        benchmark=BenchmarkSpec(name="desk"),
        agents=(AgentSpec(name="a", model=model),),
        conditions=("full",),
        sandbox=SandboxSpec(**sandbox),
    )


@pytest.fixture(autouse=True)
def nothing_isolates(monkeypatch):
    """Make every isolating kind fail here."""

    async def problem():
        return WHY

    monkeypatch.setattr(preflight, "isolation_problem", problem)


async def test_scripted_models_run_everywhere_and_the_way_out_is_told():
    """A plain process is enough for them, and one line says what to run before a real model comes."""
    told = []
    chosen = await preflight.choose_sandbox(experiment_of("scripted/balanced"), told.append)
    assert chosen.kind == "process"
    assert told == [f"no sandbox works here yet; before a real model runs commands: {remedy()}"]


async def test_a_real_model_is_refused_with_the_reason_and_one_command():
    """The error names the model, the command for this machine, and why nothing isolates."""
    with pytest.raises(ExperimentError) as caught:
        await preflight.choose_sandbox(experiment_of("openai/gpt-x"), lambda _: None)
    for words in ("openai/gpt-x would run commands on this machine without isolation", remedy(), WHY):
        assert words in str(caught.value)


async def test_a_person_may_allow_it():
    """Where the machine may be harmed, the file says so, and a real model runs as a plain process."""
    chosen = await preflight.choose_sandbox(experiment_of("openai/gpt-x", allow_unisolated=True), lambda _: None)
    assert chosen.kind == "process"


@pytest.mark.parametrize(("model", "count"), [("openai/gpt-x", 1), ("scripted/balanced", 0)])
async def test_limits_that_are_weak_here_are_told_before_a_real_model_runs(monkeypatch, model, count):
    """One line names what this machine cannot enforce; scripted models exceed nothing."""

    class Weak:
        weak_limits = ("memory: limited for each process",)

        @asynccontextmanager
        async def open(self, files, limits):
            yield self

        async def run_bash(self, command):
            return SimpleNamespace(output="works\n")

    monkeypatch.setitem(kinds._ISOLATED, "namespaces", (Weak, "nothing"))
    told = []
    chosen = await preflight.choose_sandbox(experiment_of(model, kind="namespaces"), told.append)
    assert isinstance(chosen, Weak)
    assert len(told) == count
    assert all("namespaces cannot fully enforce limits here: memory: limited for each process" in each for each in told)
