"""The tables of an experiment file as structs, with every key and its default."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.values import LATE_ANSWERS, is_own_condition
from lhaw_record.runners.experiment.program import AsksBy, ProgramSpec
from lhaw_record.runners.experiment.values import Price, WireMode

LIMITS = ("max_tokens", "max_completion_tokens")
"""The names of the limit of a reply, in tokens."""
DEFAULT_MAX_TOKENS = 4096
"""The limit of a reply of a model whose replies are limited, unless the experiment file sets another."""
_LOOPS_AT_0 = r"qwq|qwen-?3(?!.*(?:instruct|coder|max))"
_TEMPERATURES: tuple[tuple[re.Pattern[str], int | None, int | None], ...] = tuple(
    (re.compile(rf"(?<![a-z0-9]){name}"), plain, reasoning)
    for name, plain, reasoning in (
        # 0 is accepted without reasoning: developers.openai.com/api/docs/guides/latest-model, "parameter compatibility"
        (r"gpt-5[.-][124](?!\d|-(?:chat|codex|pro))", 0, None),
        # platform.openai.com/docs/guides/reasoning; of the latest: litellm's table
        (r"(?:gpt-(?:[5-9]|(?!chat)[a-z]+-latest)(?!-chat)|o[134](?![a-z0-9]))", None, None),
        # platform.claude.com/docs/en/about-claude/models/migration-guide; .../build-with-claude/extended-thinking
        (r"claude-(?:opus-4[-.][7-9]|(?:opus|sonnet|haiku)-(?:[5-9]|\d\d)(?![a-z0-9])|fable|mythos)", None, None),
        (r"claude-(?:4[-.][7-9]-opus|(?:opus|sonnet|haiku)-latest)", None, None),  # names of the same elsewhere
        (r"claude", 0, None),
        # "only 1 is allowed for this model": platform.kimi.ai/docs/api/models-overview
        (r"kimi-(?:k2[-.p][5-9](?!\d)|k2-thinking|k[3-9]|latest)", 1, 1),
        # thinks unless told not to, and then ignores a temperature: api-docs.deepseek.com/guides/thinking_mode
        (r"deepseek-(?:reasoner|r\d|v[4-9])", None, None),
        # "DO NOT use greedy decoding ... endless repetitions" while it thinks: model card of Qwen3-8B; it has its own
        (rf"(?:{_LOOPS_AT_0})", None, None),
        (r"minimax-m\d", 1, 1),  # (0, 1], 1.0 recommended: platform.minimax.io/docs/api-reference/text-openai-api
        # "keep at 1.0", else loops: docs.cloud.google.com/vertex-ai/generative-ai/docs/start/gemini-3-prompting-guide
        (r"gemini-3(?![-.][2-9])(?!\d)", 1, 1),
        # litellm's table: supports_sampling_params is false; ai.google.dev/gemini-api/docs/whats-new-gemini-3.6
        (r"gemini-(?:[3-9]|\d\d)(?!\d)", None, None),
        (r"gemini-(?:pro|flash)-latest|codex-mini", None, None),
    )
)
"""The temperature that a model gets by its name, and while it reasons, where that is not 0. None: it takes none."""
Deferral = Literal["paper", "ask_again"]
DEFERRAL: Deferral = "ask_again"
"""What a simulated user says, unless the experiment file chooses, to a question that asks for nothing removed."""
ApiWire = Literal["chat", "responses", "messages", "gemini"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
SCRIPTED = "scripted/"
"""The prefix that marks the name of a scripted model."""
_REASONING = {"reasoning_effort", "thinking"}
NOT_RECORDED = "[not recorded]"
_PLACEHOLDERS = re.compile(r"(?:\{[a-z0-9_]+\}|[/:.])*")


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the tables of an experiment file. An unknown key is an error."""


class StoreSpec(_Table, frozen=True):
    """Which variants to take from a store: those of a selection, or all that an experiment registered."""

    store: str
    selection: str | None = None
    experiment: str | None = None


class BenchmarkSpec(_Table, frozen=True):
    """The benchmark, and which of its tasks and variants to run. None means all.

    ``variants_from`` names a dataset file or a store whose variants replace the benchmark's own. ``design`` chooses
    among the variants by counts and ``design_seed``. ``options`` has the keys that the benchmark itself defines.
    ``allow_left_out`` lets a run go without tasks that cannot run here, or have no variant; every table says so.
    """

    name: str
    tasks: tuple[str, ...] | None = None
    variants: tuple[str, ...] | None = None
    variants_from: str | StoreSpec | None = None
    design: str | None = None
    design_seed: int = 0
    allow_left_out: bool = False
    options: dict[str, Any] = msgspec.field(default_factory=dict)


