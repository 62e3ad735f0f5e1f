"""Asks every real model of an experiment one tiny question before its trials do, and says what would go wrong.

A wrong address, key or model name, tools that never reach the model, missing token counts, a small context and an
unknown price are each found here, in seconds and for a fraction of a cent, where a run would find them in every trial.
The requests go through the same door as the run's, but they are in no store: their cost is told, not recorded.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio
import msgspec

from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition
from lhaw_record.runners.base.errors import EndpointDown, ExperimentError, ModelsOutOfReach
from lhaw_record.runners.experiment.tables import LIMITS, AgentSpec, BudgetSpec, Experiment, ModelSpec, asks_to_reason
from lhaw_record.runners.models.costs import add_usage, spent_words
from lhaw_record.runners.models.exchanges import proxy_of
from lhaw_record.runners.models.gateway import embeddings
from lhaw_record.runners.models.gateway.errors import GatewayRefusal
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.gateway.upstream import UpstreamAnswer
from lhaw_record.runners.models.gateway.wires import CHAT, GEMINI
from lhaw_record.runners.models.litellm_library import is_embedding_model, load_litellm
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelError, ModelReply, ModelRequest
from lhaw_record.runners.runs.planning.plan_table import list_prices

SMALL_CONTEXT = 16_384
"""A model with fewer tokens of context ends most trials early."""
_TIMEOUT_S = 60.0
_MOST_TOKENS = 256
_TOOL = ToolDefinition(
    name="ready",
    description="Say that you are ready.",
    input_schema={"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
)
_ASK = (Message(role="user", content="Call the tool `ready` now, with the answer `yes`. Write nothing else."),)

Level = Literal["ok", "warning", "problem"]


class ModelFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of the check about one model. ``key`` is the model's key in the experiment file.

    A problem with ``may_pass`` can be solved outside of the file: the server starts, or the account gets credit.
    """

    level: Level
    key: str
    model: str
    address: str
    finding: str
    next_step: str = ""
    may_pass: bool = False


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of a check, and what it used."""

    findings: tuple[ModelFinding, ...]
    requests: int
    usage: Usage

    @property
    def problems(self) -> list[ModelFinding]:
        """The findings that would spoil every trial."""
        return [finding for finding in self.findings if finding.level == "problem"]

    @property
    def cost_words(self) -> str:
        tokens = [self.usage.input_tokens, self.usage.output_tokens]
        counted = f"{sum(count or 0 for count in tokens)} tokens" if None not in tokens else "tokens unknown"
        cost = spent_words(self.usage.cost_usd or 0.0, int(self.usage.cost_usd is None))
        return f"{self.requests} requests, {counted}, {cost}; not stored"


async def check_models(experiment: Experiment, agents: Iterable[str] | None = None) -> CheckReport:
    wanted = None if agents is None else set(agents)
    specs = [
        (key, spec)
        for key, spec in experiment.models()
        if not spec.is_scripted and (wanted is None or not isinstance(spec, AgentSpec) or spec.name in wanted)
    ]
    routed = {f"agents.{agent.name}.models.'{pattern}'" for agent in experiment.agents for pattern in agent.models}
    has_limit = experiment.budget != BudgetSpec()
    checks = [_Check(key, spec, has_limit=has_limit, is_routed=key in routed) for key, spec in specs]
    first: dict[tuple[Any, ...], _Check] = {}
    for check in checks:
        first.setdefault(check.identity, check)
    async with anyio.create_task_group() as tasks:
        for check in first.values():
            tasks.start_soon(check.run)
    usage = Usage(cost_usd=0.0)
    for check in first.values():
        usage = add_usage(usage, check.usage)
    found = [finding for check in first.values() for finding in check.findings]
    return CheckReport(findings=tuple(found), requests=sum(check.requests for check in first.values()), usage=usage)


def refuse_problems(report: CheckReport) -> None:
    """Refuse to run an experiment with a problem."""
    if not report.problems:
        return
    lines = [f"key '{each.key}': {each.finding}; {each.next_step}" for each in report.problems]
    failure = ModelsOutOfReach if all(each.may_pass for each in report.problems) else ExperimentError
    raise failure("\n  ".join(lines) + "\n  (--no-preflight starts without this check)")


class _Check:
    """The check of one model."""

    def __init__(self, key: str, spec: ModelSpec, *, has_limit: bool, is_routed: bool) -> None:
        self.key = key
        self.findings: list[ModelFinding] = []
        self.requests = 0
        self.usage = Usage(cost_usd=0.0)
        self._spec = spec
        self._has_limit = has_limit
        self._has_tools = isinstance(spec, AgentSpec)
        # What a program asks of its further models is its own affair: perhaps titles and summaries, without tools.
        self._tool_level: Level = "warning" if is_routed else "problem"
        self._key = os.environ.get(spec.api_key_env) if spec.api_key_env else None
        self._model = LitellmModel(
            spec.model, api_base=spec.api_base, api_key=self._key, price=spec.price, given=spec.given_parameters
        )
        self._listed = ListedModel()

    @property
    def identity(self) -> tuple[Any, ...]:
        """Models with the same identity are checked only once."""
        spec = self._spec
        parameters = repr(spec.generation_parameters)
        return spec.model, spec.api_base, spec.api_key_env, parameters, self._has_tools, self._tool_level

    @property
    def _address(self) -> str:
        return self._spec.api_base or "the provider's own"

    async def run(self) -> None:
        self._listed = await listed_model(self._model, self._key)
        if await self._is_embedding():
            await self._check_embedding()
            return
        try:
            reply = await self._ask((_TOOL,) if self._has_tools else ())
        except ModelError as error:
            self._note_failure(error)
            return
        if self._has_tools:
            await self._check_tools(reply)
        self._check_tokens(reply)
        self._check_context()
        if not self.findings:
            context = f", {self._listed.context:,} tokens of context" if self._listed.context else ""
            refused = (
                f"; left out, because it is refused: {', '.join(self._model.refused)}" if self._model.refused else ""
            )
            self._note("ok", f"answers{' and calls tools' if self._has_tools else ''}{context}{refused}")

    async def _ask(self, tools: tuple[ToolDefinition, ...]) -> ModelReply:
        parameters = await self._model.completed_parameters({"seed": 0, **self._spec.generation_parameters})
        if not asks_to_reason(parameters):
            for name in LIMITS:
                if isinstance(parameters.get(name), int):
                    parameters[name] = min(parameters[name], _MOST_TOKENS)
        self.requests += 1
        reply = await self._model.respond(
            ModelRequest(messages=_ASK, tools=tools, parameters=parameters, timeout_s=_TIMEOUT_S)
        )
        self.usage = add_usage(self.usage, reply.usage)
        return reply

    async def _is_embedding(self) -> bool:
        if self._tool_level == "problem":
            return False
        await load_litellm()
        return is_embedding_model(self._spec.model, self._spec.api_base)

    async def _check_embedding(self) -> None:
        self.requests += 1
        try:
            answer = await self._embedded()
        except ModelError as error:
            self._note_failure(error)
            return
        except GatewayRefusal as refusal:
            step = f"name another model in {self.key}; the program's requests for embeddings would be refused"
            self._note("warning", str(refusal), step)
            return
        self.usage = add_usage(self.usage, answer.reply.usage)
        self._check_tokens(answer.reply, has_output=False)
        if not self.findings:
            self._note("ok", "answers with embeddings")

    async def _embedded(self) -> UpstreamAnswer:
        """Ask for an embedding in OpenAI's dialect, or in Gemini's if the provider speaks only that."""
        upstream, model = LitellmUpstream(self._model, timeout_s=_TIMEOUT_S), self._spec.model.split("/", 1)[-1]
        try:
            send = await upstream.embedding(CHAT, embeddings.read({"model": model, "input": "ready"}), is_routed=True)
        except GatewayRefusal:
            asked = embeddings.read_gemini("embedContent", model, {"content": {"parts": [{"text": "ready"}]}})
            send = await upstream.embedding(GEMINI, asked, is_routed=True)
        return await send()

    async def _check_tools(self, reply: ModelReply) -> None:
        """Find tools that the server drops: their text is then in no prompt, so it is as long without them."""
        if reply.message.tool_calls:
            return
        if _TOOL.name in reply.message.content and "answer" in reply.message.content and "{" in reply.message.content:
            step = "start the server with tool parsing (vLLM: --enable-auto-tool-choice; llama.cpp: --jinja)"
            self._note(self._tool_level, "its tool calls come back as text, which no agent executes", step)
            return
        try:
            without = await self._ask(())
        except ModelError:
            return
        if reply.usage.input_tokens is not None and reply.usage.input_tokens == without.usage.input_tokens:
            step = "use a model or a chat template with tools; otherwise every trial ends with 0 actions"
            self._note(self._tool_level, "its server drops the tools: the prompt is as long with them as without", step)
        else:
            self._note("warning", "it did not call a tool when it was asked to", "expect trials without actions")

    def _check_tokens(self, reply: ModelReply, *, has_output: bool = True) -> None:
        are_counted = reply.usage.input_tokens is not None and not (has_output and reply.usage.output_tokens is None)
        if not are_counted:
            level: Level = "problem" if self._has_limit else "warning"
            step = "a cost limit cannot be kept; remove it" if self._has_limit else "tokens and cost will be unknown"
            self._note(level, "its replies have no token counts", step)
        is_listed = list_prices(self._spec) is not None
        if reply.usage.cost_usd is None and (are_counted or not is_listed):
            finding = f"{reply.served_model} answers, and its price is unknown" if is_listed else "its price is unknown"
            step = f"set {self.key}.price (0 if it is free), or its cost stays unknown"
            self._note("problem" if self._has_limit else "warning", finding, step)

    def _check_context(self) -> None:
        context = self._listed.context
        if context is not None and context < SMALL_CONTEXT:
            step = "long trials will not fit; start the server with a larger context"
            self._note("warning", f"its context has only {context:,} tokens", step)

    def _note_failure(self, error: ModelError) -> None:
        names = self._listed.names
        known = f"the server has {', '.join(names[:5])}" if names else "look it up in the provider's list"
        is_unlisted = bool(names) and self._spec.model.split("/", 1)[-1] not in names and self._spec.model not in names
        variable = self._spec.api_key_env or "the provider's key"
        through = self._proxy_words
        said, first = f"({error}{through})", "check the proxy, or set NO_PROXY; else " if through else ""
        if error.http_status == 407:
            self._note("problem", f"the proxy refuses its key {said}", "correct the proxy's address", may_pass=True)
        elif error.http_status == 404 or (error.kind == "bad_request" and is_unlisted):
            step = f"{first}correct {self.key}.model: {known}"
            self._note("problem", f"there is no such model or path {said}", step, may_pass=True)
        elif error.kind == "authentication":
            self._note("problem", f"the key is refused {said}", f"{first}set another one in {variable}", may_pass=True)
        elif error.kind == EndpointDown.KIND:
            self._note("problem", str(error), "it is tried again by the next run", may_pass=True)
        elif error.kind == "connection":
            step = f"correct {self.key}.api_base, or start the server" if self._spec.api_base else "check the network"
            self._note("problem", f"nothing answers at {self._address} {said}", first + step, may_pass=True)
        elif error.kind == "malformed_reply":
            step = f"{first}correct {self.key}.api_base (most servers need /v1 at its end)"
            self._note("problem", f"the server at {self._address} is not a model server {said}", step)
        elif error.http_status == 402 or (error.kind == "rate_limit" and not error.is_retryable):
            self._note("problem", f"the account has no credit {said}", "add credit", may_pass=True)
        elif error.is_retryable:
            self._note("warning", f"it does not answer yet {said}", "the run will wait for it")
        elif error.kind == "other" and error.exchange is None:
            self._note("problem", f"no request could be sent ({error})", "correct this on this machine")
        else:
            step = f"correct {self.key}.parameters or {self.key}.model"
            self._note("problem", f"the request is refused {said}", step)

    @property
    def _proxy_words(self) -> str:
        """Name the proxy from the environment through which the server is reached, without its password."""
        proxy = urlsplit(proxy_of(self._spec.api_base or "https://provider") or "").netloc.rpartition("@")[2]
        return f"; through the proxy {proxy} of HTTP(S)_PROXY" if proxy else ""

    def _note(self, level: Level, finding: str, next_step: str = "", *, may_pass: bool = False) -> None:
        self.findings.append(
            ModelFinding(
                level=level,
                key=self.key,
                model=self._spec.model,
                address=self._address,
                finding=finding,
                next_step=next_step,
                may_pass=may_pass,
            )
        )


def warnings_of(findings: Sequence[ModelFinding]) -> list[str]:
    return [f"{each.model}: {each.finding}; {each.next_step}" for each in findings if each.level == "warning"]


_CONTEXT_KEYS = ("max_model_len", "context_length", "context_window", "max_context_length")
_LISTING_TIMEOUT_S = 10.0


class ListedModel(msgspec.Struct, frozen=True):
    """The names of a server's models, and the tokens of context of the model in question. None where unknown."""

    names: tuple[str, ...] = ()
    context: int | None = None


