"""The single trials of ``lhaw-record wrap`` and ``lhaw-record agents test``."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lhaw_record.recorder.events.values import prompt_state_and_channel
from lhaw_record.runners.agents.programs.entries import entry_path, load_entry, python_of
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.decoding import load_experiment
from lhaw_record.runners.experiment.program import GATEWAY_VARIABLES, AskingSpec, ProgramSpec, placeholders_in
from lhaw_record.runners.experiment.tables import AgentSpec, BenchmarkSpec, Experiment, SandboxSpec
from lhaw_record.runners.experiment.validation import program_problems
from lhaw_record.runners.experiment.values import ThreadRules
from lhaw_record.runners.runs.planning.plan import Plan
from lhaw_record.runners.runs.preparation import PreparedExperiment, prepare_experiment, stored_index

WRAP_EXPERIMENT = "wrap"
_SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
_OF_THE_SANDBOX = ("python", "python3")
_OF_EVERY_SANDBOX = (Path("/usr"), Path("/bin"), Path("/etc"))
_ONLY_ASKING = frozenset({"mcp_url", "mcp_bridge"})
TEST_EXPERIMENT = "agents-test"
_DESK = Experiment(
    name=TEST_EXPERIMENT,
    benchmark=BenchmarkSpec(name="desk", tasks=("log-triage",)),
    agents=(AgentSpec(name="none", model="none"),),
    conditions=("full",),
)


class WrapOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``lhaw-record wrap``. The items of ``environment`` and ``threads`` have the form NAME=VALUE."""

    task: str
    variant: str | None
    condition: str | None
    model: str
    name: str | None
    environment: Sequence[str]
    mounts: Sequence[str]
    answer: str
    is_unisolated: bool
    threads: Sequence[str] = ()
    command: Sequence[str]


def next_trial(options: WrapOptions, root: Path) -> PreparedExperiment:
    """Plan the first trial of the cell that the store lacks.

    An injected trial also needs a ``full`` trial, so the first one is planned with it if none is finished.
    """
    experiment = _experiment(options)
    condition = experiment.conditions[-1]
    trials = 1
    while True:
        planned = prepare_experiment(
            msgspec.structs.replace(experiment, trials=trials), Path(f"{WRAP_EXPERIMENT}.toml")
        )
        index = stored_index(planned, root)
        of_cell = [trial for trial in planned.plan.trials if trial.condition == condition]
        if len(of_cell) != trials:
            raise ExperimentError(f"{condition} is not one cell of {options.task}: it plans {len(of_cell)} trials")
        wanted = next((trial for trial in of_cell if trial.trial_id not in index.finished), None)
        if wanted is not None:
            full = [trial for trial in planned.plan.trials if trial.condition == "full" and trial is not wanted]
            known = [trial for trial in full if trial.trial_id in index.finished]  # they keep the budget as it is
            first = [trial for trial in full if trial.trial_index == 0]
            chosen = (*known, *(first if wanted.inject_percent is not None and not known else ()), wanted)
            return msgspec.structs.replace(planned, plan=Plan(trials=chosen))
        trials += 1


def unseen_files(options: WrapOptions) -> list[Path]:
    """Return the files that the command names but an isolating sandbox does not show."""
    executable = _executable(options.command[0])
    shown = [*_OF_EVERY_SANDBOX, *(Path(each).resolve() for each in (*options.mounts, *_home_of(executable)))]
    named = options.command[1:]
    found = [Path(each).resolve() for each in named if os.path.isfile(each)]  # noqa: PTH113 - a text may be too long for a Path
    return [path for path in found if not any(path.is_relative_to(folder) for folder in shown)]


def _experiment(options: WrapOptions) -> Experiment:
    benchmark, _, task = options.task.partition("/")
    if not benchmark or not task:
        raise ExperimentError(f"--task {options.task!r} is not BENCHMARK/TASK; for example desk/log-triage")
    variant = options.variant
    if variant is not None and "/" not in variant:
        variant = f"{task}/{variant}"
    condition = options.condition or ("full" if variant is None else "underspecified")
    try:
        state, channel = prompt_state_and_channel(condition)
    except (KeyError, ValueError) as error:
        raise ExperimentError(
            f"--condition {condition!r} is unknown; 'lhaw-record wrap --help' has an example"
        ) from error
    if state != "full" and variant is None:
        raise ExperimentError(f"{condition} needs --variant, a variant of {options.task}")
    program = _program(options, has_ask_user=channel == "ask_user")
    spec = BenchmarkSpec(name=benchmark, tasks=(task,), variants=(variant,) if variant else ())
    return Experiment(
        name=WRAP_EXPERIMENT,
        benchmark=spec,
        agents=(AgentSpec(name=options.name or program.name, model=options.model, program=program),),
        conditions=("full", condition) if condition.startswith("inject_") else (condition,),
        sandbox=SandboxSpec(allow_unisolated=options.is_unisolated),
    )