class ModelSpec(_Table, frozen=True):
    """A model that plays an agent, the ``llm`` user simulator or a judge.

    ``effort`` and ``thinking_tokens`` say how much the model reasons before it replies. Each provider gets them in its
    own words. None leaves it to the provider.
    """

    model: str
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    effort: Effort | None = None
    thinking_tokens: int | None = None
    api_base: str | None = None
    api_key_env: str | None = None
    price: Price | None = None

    @property
    def is_scripted(self) -> bool:
        """Whether the model is one of our scripts, which needs no API key and has an invented price."""
        return self.model.startswith(SCRIPTED)

    @property
    def given_parameters(self) -> dict[str, Any]:
        effort = {} if self.effort is None else {"reasoning_effort": self.effort}
        budget = {"type": "enabled", "budget_tokens": self.thinking_tokens}
        return {**effort, **({} if self.thinking_tokens is None else {"thinking": budget}), **self.parameters}

    @property
    def generation_parameters(self) -> dict[str, Any]:
        """The generation parameters of the model in any role: the defaults, and those that the file sets.

        The temperature is 0 where the model takes that. A reply has no length limit by default if the model is hosted
        or asked to reason, because hidden reasoning would use it up. A server of the user's own would generate without
        end, so its replies are limited.
        """
        given = self.given_parameters
        is_limited = self.is_scripted or (self.api_base is not None and not given.keys() & _REASONING)
        own = {"temperature": default_temperature(self.model, is_reasoning=asks_to_reason(given))}
        if is_limited and not given.keys() & set(LIMITS):
            own["max_tokens"] = DEFAULT_MAX_TOKENS
        return {**{name: value for name, value in own.items() if value is not None}, **given}


def default_temperature(model: str, *, is_reasoning: bool) -> int | None:
    """Return the temperature to send to a model by default, or None to send none."""
    name = model.rpartition("/")[2].lower()
    found = ((plain, reasoning) for pattern, plain, reasoning in _TEMPERATURES if pattern.search(name))
    plain, reasoning = next(found, (0, 0))
    return reasoning if is_reasoning else plain


def loops(model: str, parameters: Mapping[str, Any]) -> bool:
    """Return whether a model with these parameters may repeat itself without end."""
    return parameters.get("temperature") == 0 and re.search(_LOOPS_AT_0, model.lower()) is not None


def asks_to_reason(parameters: Mapping[str, Any]) -> bool:
    """Return whether the parameters ask a model to think before it replies."""
    thinking = parameters.get("thinking")
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    return kind in ("enabled", "adaptive") or parameters.get("reasoning_effort") not in (None, "none")


class RoutedSpec(ModelSpec, frozen=True, kw_only=True):
    """A model that answers some of a program's requests, by the name of the model that they ask for.

    ``asks_by`` replaces that of the program's entry; the native agent asks by ``mcp``, ``prose`` or not at all.
    ``api_wires`` are the dialects that its server speaks; None for those that its provider is known to speak.
    """

    api_wires: tuple[ApiWire, ...] | None = None


class AgentSpec(ModelSpec, frozen=True, kw_only=True):
    """One agent of the experiment.

    ``price`` is for models that litellm's price table lacks, or lists at another price than yours. ``program`` is the
    name of a ready-made entry, the path of an entry's file, or an entry itself. It is None for the native agent.
    ``asks_by`` replaces that of the program's entry; the native agent asks by ``mcp``, ``prose`` or not at all.
    ``api_wires`` are as in RoutedSpec. ``models`` is the routing table of a program: a pattern of model names, and the
    model that answers requests for them. A text is a model's name alone.
    """

    name: str
    strategy: str = "none"
    persona: str = "none"
    role: Literal["evaluated", "classifier"] = "evaluated"
    conditions: tuple[str, ...] | None = None
    program: str | ProgramSpec | None = None
    asks_by: AsksBy | None = None
    api_wires: tuple[ApiWire, ...] | None = None
    models: dict[str, str | RoutedSpec] = msgspec.field(default_factory=dict)

    @property
    def routed(self) -> dict[str, "AgentSpec"]:
        """The agent with each model of its routing table in place of its own, by the pattern of names."""
        full = {
            pattern: RoutedSpec(model=model) if isinstance(model, str) else model
            for pattern, model in self.models.items()
        }
        return {
            pattern: msgspec.structs.replace(self, models={}, **msgspec.structs.asdict(model))
            for pattern, model in full.items()
        }

    @property
    def medium(self) -> AsksBy:
        """How it asks its user where it may, once the experiment is planned."""
        return (self.external or self).asks_by or "mcp"

    @property
    def external(self) -> ProgramSpec | None:
        """The program's entry, once the experiment is planned. It is None for the native agent."""
        assert not isinstance(self.program, str), "planning replaces the names of programs by their entries"
        return self.program


