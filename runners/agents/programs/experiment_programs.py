"""Checks the programs of an experiment before it runs: are they installed, unchanged, and able to run their arms?"""

from pathlib import Path

import msgspec

from lhaw_record.recorder.events.values import prompt_state_and_channel
from lhaw_record.runners.agents.programs.entries import found_content, found_version, resolved, shown_folders
from lhaw_record.runners.agents.programs.installation import AGENTS_VARIABLE
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark
from lhaw_record.runners.environments.sandboxes.driver_program import conflicting_folder
from lhaw_record.runners.experiment.program import AsksBy, ProgramSpec
from lhaw_record.runners.experiment.tables import AgentSpec, Experiment
from lhaw_record.runners.experiment.validation import medium_problems


def with_programs(experiment: Experiment, base: Path) -> Experiment:
    """Return the experiment with each program resolved to its entry and installed version."""
    agents = tuple(_with_program(index, agent, base) for index, agent in enumerate(experiment.agents))
    return msgspec.structs.replace(experiment, agents=agents)


def check_programs(experiment: Experiment, benchmark: Benchmark) -> None:
    """Reject an experiment whose programs cannot run their trials."""
    for index, agent in enumerate(experiment.agents):
        key = f"key 'agents[{index}].program'"
        conditions = agent.conditions or experiment.conditions
        asking = [each for each in conditions if prompt_state_and_channel(each)[1] == "ask_user"]
        medium = agent.medium
        if asking and medium == "none":
            raise ExperimentError(
                f'{key}: {agent.name} cannot ask (asks_by = "none"), but {asking[0]} needs it; set how it asks ("mcp" '
                "with [asking], or \"prose\" with resume: docs/asking.md), or give it its own 'conditions'"
            )
        if asking and medium in ("built_in", "prose") and experiment.ask_notice != "none":
            how = "by its own tool" if medium == "built_in" else "in prose"
            raise ExperimentError(
                f"key 'ask_notice': it tells {agent.name} to use ask_user, but this agent asks {how}; remove one"
            )
        responding = [each for each in asking if experiment.response_of(each)]
        late = [each for each in responding if (said := experiment.response_of(each)) and said.comes_as_message]
        if late and medium == "prose":
            raise ExperimentError(
                f"key 'agents[{index}].asks_by': {late[0]} answers some actions later, but {agent.name} ends its "
                f"turn to ask, so there are none; set after_seconds in that table, or give the agent its own "
                f"'conditions'"
            )
        if agent.external is None:
            continue
        if benchmark.why_no_programs:
            raise ExperimentError(
                f"{key}: {benchmark.name} cannot run programs: {benchmark.why_no_programs}; remove 'program' from "
                f"{agent.name}, or choose another benchmark"
            )
        if late:
            raise ExperimentError(
                f"{key}: {late[0]} answers {agent.name} in a message while it works, but a program that runs as a "
                f"process gets none; set after_seconds in that table, or give the agent its own 'conditions'"
            )
        if responding and agent.external.asks_by == "built_in":
            raise ExperimentError(
                f"{key}: {responding[0]} needs agents that ask with ask_user, but {agent.name} asks with its own tool; "
                "give this agent its own 'conditions'"
            )
        if experiment.sandbox.kind != "process":
            _check_shown(key, agent.external)


def check_versions(experiment: Experiment) -> None:
    """Refuse to run programs that have changed since their trials were planned."""
    for agent in experiment.agents:
        program = agent.external
        if program is None:
            continue
        now = msgspec.structs.replace(
            program, found_version=found_version(program), found_content=found_content(program)
        )
        if now != program:
            raise ExperimentError(
                f"agent {agent.name}: its program was {program.title!r} when the trials were planned and is "
                f"{now.title!r} now, so its trials differ; run the same command again to plan them"
            )


def _check_shown(key: str, program: ProgramSpec) -> None:
    for path in shown_folders(program):
        folder = conflicting_folder(path)
        if folder is not None:
            raise ExperimentError(
                f"{key}: a sandbox has its own {folder}, so it cannot mount {path} of this machine; move the path, "
                f"or remove it from 'mounts' ({AGENTS_VARIABLE} names the folder of installed programs)"
            )


def _with_program(index: int, agent: AgentSpec, base: Path) -> AgentSpec:
    if agent.program is None:
        return agent
    try:
        program = _asking_by(agent.asks_by, resolved(agent.program, base))
        if program.leased:  # the agent's name is all that is known of what runs elsewhere
            program = msgspec.structs.replace(program, name=agent.name)
        return msgspec.structs.replace(agent, program=program)
    except ExperimentError as error:
        raise ExperimentError(f"key 'agents[{index}].program': {error}") from error


def _asking_by(medium: AsksBy | None, program: ProgramSpec) -> ProgramSpec:
    """Return a program that asks as its agent says, or else as its entry says."""
    program = msgspec.structs.replace(program, asks_by=medium or program.asks_by)
    problem = next(medium_problems(program), None)
    if problem is not None:
        raise ExperimentError(problem)
    return program
