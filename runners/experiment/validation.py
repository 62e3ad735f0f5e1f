"""Checks the keys of an experiment file and of a program's entry beyond their types.

Types and defaults are in ``tables.py`` and ``program.py``. Checks that need prices, API keys, a benchmark or a sandbox
are in ``runners/runs/preflight.py``. A benchmark checks its own keys in its
``benchmark.py``.
"""

import math
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.events.values import CONDITIONS, LATE_ANSWERS, is_own_condition
from lhaw_record.recorder.storage.store import check_experiment_id
from lhaw_record.recorder.wording import did_you_mean
from lhaw_record.runners.experiment.program import (
    ASKING,
    FOUND,
    PLACEHOLDERS,
    AcpSpec,
    AskingSpec,
    BuiltInSpec,
    InstallSpec,
    ProgramSpec,
    parts_of,
    placeholders_in,
    templates_of,
)
from lhaw_record.runners.experiment.tables import AgentSpec, Experiment, ResponseSpec, SandboxSpec, StoreSpec

_OF_ASKING = frozenset({"mcp_url", "mcp_bridge"})
_OF_A_PROMPT = frozenset({"prompt", "prompt_file"})
_OF_A_START = (
    "command",
    "resume",
    "environment",
    "files",
    "asking",
    "built_in",
    "host",
    "mounts",
    "install",
    "version",
)
_MOST_LOOKS = 20
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESPONSE = re.compile(r"[a-z0-9_]+")
_PINNED = {"pip": re.compile(r"[^=<>~! ]+==[^=<>~! ]+"), "npm": re.compile(r"@?[^@ ]+@[0-9][^@ ]*")}


def experiment_problems(experiment: Experiment) -> Iterator[str]:
    """Yield a sentence for each mistake in an experiment, with its key and the remedy."""
    try:
        check_experiment_id(experiment.name)
    except StoreError as error:
        yield f"key 'name': {error}"
    yield from _condition_problems(experiment)
    yield from _agent_problems(experiment)
    origin = experiment.benchmark.variants_from
    if isinstance(origin, StoreSpec) and (origin.selection is None) == (origin.experiment is None):
        yield "key 'benchmark.variants_from': a store needs either 'selection' or 'experiment' with it"
    for key, value in (("trials", experiment.trials), ("concurrency", experiment.concurrency)):
        if value < 1:
            yield f"key '{key}': must be at least 1"
    yield from _reasoning_problems(experiment)
    yield from _session_problems(experiment)
    yield from _stop_problems(experiment)
    if experiment.seeds is not None and len(experiment.seeds) < experiment.trials:
        yield f"key 'seeds': {experiment.trials} trials need as many seeds, but {len(experiment.seeds)} are given"
    yield from _sandbox_problems(experiment.sandbox)
    yield from _limit_problems(experiment)
    if experiment.user_simulator.kind == "llm" and experiment.user_simulator.llm is None:
        yield "key 'user_simulator.llm': the llm simulator needs a model; add [user_simulator.llm] with model = ..."
    if experiment.user_simulator.kind == "llm" and experiment.user_simulator.matcher != "rules":
        yield "key 'user_simulator.matcher': the llm simulator reads questions with its model; leave the key out"
    if experiment.grader.kind == "judge" and experiment.grader.judge is None:
        yield "key 'grader.judge': a judge needs a model; add [grader.judge] with model = ..."


def _limit_problems(experiment: Experiment) -> Iterator[str]:
    if experiment.limits.max_user_turns < 0:
        yield "key 'limits.max_user_turns': must be at least 0"
    for key in ("max_actions", "tool_start_seconds", "tool_message_mb", "tool_result_kb"):
        if (limit := getattr(experiment.limits, key)) is not None and limit < 1:
            yield f"key 'limits.{key}': at least 1; leave it out for {'no limit' if 'max' in key else 'the default'}"
    names = list(dict.fromkeys(spec.model for _, spec in experiment.models()))
    for pattern, limit_usd in experiment.budget.models.items():
        if not any(fnmatchcase(name, pattern) for name in names):
            yield f"key 'budget.models': {pattern!r} names none of the experiment's models: {', '.join(names)}"
        if limit_usd <= 0:
            yield f"key 'budget.models': {pattern!r} needs more than 0 USD; leave it out for no limit"