def _program(options: WrapOptions, *, has_ask_user: bool) -> ProgramSpec:
    executable = _executable(options.command[0])
    own = dict(item.partition("=")[::2] for item in options.environment)
    arguments, environment = tuple(options.command[1:]), {**GATEWAY_VARIABLES, **own}
    spec = ProgramSpec(
        name=Path(executable).name,
        command=(executable, *arguments),
        environment=environment,
        answer=options.answer,
        asks_by="mcp",
        threads=_threads(options.threads),
        mounts=(*_home_of(executable), *(str(Path(mount).resolve()) for mount in options.mounts)),
    )
    texts = (*arguments, *environment.values())
    try:
        used = frozenset().union(*(placeholders_in(text) for text in texts))
    except ValueError:
        used = frozenset()  # reported below, with its key
    if has_ask_user and not used & {"mcp_config", *_ONLY_ASKING}:
        raise ExperimentError("the program is not told how to ask: put {mcp_config} or {mcp_url} into its command")
    if has_ask_user and used & _ONLY_ASKING:
        asking = AskingSpec(command=arguments, environment=environment)
        spec = msgspec.structs.replace(spec, command=(executable,), environment={}, asking=asking)
    problem = next(program_problems(spec), None)
    if problem is not None:
        raise ExperimentError(f"the command cannot be used: {problem}")
    return spec


def _threads(given: Sequence[str]) -> ThreadRules:
    try:
        return msgspec.convert(dict(item.partition("=")[::2] for item in given), ThreadRules)
    except msgspec.ValidationError as error:
        raise ExperimentError(f"--thread {' '.join(given)}: {error}; docs/gateway.md lists the keys") from error


def _executable(name: str) -> str:
    """Return the program as the sandbox finds it: its name if the sandbox has it too, else its path on this machine."""
    if name in _OF_THE_SANDBOX or ("/" not in name and shutil.which(name, path=_SYSTEM_PATH)):
        return name
    found = shutil.which(name)
    if found is None:
        raise ExperimentError(f"there is no program {name!r}; give its path")
    return str(Path(found).absolute())


def _home_of(program: str) -> tuple[str, ...]:
    """Return the paths that a sandbox must show for a program outside of the system folders.

    These are its virtual environment and the environment's interpreter, or else the program's own file.
    """
    executable = Path(program)
    if not executable.is_absolute():
        return ()
    folder = executable.parent.parent
    if (folder / "pyvenv.cfg").is_file():
        return (*(() if folder.is_relative_to("/usr") else (str(folder),)), *python_of(folder))
    found = {executable.parent / executable.name, executable.resolve()}
    return tuple(
        str(path) for path in sorted(found) if not path.is_relative_to("/usr") and not path.is_relative_to("/bin")
    )


def planned_test(entry: str, model: str, conditions: Sequence[str], file: Path | None) -> PreparedExperiment:
    """Plan one trial of an entry, under the first of some conditions that the task has trials of."""
    path = entry_path(entry, Path())
    program = str(path.resolve()) if entry.endswith(".toml") else entry
    agent = AgentSpec(name=load_entry(entry, Path()).name, model=model, program=program)
    described = _DESK if file is None else load_experiment(file)
    experiment = msgspec.structs.replace(
        described,
        name=TEST_EXPERIMENT,
        agents=(agent,),
        benchmark=msgspec.structs.replace(described.benchmark, allow_left_out=True),
        conditions=tuple(conditions),
        trials=1,
        retry=msgspec.structs.replace(described.retry, max_attempts=1),
    )
    prepared = prepare_experiment(experiment, file or Path(f"{TEST_EXPERIMENT}.toml"))
    first = min(prepared.plan.trials, key=lambda trial: conditions.index(trial.condition))
    return msgspec.structs.replace(prepared, plan=Plan(trials=(first,)))
