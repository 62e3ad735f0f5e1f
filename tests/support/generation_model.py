"""A local model that extracts and rewrites: a function from a request's body to the reply's text, behind real HTTP.

In tests ``async with chat_server(HandlerModel(handler)) as url``.
"""

import inspect
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from lhaw_record.generators.llm import PromptTemplates
from lhaw_record.generators.protocol import SourceTask
from lhaw_record.recorder.events.values import Severity, Task, Usage
from lhaw_record.runners.base.conversation.messages import Message, to_wire
from lhaw_record.runners.models.protocol import ModelReply, ModelRequest

Handler = Callable[[dict[str, Any]], str | Awaitable[str]]
"""Gives the text of the reply to the body of a chat-completions request."""

_TASK = re.compile(r"^The task:\n<data>\n(.*?)\n</data>(?=\n\n(?:What|How|Earlier)|\Z)", re.DOTALL | re.MULTILINE)
_SEGMENTS = re.compile(r"^The details to take out, each with its id:\n<data>\n(.*?)\n</data>\n\nHow to", re.DOTALL)
_PROBLEMS = re.compile(r"Avoid all of these faults this time:\n<data>\n(.*?)\n</data>\Z", re.DOTALL)
_CHARACTERS_PER_TOKEN = 4


class HandlerModel:
    """Answers with what a function makes of each request; counts tokens roughly, so that replies have a price."""

    def __init__(self, handler: Handler, name: str = "local-model") -> None:
        self.name = name
        self.bodies: list[dict[str, Any]] = []
        self._handler = handler

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Return the reply to one request."""
        body = {"messages": [to_wire(message) for message in request.messages], **request.parameters}
        self.bodies.append(body)
        answer = self._handler(body)
        text = await answer if inspect.isawaitable(answer) else answer
        usage = Usage(
            input_tokens=1 + sum(len(message.content) for message in request.messages) // _CHARACTERS_PER_TOKEN,
            output_tokens=1 + len(text) // _CHARACTERS_PER_TOKEN,
        )
        return ModelReply(message=Message(role="assistant", content=text), finish_reason="stop", usage=usage)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a request with the bundled wordings asks for."""

    task: str
    segments: tuple[dict[str, Any], ...] = ()
    severity: Severity | None = None
    problems: str | None = None

    @property
    def is_extraction(self) -> bool:
        """Whether it asks for segments, and not for a rewriting."""
        return self.severity is None


def asked_of(body: dict[str, Any]) -> Asked:
    """Return what a request asks for."""
    wordings = PromptTemplates()
    system, user = (message["content"] for message in body["messages"][:2])
    task = _found(_TASK, user) or ""
    if system == wordings.extraction.system:
        return Asked(task=task)
    (severity,) = (name for name, text in wordings.severities.items() if f"How to take them out: {text}" in user)
    lines = (_found(_SEGMENTS, user) or "").splitlines()
    problems = _found(_PROBLEMS, user)
    return Asked(task=task, segments=tuple(map(json.loads, lines)), severity=severity, problems=problems)


def source_of(prompt: str, **changes: Any) -> SourceTask:
    """Return a task with a prompt and nothing else."""
    task = Task(
        benchmark="own", benchmark_version="1", task_id="t", prompt=prompt, checkpoints=(), environment_digest="0"
    )
    return SourceTask(task=task, **changes)


def rewriting_reply(prompt: str, questions: Any, failure_mode: str = "It goes on with a guess.") -> str:
    """Return a rewriter's reply."""
    return json.dumps(
        {"underspecified_prompt": prompt, "expected_questions": questions, "failure_mode": failure_mode},
        ensure_ascii=False,
    )


def _found(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None


def is_guess(body: dict[str, Any]) -> bool:
    """Whether a request asks for the removed values, as the gate's adversary."""
    return bool(body["messages"][0]["content"] == PromptTemplates().guessing.system)


def is_assessment(body: dict[str, Any]) -> bool:
    """Whether a request asks for the gate's assessment of a rewritten prompt."""
    return bool(body["messages"][0]["content"] == PromptTemplates().assessing.system)


def guess_reply(**values: str) -> str:
    """Return the adversary's reply with a value for each segment."""
    return json.dumps({"values": [{"segment_id": name, "value": value} for name, value in values.items()]})


def assessment_reply(*faults: dict[str, Any], **changes: Any) -> str:
    """Return an assessment with these faults, none for a good rewriting, and the changes."""
    return json.dumps({"reading": "", "faults": faults, **changes})