class LimitsSpec(_Table, frozen=True):
    """The limits of one trial.

    They are turns, turns of a user who answers in prose, actions (None for no limit), seconds in total and per
    command, memory in megabytes, processes, and megabytes of a single file. A tool server has ``tool_start_seconds``
    to list its tools, and one line of it ``tool_message_mb``; an agent reads ``tool_result_kb`` of a result (None: as
    much as its benchmark lets it).
    """

    max_turns: int = 60
    max_user_turns: int = 10
    max_actions: int | None = None
    max_seconds: float = 1800.0
    command_seconds: float = 60.0
    memory_mb: int = 1024
    processes: int = 128
    file_mb: int = 4096
    tool_start_seconds: float = 60.0
    tool_message_mb: int = 16
    tool_result_kb: int | None = None


class BudgetSpec(_Table, frozen=True):
    """The cost limits in USD: of one trial, which then ends with ``cost_limit``, and of the whole experiment.

    ``models`` limits what the experiment pays for models by a pattern of their names, such as ``openai/*``.
    """

    max_cost_usd: float | None = None
    max_cost_usd_per_trial: float | None = None
    models: dict[str, float] = {}


class RetrySpec(_Table, frozen=True):
    """How often a trial is attempted when infrastructure fails, and how a model request is repeated.

    ``patience_s`` limits the total time that one attempt may wait for infrastructure before it fails. After
    trials of an agent on ``same_failures`` tasks were given up in the same words, one after another, a run starts no
    more of them (0: it always does).
    """

    max_attempts: int = 3
    same_failures: int = 6
    request_attempts: int = 6
    request_timeout_s: float = 600.0
    patience_s: float = 3600.0


class SandboxSpec(_Table, frozen=True):
    """The sandbox in which agents work.

    ``process`` isolates nothing, so only scripted models may use it unless ``allow_unisolated`` is set. ``image`` and
    ``cpus`` (processors of each container, None for all) apply only to ``docker``.
    """

    kind: Literal["auto", "bubblewrap", "namespaces", "docker", "process"] = "auto"
    image: str | None = None
    cpus: float | None = None
    allow_unisolated: bool = False


class UserSimulatorSpec(_Table, frozen=True):
    """How questions are answered: by ``exact``, ``dump`` or ``hil_bench``, by ``llm`` with a model, or by a ``person``.

    ``matcher`` says how those without a model, and the second judge of ``llm``, find what a question asks for: by
    words, or also by meaning.
    ``deferral`` is what the user says who is asked for nothing that was removed, or does not understand.
    ``ending_judge`` is a model that decides, in place of the rules, whether a turn in prose asks.
    """

    kind: Literal["exact", "dump", "hil_bench", "llm", "person"] = "exact"
    matcher: Literal["rules", "encoder"] = "rules"
    llm: ModelSpec | None = None
    deferral: Deferral = DEFERRAL
    ending_judge: ModelSpec | None = None


class ResponseSpec(_Table, frozen=True, omit_defaults=True):
    """How the user responds to every question under the condition ``ask_user_NAME``, in a table ``[responses.NAME]``.

    An agent whose user responds some actions later, or so many percent of its action budget, goes on meanwhile and gets
    a message. So does one that is never answered, whose question is ``timed_out`` when the trial ends. With
    ``after_seconds`` or no time at all, its question waits for the response, and the time is the agent's own.
    """

    state: Literal["late", "timed_out", "declined", "dismissed", "unavailable"]
    after_actions: int | None = None
    after_percent: int | None = None
    after_seconds: float | None = None

    @property
    def comes_as_message(self) -> bool:
        """Whether the response comes as a message while the agent goes on."""
        return self.after_actions is not None or self.after_percent is not None


class GraderSpec(_Table, frozen=True):
    """How claims are graded if the benchmark leaves the choice: by a deterministic matcher or an LLM judge."""

    kind: Literal["default", "matcher", "judge"] = "default"
    judge: ModelSpec | None = None


