"""``lhaw-record agents test``: one trial of a program, planned for itself and kept nowhere."""

from pathlib import Path

import msgspec

from lhaw_record.runners.agents.programs.entries import entry_path, load_entry
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.decoding import load_experiment
from lhaw_record.runners.experiment.tables import AgentSpec, BenchmarkSpec, Experiment
from lhaw_record.runners.runs.planning.plan import Plan
from lhaw_record.runners.runs.preparation import PreparedExperiment, prepare_experiment

NAME = "agents-test"
_DESK = Experiment(
    name=NAME,
    benchmark=BenchmarkSpec(name="desk", tasks=("log-triage",)),
    agents=(AgentSpec(name="none", model="none"),),
    conditions=("full",),
)


def planned_test(entry: str, model: str, condition: str, file: Path | None) -> PreparedExperiment:
    """Plan the first trial of an entry."""
    path = entry_path(entry, Path())
    program = str(path.resolve()) if entry.endswith(".toml") else entry
    agent = AgentSpec(name=load_entry(entry, Path()).name, model=model, program=program)
    described = _DESK if file is None else load_experiment(file)
    experiment = msgspec.structs.replace(
        described,
        name=NAME,
        agents=(agent,),
        conditions=(condition,),
        trials=1,
        retry=msgspec.structs.replace(described.retry, max_attempts=1),
    )
    prepared = prepare_experiment(experiment, file or Path(f"{NAME}.toml"))
    if not prepared.plan.trials:
        raise ExperimentError(f"{prepared.path} plans no trial under {condition}; it may need variants")
    return msgspec.structs.replace(prepared, plan=Plan(trials=prepared.plan.trials[:1]))
