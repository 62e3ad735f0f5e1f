"""Makes an experiment file ready to run: decodes it, opens its benchmark and plans its trials."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lhaw_record.recorder.events.values import Variant
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.reading.trial_index import TrialIndex, load_trial_index
from lhaw_record.recorder.storage.store import has_store
from lhaw_record.recorder.writing.redaction import Redactor, given_secrets, secrets_of
from lhaw_record.runners.agents.programs.experiment_programs import check_programs, with_programs
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks import open_benchmark
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark
from lhaw_record.runners.experiment.decoding import load_experiment
from lhaw_record.runners.experiment.program import ProgramSpec
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.experiment.tables import Experiment
from lhaw_record.runners.runs.planning.designs import DesignedBenchmark, chosen, load_design
from lhaw_record.runners.runs.planning.looks import Looks, planned_looks
from lhaw_record.runners.runs.planning.plan import Plan, make_plan, refuse_left_out
from lhaw_record.runners.runs.planning.variant_sources import is_wanted, load_variants, not_here
from lhaw_record.runners.runs.preflight import check_image, check_scripted_names
from lhaw_record.runners.users.simulated_user.llm import simulator_identity


class PreparedExperiment(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment file with everything that is known before it runs.

    A study that stops when its gain is shown has ``looks``, and ``look`` is the number of the one that is due when the
    trials of ``plan`` are finished (0: none; see :func:`next_batch`).
    """

    path: Path
    experiment: Experiment
    benchmark: Benchmark
    prompts: Prompts
    plan: Plan
    looks: Looks | None = None
    look: int = 0


def prepare(path: Path) -> PreparedExperiment:
    return prepare_experiment(load_experiment(path), path)


def prepare_experiment(experiment: Experiment, path: Path) -> PreparedExperiment:
    base = path.resolve().parent
    with naming_file(path):
        experiment = with_programs(experiment, base)
        check_scripted_names(experiment)
        benchmark, variants = _offered(experiment, base)
        check_programs(experiment, benchmark)
        check_image(experiment, benchmark)
        prompts = Prompts(experiment, base, benchmark.system_prompt(), benchmark.program_prompt())
        plan = make_plan(experiment, benchmark, prompts, simulator_identity(experiment, prompts), variants)
        refuse_left_out(plan, experiment, benchmark)
        looks = planned_looks(experiment, plan)
        plan = looks.batch(plan, looks.stop.looks) if looks else plan
    return PreparedExperiment(
        path=path, experiment=experiment, benchmark=benchmark, prompts=prompts, plan=plan, looks=looks
    )


def next_batch(prepared: PreparedExperiment, index: TrialIndex) -> PreparedExperiment | None:
    """Return the experiment up to the next look: all of it if no look is planned, or None if the study is over."""
    if prepared.looks is None:
        return prepared
    with naming_file(prepared.path):
        look = prepared.looks.due(index.looks)
    if not look:
        return None
    return msgspec.structs.replace(prepared, plan=prepared.looks.batch(prepared.plan, look), look=look)


def _offered(experiment: Experiment, base: Path) -> tuple[Benchmark, Sequence[Variant]]:
    """Return the benchmark and the variants to choose from, or placeholders from a design if there are none here."""
    spec = experiment.benchmark
    design = load_design(spec.design, base, spec.name) if spec.design else None
    missing = not_here(spec, base)
    if design and missing:
        designed = DesignedBenchmark(spec.name, design, missing)
        return designed, designed.variants()
    benchmark = open_benchmark(spec.name, dict(spec.options), base, experiment.grader)
    variants = load_variants(spec, benchmark, base)
    if design is None:
        return benchmark, variants
    return benchmark, chosen(design, [each for each in variants if is_wanted(each, spec)], spec.design_seed)


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Put the path of the experiment file in front of the message of any ExperimentError."""
    try:
        yield
    except ExperimentError as error:
        raise type(error)(f"{path}: {error}") from error


def check_runnable(prepared: PreparedExperiment) -> None:
    """Refuse a plan that was made from a design alone, and one that should stop where nobody looks."""
    if prepared.looks is not None and not prepared.look:
        raise ExperimentError(
            f"{prepared.path}: only 'lhaw-record run' stops when a gain is shown; see stop_when_shown"
        )
    if isinstance(prepared.benchmark, DesignedBenchmark):
        raise ExperimentError(f"{prepared.path}: {prepared.benchmark.missing}")


def stored_index(prepared: PreparedExperiment, root: Path) -> TrialIndex:
    """Return what a store has recorded about an experiment. The index is empty if there is no store yet."""
    if not has_store(root):
        return TrialIndex(finished={}, failed={}, last_attempt={}, budgets=(), registered=frozenset(), spent_usd=0.0)
    return load_trial_index(read_snapshot(root), prepared.experiment.name)


def redactor_of(prepared: PreparedExperiment) -> Redactor:
    return Redactor(secrets_of(os.environ) | keys_of(prepared.experiment) | prepared.benchmark.secrets())


def keys_of(experiment: Experiment) -> frozenset[str]:
    """Return an experiment's secrets: its API keys, and those given to its programs."""
    named = [spec.api_key_env for _, spec in experiment.models() if spec.api_key_env]
    programs = [agent.program for agent in experiment.agents if isinstance(agent.program, ProgramSpec)]
    given = [given_secrets({**each.environment, **each.asking.environment}) for each in programs]
    return frozenset(value for name in named if (value := os.environ.get(name))).union(*given)
