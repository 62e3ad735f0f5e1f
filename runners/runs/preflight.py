"""Checks what could stop an experiment before its first trial: unknown models, missing keys and prices, the sandbox.

Mistakes that are visible in the file alone are found when it is decoded (``runners/experiment/validation.py``).
"""

import os
import resource
from collections import defaultdict
from collections.abc import Callable, Iterator

import msgspec

from lhaw_record.runners.agents.scripted import ARCHETYPES
from lhaw_record.runners.base.errors import BoundaryError, ExperimentError
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark
from lhaw_record.runners.environments.sandboxes.docker.config import DockerImage
from lhaw_record.runners.environments.sandboxes.docker.provider import DockerSandboxProvider
from lhaw_record.runners.environments.sandboxes.kinds import isolation_problem, provider, remedy
from lhaw_record.runners.environments.sandboxes.protocol import SandboxProvider
from lhaw_record.runners.experiment.tables import AgentSpec, Experiment, ModelSpec
from lhaw_record.runners.models.costs import reports_cost
from lhaw_record.runners.models.litellm_library import key_problem, missing_credentials, provider_of, qualified_name
from lhaw_record.runners.models.replay import REPLAY_MODELS
from lhaw_record.runners.runs.planning.plan import Plan
from lhaw_record.runners.runs.planning.plan_table import list_prices

_OWN_FILES, _TRIAL_FILES = 64, 16  # measured: 13 and 9 with scripted models; models and listeners need connections
_INSIDE_FILES = 256  # needed inside a sandbox: its driver avoids the descriptors that scripts use
_OWN_MB, _TRIAL_MB = 1536, 16  # of address space, most of it reserved by threads and never used