class StopSpec(_Table, frozen=True):
    """When to stop before all tasks have run: when the gain of ``agent`` from asking is shown.

    It is tested at equal ``looks`` at up to ``max_tasks`` whole tasks (None: all), in a random order by ``deal_seed``.
    ``agent`` may be left out if there is one.
    """

    agent: str | None = None
    measure: Literal["pass_at_1", "pass_at_k", "checkpoint_progress"] = "pass_at_1"
    max_tasks: int | None = None
    looks: int = 4


class PromptsSpec(_Table, frozen=True):
    """Files that replace the bundled wordings. Paths are relative to the experiment file."""

    system: str | None = None
    program: str | None = None
    injection: str | None = None
    user_simulator: str | None = None
    responses: str | None = None
    strategies: dict[str, str] = msgspec.field(default_factory=dict)
    personas: dict[str, str] = msgspec.field(default_factory=dict)


class Experiment(_Table, frozen=True):
    """A whole experiment file.

    ``wire`` says what is kept of the bodies of model calls. ``preflight`` asks every real model once before a run.
    ``prompt_caching`` marks the requests of native agents where a provider caches only what is marked. If ``sessions``
    is set, it replaces ``trials``: that many sessions of each agent and condition are spread over the tasks. Each of
    ``responses`` adds its condition to ``conditions``.
    """

    name: str
    benchmark: BenchmarkSpec
    agents: tuple[AgentSpec, ...]
    conditions: tuple[str, ...]
    trials: int = 3
    sessions: int | None = None
    deal_seed: int = 0
    seeds: tuple[int, ...] | None = None
    concurrency: int = 4
    oracle_scope: Literal["task", "variant"] = "task"
    min_oracle_trials: int | None = None
    ask_notice: Literal["none", "paper"] = "none"
    wire: WireMode = "digest"
    preflight: bool = True
    prompt_caching: bool = True
    limits: LimitsSpec = LimitsSpec()
    budget: BudgetSpec = BudgetSpec()
    retry: RetrySpec = RetrySpec()
    sandbox: SandboxSpec = SandboxSpec()
    user_simulator: UserSimulatorSpec = UserSimulatorSpec()
    responses: dict[str, ResponseSpec] = {}
    grader: GraderSpec = GraderSpec()
    prompts: PromptsSpec = PromptsSpec()
    stop_when_shown: StopSpec | None = None

    def models(self) -> list[tuple[str, ModelSpec]]:
        named: list[tuple[str, ModelSpec]] = [(f"agents.{agent.name}", agent) for agent in self.agents]
        for agent in self.agents:
            named += [(f"agents.{agent.name}.models.'{pattern}'", spec) for pattern, spec in agent.routed.items()]
        if self.user_simulator.llm:
            named.append(("user_simulator.llm", self.user_simulator.llm))
        if self.user_simulator.ending_judge:
            named.append(("user_simulator.ending_judge", self.user_simulator.ending_judge))
        if self.grader.judge:
            named.append(("grader.judge", self.grader.judge))
        return named

    def response_of(self, condition: str) -> ResponseSpec | None:
        """Return how the user responds under a condition, or None if they answer at once or cannot be asked."""
        return self.responses.get(condition.removeprefix(LATE_ANSWERS)) if is_own_condition(condition) else None

    def seed_of(self, trial_index: int) -> int:
        """Return the seed for a trial index. Without ``seeds``, the seed is the index itself."""
        return self.seeds[trial_index] if self.seeds else trial_index

    def config_json(self) -> str:
        """Return the experiment with its defaults as canonical JSON.

        The JSON has the names of the variables for API keys, never their values, and only names and placeholders of a
        program's environment.
        """
        return canonical_json(_without_environments(msgspec.to_builtins(self))).decode()


def _without_environments(value: Any) -> Any:
    """Return a file's content with the values in ``environment`` tables removed, unless they are placeholders."""
    if isinstance(value, dict):
        return {
            name: {each: _recorded(text) for each, text in item.items()}
            if name == "environment" and isinstance(item, dict)
            else _without_environments(item)
            for name, item in value.items()
        }
    return [_without_environments(item) for item in value] if isinstance(value, list | tuple) else value


def _recorded(text: Any) -> Any:
    return text if isinstance(text, str) and _PLACEHOLDERS.fullmatch(text) else NOT_RECORDED