def _reasoning_problems(experiment: Experiment) -> Iterator[str]:
    for key, spec in experiment.models():
        for name, parameter in (("effort", "reasoning_effort"), ("thinking_tokens", "thinking")):
            if getattr(spec, name) is not None and parameter in spec.parameters:
                yield f"key '{key}.{name}': parameters.{parameter} sets the same value; remove one of them"
            if name in spec.parameters:
                yield f"key '{key}.parameters.{name}': few providers support this name; write {name} next to 'model'"
        if spec.thinking_tokens is not None and spec.thinking_tokens < 1:
            yield f"key '{key}.thinking_tokens': must be at least 1"


def _agent_problems(experiment: Experiment) -> Iterator[str]:
    names = [agent.name for agent in experiment.agents]
    if not names:
        yield "key 'agents': name at least one agent in an [[agents]] table"
    for name in names:
        if name == "all":
            yield "key 'agents': 'all' stands for all agents together in the tables; give the agent another name"
        if names.count(name) > 1:
            yield f"key 'agents': two agents are named {name!r}; give each its own name"
    for index, agent in enumerate(experiment.agents):
        if isinstance(agent.program, ProgramSpec):
            yield from (f"agents[{index}].program, {problem}" for problem in program_problems(agent.program))
        if agent.program is None and agent.asks_by == "built_in":
            yield f'key \'agents[{index}].asks_by\': the native agent asks by "mcp", "prose" or "none"'
        yield from _route_problems(f"agents[{index}].models", agent)
        conditions = agent.conditions or experiment.conditions
        injected = [condition for condition in conditions if needs_budget(condition, experiment)]
        if injected and "full" not in conditions:
            yield f"key 'conditions': {injected[0]} needs the action budget of 'full' trials; add \"full\""


def _route_problems(key: str, agent: AgentSpec) -> Iterator[str]:
    if agent.models and agent.program is None:
        yield f"key '{key}': only a program asks for models by name; remove it, or name the 'program'"
    patterns = list(agent.models)
    for position, (pattern, spec) in enumerate(agent.routed.items()):
        if not pattern or not spec.model:
            yield f"key '{key}': {pattern!r} = {spec.model!r}; write NAME = MODEL, neither of them empty"
        hiding = next((each for each in patterns[:position] if fnmatchcase(pattern, each)), None)
        if hiding is not None:
            yield f"key '{key}': {pattern!r} is never reached, because {hiding!r} comes first; put it before that"


def _session_problems(experiment: Experiment) -> Iterator[str]:
    if experiment.sessions is None:
        return
    if experiment.sessions < 1:
        yield "key 'sessions': must be at least 1"
    if experiment.seeds is not None:
        yield "key 'seeds': the index of a session is its seed; remove one of 'seeds' and 'sessions'"
    own = [each for agent in experiment.agents for each in agent.conditions or ()]
    if any(needs_budget(each, experiment) for each in (*own, *experiment.conditions)):
        yield "key 'sessions': an injection needs the 'full' trials of its own cell; use 'trials' instead"


def _stop_problems(experiment: Experiment) -> Iterator[str]:
    stop, names = experiment.stop_when_shown, [agent.name for agent in experiment.agents]
    if stop is None:
        return
    if stop.agent not in (names if len(names) != 1 else [None, *names]):
        yield f"key 'stop_when_shown.agent': name one of {', '.join(names)}, whose gain from asking is tested"
    for agent in experiment.agents:
        lacking = {"underspecified", "ask_user"}.difference(agent.conditions or experiment.conditions)
        if agent.name == stop.agent or (stop.agent is None and lacking):
            yield from (f"key 'stop_when_shown': {agent.name} needs the condition {each!r}" for each in sorted(lacking))
    if not 1 <= stop.looks <= _MOST_LOOKS:
        yield f"key 'stop_when_shown.looks': must be from 1 to {_MOST_LOOKS}"
    if stop.max_tasks is not None and stop.max_tasks < max(1, stop.looks):
        yield "key 'stop_when_shown.max_tasks': at least one task for each look"