class Refusals:
    """Collects what would stop a run, so that it is told at once. Each check runs in a ``with`` block of its own."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        is_refusal = isinstance(error, ExperimentError | BoundaryError)
        self._found += [str(error)] if is_refusal else []
        return is_refusal

    def raise_all(self) -> None:
        if self._found:
            raise ExperimentError("\n  ".join(self._found))


def check_scripted_names(experiment: Experiment) -> None:
    """Refuse unknown scripted models, and scripted models in a role that only real models can have."""
    known = (*ARCHETYPES, *REPLAY_MODELS)
    for key, spec in experiment.models():
        if not spec.is_scripted:
            continue
        if not isinstance(spec, AgentSpec):
            raise ExperimentError(f"key '{key}.model': {spec.model} can only be an agent; name a real model here")
        if spec.model not in known:
            raise ExperimentError(
                f"key '{key}.model': there is no scripted model {spec.model!r}; known: {', '.join(known)}"
            )


def missing_keys(experiment: Experiment) -> list[str]:
    return [sentence for key, spec in experiment.models() for sentence in _missing(key, spec)]


def check_keys(experiment: Experiment) -> None:
    if lacking := missing_keys(experiment):
        raise ExperimentError("\n  ".join(lacking) + "; set it, then run the same command again")


def unpriced_models(experiment: Experiment) -> list[tuple[str, str]]:
    """Return the real models of the experiment whose replies have no known cost, each with its key in the file."""
    return [
        (key, spec.model)
        for key, spec in experiment.models()
        if not spec.is_scripted and list_prices(spec) is None and not reports_cost(spec.model, spec.api_base)
    ]


def _missing(key: str, spec: AgentSpec | ModelSpec) -> list[str]:
    if spec.is_scripted:
        return []
    if spec.api_key_env:
        problem = key_problem(os.environ.get(spec.api_key_env))
        return [f"key '{key}.api_key_env': the environment variable {spec.api_key_env} {problem}"] if problem else []
    problems = [
        f"key '{key}.model': {spec.model} needs the environment variable {name}"
        for name in missing_credentials(spec.model, spec.api_base)
    ]
    variable = f"{(provider_of(qualified_name(spec.model, spec.api_base)) or ('',))[0].upper()}_API_KEY"
    if (own := os.environ.get(variable)) and (problem := key_problem(own)):
        problems.append(f"key '{key}.model': the environment variable {variable} {problem}")
    return problems


def check_prices(experiment: Experiment) -> None:
    limits = msgspec.structs.asdict(experiment.budget)
    limited = [name for name, limit in limits.items() if limit not in (None, {})]
    unpriced = unpriced_models(experiment)
    if limited and unpriced:
        key, model = unpriced[0]
        raise ExperimentError(
            f"key 'budget.{limited[0]}' limits the cost, but the price of {model} is unknown; set '{key}.price': "
            "price = { input_usd_per_million_tokens = ..., output_usd_per_million_tokens = ... } (0 if it is free)"
        )


def check_sandbox(experiment: Experiment, benchmark: Benchmark) -> None:
    needed = benchmark.needs_sandbox
    if needed not in (None, experiment.sandbox.kind):
        raise ExperimentError(f"key 'sandbox.kind': {benchmark.name} runs in {needed} only; set it to {needed!r}")


def check_image(experiment: Experiment, benchmark: Benchmark) -> None:
    sandbox, has_own = experiment.sandbox, benchmark.has_own_images
    if benchmark.tools_over_mcp == "all" and any(agent.external for agent in experiment.agents):
        has_own = False  # a program works beside what the task's image serves
    if sandbox.kind == "docker" and not sandbox.image and not has_own:
        raise ExperimentError(
            "key 'sandbox.image': docker needs an image with python3 and bash; docs/sandboxes.md says how to make one"
        )


def refuse_leased(experiment: Experiment) -> None:
    """Refuse leased agents, where no daemon leases their trials."""
    leased = next((each.name for each in experiment.agents if each.external and each.external.leased), None)
    if leased is not None:
        raise ExperimentError(
            f"agent {leased} is leased from the daemon: start 'lhaw-record serve', submit this file, and take its "
            "trials with 'lhaw-record attach'"
        )


async def choose_sandbox(experiment: Experiment, report: Callable[[str], None]) -> SandboxProvider:
    """Return the provider of an experiment's sandboxes.

    If no isolating sandbox is available here, ``auto`` means a plain process, where that is allowed.
    """
    kind = experiment.sandbox.kind
    real = [
        f"program {agent.external.title}" if agent.external else agent.model
        for agent in experiment.agents
        if agent.external or not agent.is_scripted
    ]
    problem = await isolation_problem() if kind == "auto" else None
    if problem is not None and (not real or experiment.sandbox.allow_unisolated):
        kind = "process"
        report(f"no sandbox works here yet; before a real model runs commands: {remedy()}")
    elif problem is not None:
        raise ExperimentError(
            f"key 'sandbox.kind': {real[0]} would run commands on this machine without isolation; "
            f"{remedy()} (or set sandbox.allow_unisolated = true if this machine may be harmed): {problem}"
        )
    if kind == "process" and real and not experiment.sandbox.allow_unisolated:
        raise ExperimentError(
            f"key 'sandbox.kind': {real[0]} would run commands on this machine without isolation; use kind = "
            '"auto", or set sandbox.allow_unisolated = true if this machine may be harmed'
        )
    image = DockerImage(name=experiment.sandbox.image or "", cpus=experiment.sandbox.cpus) if kind == "docker" else None
    heard = report if real or image else lambda _: None  # weak limits matter where somebody may exceed them
    return await provider(kind, image, heard)


def room_notes(plan: Plan, benchmark: Benchmark, sandbox: SandboxProvider, sandbox_mb: int) -> Iterator[str]:
    """Yield a line about the planned tasks that need more memory than this machine has for sandboxes, by their need."""
    if not isinstance(sandbox, DockerSandboxProvider):
        return
    needs = {task_id: benchmark.memory_mb(task_id, sandbox_mb) for task_id in {t.task.task_id for t in plan.trials}}
    by_need: defaultdict[int, list[str]] = defaultdict(list)
    for task_id, need_mb in sorted(needs.items()):
        if not sandbox.room.fits(need_mb):
            by_need[need_mb].append(task_id)
    lines = [
        f"{len(task_ids)} of {len(needs)} tasks need {need_mb} MB each, and this machine has "
        f"{sandbox.room.capacity_mb} MB for sandboxes: {', '.join(task_ids[:3])}"
        f"{', …' if len(task_ids) > 3 else ''} cannot run here; lower limits.memory_mb or the memory_mb of services"
        for need_mb, task_ids in sorted(by_need.items())
    ]
    if needs and sum(len(task_ids) for task_ids in by_need.values()) == len(needs):
        raise ExperimentError(lines[0])
    yield from lines


def check_shell_limits(concurrency: int) -> None:
    """Raise this process's soft limit of open files if it is too low; refuse to start if a hard limit is too low."""
    files = max(_INSIDE_FILES, _OWN_FILES + _TRIAL_FILES * concurrency)
    _raise_limit(
        resource.RLIMIT_NOFILE,
        files,
        f"open files, and {concurrency} trials at a time need {files}: run `ulimit -n {files}` first (as root where it "
        "is refused), or fewer at a time with --concurrency",
    )
    needed_mb = _OWN_MB + _TRIAL_MB * concurrency
    _raise_limit(
        resource.RLIMIT_AS,
        needed_mb << 20,
        f"MB of address space, and {concurrency} trials at a time need {needed_mb}: start from a shell with "
        "`ulimit -v unlimited`; limits.memory_mb limits the agents",
        unit=1 << 20,
    )


def _raise_limit(kind: int, needed: int, problem: str, *, unit: int = 1) -> None:
    soft, hard = resource.getrlimit(kind)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise ExperimentError(f"this shell allows {hard // unit} {problem}")
        raised = hard if kind == resource.RLIMIT_AS else needed  # the memory requirement is a rough estimate
        resource.setrlimit(kind, (raised, hard))
