"""The prompts and messages that an agent sees.

An experiment may replace their files. Their digests are part of a trial's key.
"""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Segment
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.decoding import converted, parsed
from lhaw_record.runners.experiment.tables import AgentSpec, Experiment


class Prompts:
    """All wordings of one experiment, read from their files once.

    Args:
        experiment: The experiment, whose ``[prompts]`` table may name other files.
        base: The folder of the experiment file, to which paths are relative.
        system: The benchmark's own description of the environment.
        program: What the benchmark tells a program in its place.

    Raises:
        ExperimentError: A named file is missing. The message names its key.
    """

    def __init__(self, experiment: Experiment, base: Path, system: str, program: str = "") -> None:
        own = experiment.prompts
        self._base = base
        self._system = self._own_text("prompts.system", own.system) if own.system else system
        self._strategies = {
            name: self._wording("strategies", own.strategies, name)
            for name in {agent.strategy for agent in experiment.agents} - {"none"}
        }
        self._personas = {
            name: self._wording("personas", own.personas, name)
            for name in {agent.persona for agent in experiment.agents} - {"none"}
        }
        self._ask_notice = _bundled("ask_notice_paper.md") if experiment.ask_notice == "paper" else ""
        self._program = self._own_text("prompts.program", own.program) if own.program else program
        self.nudge = _bundled("nudge.md")
        self.templates = InjectionTemplates(self._path("prompts.injection", own.injection) if own.injection else None)
        self.responses = ResponseWords(self._path("prompts.responses", own.responses) if own.responses else None)
        self.user_simulator_path = (
            self._path("prompts.user_simulator", own.user_simulator) if own.user_simulator else None
        )

    def opening(self, agent: AgentSpec, task_prompt: str, *, has_ask_user: bool) -> tuple[Message, ...]:
        system = self.system_text(agent, has_ask_user=has_ask_user)
        task = Message(role="user", content=task_prompt)
        return (Message(role="system", content=system), task) if system else (task,)

    def program_prompt(self, agent: AgentSpec, task_prompt: str, *, has_ask_user: bool) -> str:
        """Return the prompt for a program. It has its own system prompt, so our text is put before the task."""
        return f"{self.system_text(agent, has_ask_user=has_ask_user)}\n\n{task_prompt}".strip()

    def system_text(self, agent: AgentSpec, *, has_ask_user: bool) -> str:
        """Return an agent's system prompt or, for a program, the text before the task. The result may be empty."""
        asked_by = (agent.external.ask_user_tool if agent.external else "") or "ask_user"
        parts = (
            self._system if agent.external is None else self._program,
            self._strategies.get(agent.strategy, ""),
            self._personas.get(agent.persona, ""),
            self._ask_notice.format(tool=asked_by) if has_ask_user else "",
        )
        return "\n\n".join(part.strip() for part in parts if part.strip())

    def prompts_digest(self, agent: AgentSpec, channel: str) -> str:
        """Return the digest of every wording that an agent can see with this channel."""
        injected = self.templates.source if channel.startswith("inject_") else ""
        nudge = self.nudge if agent.external is None else ""
        return digest([self.system_text(agent, has_ask_user=channel == "ask_user"), nudge, injected])

    def _wording(self, kind: str, own: dict[str, str], name: str) -> str:
        if name in own:
            return self._own_text(f"prompts.{kind}.{name}", own[name])
        try:
            return data_path("prompts", kind, f"{name}.md").read_text(encoding="utf-8")
        except FileNotFoundError:
            folder = data_path("prompts", kind)
            known = ", ".join(["none", *sorted(path.stem for path in folder.glob("*.md"))])
            raise ExperimentError(
                f"{kind[:-1] if kind == 'personas' else 'strategy'} {name!r} is unknown; known: {known}; "
                f"or name a file of your own in [prompts.{kind}]"
            ) from None

    def _own_text(self, key: str, name: str) -> str:
        return self._path(key, name).read_text(encoding="utf-8")

    def _path(self, key: str, name: str) -> Path:
        path = (self._base / name).resolve()
        if not path.is_file():
            raise ExperimentError(f"key '{key}': {path} is not a file; paths are relative to the experiment file")
        return path


def _bundled(name: str) -> str:
    return data_path("prompts", name).read_text(encoding="utf-8").strip()


class InjectionTemplates:
    """The wording of injected messages, by dimension and subdimension.

    Args:
        path: A TOML file in the form of ``data/templates/injection.toml``. None selects that bundled file.
    """

    def __init__(self, path: Path | None = None) -> None:
        content = (path or data_path("templates", "injection.toml")).read_text()
        self.source = content
        self._templates: dict[str, Any] = tomllib.loads(content)

    def message(self, segments: Sequence[Segment]) -> str:
        """Return a message that states the value of every removed segment.

        The first segment uses the template for its dimension, the others are added with connectives.
        """
        if not segments:
            raise ValueError("nothing was removed, so there is nothing to inject")
        first, *others = segments
        by_dimension = self._templates.get(first.dimension, {})
        template = by_dimension.get(first.subdimension, self._templates["default"])
        connectives = self._templates["connectives"]
        sentences = [_fill(template, first.value)]
        sentences += [
            _fill(connectives[index % len(connectives)], segment.value) for index, segment in enumerate(others)
        ]
        return " ".join(sentences)


class _ResultWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pending: str
    timed_out: str
    declined: str
    dismissed: str
    unavailable: str


class _MessageWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    late: str
    timed_out: str


class _Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    result: _ResultWords
    message: _MessageWords


class ResponseWords:
    """What an agent is told whose user does not answer at once.

    Args:
        path: A TOML file in the form of ``data/user/responses.toml``. None selects that bundled file.
    """

    def __init__(self, path: Path | None = None) -> None:
        path = path or data_path("user", "responses.toml")
        self.source = path.read_text(encoding="utf-8")
        self._words = converted(parsed(self.source, path), _Words, path, "data/user/responses.toml")

    def result(self, state: str) -> str:
        """Return the result of a question in this state, or ``pending``."""
        return str(getattr(self._words.result, state))

    def message(self, state: str, question: str, answer: str = "") -> str:
        """Return the message about an earlier question that is now in this state."""
        said = {"question": question, "answer": answer}
        words = getattr(self._words.message, state)
        return re.sub(r"\{(question|answer)\}", lambda found: said[found[1]], words).strip()


def _fill(template: str, value: str) -> str:
    """Fill in the value. A template's final full stop is dropped if the value already ends a sentence."""
    filled = template.replace("{value}", value)
    return filled[:-1] if value.endswith((".", "!", "?")) and template.endswith("{value}.") else filled