def _sandbox_problems(sandbox: SandboxSpec) -> Iterator[str]:
    for key in ("image", "cpus"):
        if sandbox.kind != "docker" and getattr(sandbox, key):
            yield f"key 'sandbox.{key}': this key is for docker only; remove it, or set sandbox.kind = \"docker\""
    if sandbox.cpus is not None and not 0.01 <= sandbox.cpus <= 1024:
        yield f"key 'sandbox.cpus': {sandbox.cpus:g} is not a number of processors from 0.01 to 1024"


def needs_budget(condition: str, experiment: Experiment) -> bool:
    """Return whether a condition needs the action budget of ``full`` trials."""
    response = experiment.response_of(condition)
    return condition.startswith("inject_") or (response is not None and response.after_percent is not None)


def _condition_problems(experiment: Experiment) -> Iterator[str]:
    known = (*CONDITIONS, *(LATE_ANSWERS + name for name in experiment.responses))
    for index, agent in enumerate(experiment.agents):
        yield from _unknown_conditions(f"agents[{index}].conditions", agent.conditions or (), known)
    yield from _unknown_conditions("conditions", experiment.conditions, known)
    for name, response in experiment.responses.items():
        yield from _response_problems(f"responses.{name}", name, response)


def _unknown_conditions(key: str, conditions: tuple[str, ...], known: tuple[str, ...]) -> Iterator[str]:
    for condition in conditions:
        if conditions.count(condition) > 1:
            yield f"key '{key}': {condition!r} occurs twice; remove one"
        if condition not in known:
            meant = did_you_mean(condition, known)
            table = f"; add a table [responses.{condition.removeprefix(LATE_ANSWERS)}]" * is_own_condition(condition)
            yield f"key '{key}': unknown condition {condition!r}{table or meant}; known: {', '.join(known)}"


def _response_problems(key: str, name: str, response: ResponseSpec) -> Iterator[str]:
    if not _RESPONSE.fullmatch(name):
        yield f"key '{key}': use small letters, digits and '_', because the name becomes part of a condition"
    times = {each: getattr(response, each) for each in ("after_actions", "after_percent", "after_seconds")}
    given = [each for each, time in times.items() if time is not None]
    if len(given) > 1:
        yield f"key '{key}': {' and '.join(given)} both set when the user responds; remove one of them"
    if not given and response.state == "late":
        yield f"key '{key}': set the delay with one of {', '.join(times)}"
    if response.comes_as_message and response.state not in ("late", "timed_out"):
        yield f"key '{key}.{given[0]}': {response.state} is the result of the question itself; use after_seconds"
    for each in given:
        if not 0 < times[each] < (101 if each == "after_percent" else math.inf):
            yield f"key '{key}.{each}': {times[each]} is out of range; it must be above 0" + " up to 100" * (
                each == "after_percent"
            )


def program_problems(spec: ProgramSpec) -> Iterator[str]:
    """Yield a sentence for each mistake in a program's entry, with its key and the remedy."""
    for key in FOUND:
        if getattr(spec, key) is not None:
            yield f"key '{key}': planning an experiment sets this key; remove it"
    yield from _start_problems(spec)
    yield from _template_problems(spec)
    yield from _name_problems(spec)
    kind, _, path = spec.answer.partition(":")
    if spec.answer not in ("last_message", "stdout") and (kind != "file" or _leads_out(path)):
        yield f"key 'answer': {spec.answer!r} is not last_message, stdout or file:PATH (below the work directory)"
    yield from _asking_problems(spec)
    if (problem := spec.threads.problem()) is not None:
        yield f"key 'threads.main': {problem}"
    for kind, wanted in _PINNED.items():
        for package in getattr(spec.install, kind):
            if not wanted.fullmatch(package):
                yield f"key 'install.{kind}': {package!r} is not pinned; write its exact version"
    if spec.install.pip and spec.command and spec.command[0] in ("python", "python3"):
        yield f"key 'command': {spec.command[0]} cannot import the packages of install.pip; write {{bin}}/python"


