"""The programs of an experiment before it runs: found, installed, of a known version, and fit for their arms."""

from pathlib import Path

import msgspec

from recorder.values import prompt_state_and_channel
from runners.benchmarks.protocol import Benchmark
from runners.errors import ExperimentError
from runners.experiment import AgentSpec, Experiment
from runners.external.entries import found_version, resolved


def with_programs(experiment: Experiment, base: Path) -> Experiment:
    """Return an experiment whose programs are entries with the version that is there now.

    Args:
        experiment: As it was decoded.
        base: The folder of its file.

    Raises:
        ExperimentError: A program is unknown, not installed, or does not say its version.
    """
    agents = tuple(_with_program(index, agent, base) for index, agent in enumerate(experiment.agents))
    return msgspec.structs.replace(experiment, agents=agents)


def check_programs(experiment: Experiment, benchmark: Benchmark) -> None:
    """Refuse programs where they cannot work.

    Raises:
        ExperimentError: The benchmark's tasks need its own tools, or an arm asks and a program cannot.
    """
    for index, agent in enumerate(experiment.agents):
        if agent.external is None:
            continue
        key = f"key 'agents[{index}].program'"
        if not getattr(benchmark, "takes_programs", False):
            raise ExperimentError(
                f"{key}: the tasks of {benchmark.name} need its own tools, and a program cannot have them; remove it"
            )
        conditions = agent.conditions or experiment.conditions
        asking = [each for each in conditions if prompt_state_and_channel(each)[1] == "ask_user"]
        if asking and agent.external.ask_user == "none":
            raise ExperimentError(
                f'{key}: {agent.name} cannot ask (its entry says ask_user = "none"), and {asking[0]} needs it; give '
                "the agent 'conditions' of its own"
            )


def check_versions(experiment: Experiment) -> None:
    """Refuse to run programs that are no longer what was planned.

    Raises:
        ExperimentError: A version has changed.
    """
    for agent in experiment.agents:
        program = agent.external
        now = found_version(program) if program else None
        if program and now != program.found_version:
            raise ExperimentError(
                f"agent {agent.name}: its program was {program.found_version!r} when the trials were planned and is "
                f"{now!r} now, which makes other trials; run the same command again to plan them"
            )


def _with_program(index: int, agent: AgentSpec, base: Path) -> AgentSpec:
    if agent.program is None:
        return agent
    try:
        return msgspec.structs.replace(agent, program=resolved(agent.program, base))
    except ExperimentError as error:
        raise ExperimentError(f"key 'agents[{index}].program': {error}") from error