async def listed_model(model: LitellmModel, api_key: str | None) -> ListedModel:
    """Return what litellm's table says about a hosted model, or what a server says about the model that it runs."""
    litellm: Any = await load_litellm()
    if model.api_base is None:
        try:
            context = litellm.get_model_info(model.qualified_name).get("max_input_tokens")
        except Exception:  # noqa: BLE001  litellm raises a different class for each way of not knowing a name
            return ListedModel()
        return ListedModel(context=context)
    import httpx

    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    base = model.api_base.rstrip("/")
    async with httpx.AsyncClient(headers=headers, timeout=_LISTING_TIMEOUT_S) as client:
        listing = await _json(client, f"{base}/models")
        items = listing.get("data") if isinstance(listing, dict) else None
        items = items if isinstance(items, list) else []
        entries = [each for each in items if isinstance(each, dict) and isinstance(each.get("id"), str)]
        own = next((each for each in entries if model.name == each["id"] or model.name.endswith(f"/{each['id']}")), {})
        sizes = [own[key] for key in _CONTEXT_KEYS if isinstance(own.get(key), int)]
        if not sizes and isinstance(own.get("meta"), dict):  # llama.cpp
            props = await _json(client, f"{base.removesuffix('/v1')}/props")
            settings = props.get("default_generation_settings") if isinstance(props, dict) else None
            sizes = [settings["n_ctx"]] if isinstance(settings, dict) and isinstance(settings.get("n_ctx"), int) else []
    return ListedModel(tuple(each["id"] for each in entries), sizes[0] if sizes else None)


async def _json(client: Any, url: str) -> Any:
    import httpx

    try:
        response = await client.get(url)
        return response.json() if response.status_code == httpx.codes.OK else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