def _asking_problems(spec: ProgramSpec) -> Iterator[str]:
    if spec.asks_by == "none" and spec.host == "process" and (spec.asking != AskingSpec() or spec.ask_user_tool):
        yield 'key \'asks_by\': it is "none", but the entry says how it asks; set it to "mcp" or remove the rest'
    yield from medium_problems(spec)
    if spec.host == "process" and (spec.acp != AcpSpec() or spec.built_in != BuiltInSpec()):
        yield 'key \'host\': it is "process", but the entry has [acp] or [built_in]; set it to "acp" or remove these'
    if spec.host == "acp" and spec.resume:
        yield "key 'resume': an agent over ACP continues its session by itself; remove it"
    if spec.host == "acp" and any(_OF_A_PROMPT & placeholders_in(text) for _, text in templates_of(spec)):
        yield "key 'command': an agent over ACP gets its prompt in its session; remove {prompt} and {prompt_file}"


def medium_problems(spec: ProgramSpec) -> Iterator[str]:
    """Yield a sentence if nobody would answer a program that asks as it is told to."""
    if spec.asks_by == "prose" and spec.leased:
        yield 'key \'asks_by\': a leased agent gets one prompt and no answer in prose; use "mcp" or "none"'
    elif spec.asks_by == "prose" and not spec.goes_on:
        yield (
            "key 'asks_by': \"prose\" needs a program that continues its session; set resume = [...] to the "
            "command for this, with the user's turn as its prompt"
        )
    if spec.asks_by == "built_in" and (spec.host != "acp" or not spec.built_in.tool):
        yield 'key \'asks_by\': "built_in" needs host = "acp", and the name of the program\'s own tool in built_in.tool'


def _start_problems(spec: ProgramSpec) -> Iterator[str]:
    if not spec.leased:
        if not spec.command:
            yield "key 'command': name the program and its arguments"
        return
    for key in _OF_A_START:
        if getattr(spec, key) != getattr(ProgramSpec(), key):
            yield f"key '{key}': the entry is leased, so nothing is started here; remove it"
    if spec.answer == "stdout":
        yield "key 'answer': the output of a leased agent is not available here; use last_message or file:PATH"


def _name_problems(spec: ProgramSpec) -> Iterator[str]:
    for prefix, part in parts_of(spec):
        for name in part.environment:
            if not _VARIABLE.fullmatch(name):
                yield f"key '{prefix}environment': {name!r} is not a name of an environment variable"
        for name in part.files:
            if _leads_out(name):
                yield f"key '{prefix}files': {name!r} must be a path below HOME, without '..'"
    for mount in spec.mounts:
        if not mount.startswith(("/", "~/")):
            yield f"key 'mounts': {mount!r} must be an absolute path of this machine"


def _template_problems(spec: ProgramSpec) -> Iterator[str]:
    others = {f"version[{index}]": text for index, text in enumerate(spec.version)}
    others |= {f"resume[{index}]": text for index, text in enumerate(spec.resume) if text != ASKING}
    for key, text in (*templates_of(spec), *others.items()):
        try:
            found = placeholders_in(text)
        except ValueError as error:
            yield f"key '{key}': {str(error).lower()}; write a literal brace twice"
            return
        known = {"bin"} if key.startswith("version") else set(PLACEHOLDERS)
        unknown = sorted(found - known)
        if unknown:
            words = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS if name in known)
            yield f"key '{key}': unknown placeholder {{{unknown[0]}}}; known: {words}; write {{{{ for a brace"
            return
        if "bin" in found and spec.install == InstallSpec():
            yield f"key '{key}': {{bin}} is the folder of installed packages, and the entry has no [install]"
        if found & _OF_ASKING and not key.startswith("asking."):
            yield f"key '{key}': {{{min(found & _OF_ASKING)}}} exists only in arms with ask_user; move it to [asking]"


def _leads_out(path: str) -> bool:
    return not path or path.startswith(("/", "~")) or ".." in Path(path).parts
