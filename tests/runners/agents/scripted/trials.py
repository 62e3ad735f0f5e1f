"""Runs one trial of a scripted model in a desk workspace, without recording: the bare loop of an agent."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from inspect import isawaitable

from lhaw_record.recorder.events.values import Variant
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.agents.agent_loop import SUBMIT
from lhaw_record.runners.agents.scripted import ScriptedModel
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition, insert_user_turn
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.task import DeskTask
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.grading.grade import Grade
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.models.protocol import ModelRequest

ASK_USER = ToolDefinition(name="ask_user", description="Ask the user.", input_schema={"type": "object"})
NUDGE = data_path("prompts", "nudge.md").read_text().strip()
_SETTINGS = EnvironmentSettings(sandbox=ProcessSandboxProvider(), limits=SandboxLimits())


@dataclass
class Trial:
    """What happened: every action in order (name and arguments; texts as ``message``), and the grade."""

    actions: list[tuple[str, dict]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    grade: Grade | None = None

    @property
    def questions(self):
        """The questions in the order of asking."""
        return [arguments["question"] for name, arguments in self.actions if name == "ask_user"]

    @property
    def unmet(self):
        """What the grader missed."""
        return [result.details for result in self.grade.results if not result.score]


def wording(kind: str, name: str) -> str:
    """Return a bundled strategy or persona."""
    return data_path("prompts", kind, f"{name}.md").read_text()


async def run_trial(
    task: DeskTask,
    archetype: str,
    *,
    prompt: str | None = None,
    seed: int = 0,
    wordings: str = "",
    variant: Variant | None = None,
    reply: Callable[[str], str | Awaitable[str]] | None = None,
    injection: tuple[int, str] | None = None,
    spoil: Callable[[ToolCall, int], str | None] = lambda call, number: None,
) -> Trial:
    """Run one trial.

    Args:
        task: An instance of a desk task.
        archetype: ``balanced`` and so on.
        prompt: Another prompt than the full one.
        variant: Changes the workspace as it says.
        seed: Picks guesses.
        wordings: What follows the system prompt: strategy, persona.
        reply: Answers questions; None takes the tool away.
        injection: After which action the user says what.
        spoil: (call, number of the action) -> what comes back instead of executing the call, or None.
    """
    benchmark = DeskBenchmark([task])
    model = ScriptedModel(f"scripted/{archetype}", seed)
    trial = Trial(
        messages=[
            Message(role="system", content=f"{benchmark.system_prompt()}\n\n{wordings}"),
            Message(role="user", content=prompt or task.prompt()),
        ]
    )
    async with benchmark.open(benchmark.tasks()[0], _SETTINGS, variant) as environment:
        tools = (*environment.tools, SUBMIT, *((ASK_USER,) if reply else ()))
        final_answer = None
        while final_answer is None:
            assert len(trial.actions) < 80, "the model does not come to an end"
            turn = (await model.respond(ModelRequest(messages=tuple(trial.messages), tools=tools))).message
            trial.messages.append(turn)
            trial.batches.append(len(turn.tool_calls))
            if not turn.tool_calls:
                trial.actions.append(("message", {"text": turn.content}))
                trial.messages.append(Message(role="user", content=NUDGE))
            for call in turn.tool_calls:
                arguments = json.loads(call.arguments_json)
                trial.actions.append((call.name, arguments))
                result = spoil(call, len(trial.actions))
                if result is None and call.name == "submit":
                    result = final_answer = arguments["answer"]
                elif result is None and call.name == "ask_user":
                    result = reply(arguments["question"])
                    result = await result if isawaitable(result) else result
                elif result is None:
                    result = (await environment.call(call.name, arguments)).text
                trial.messages.append(Message(role="tool", content=result, tool_call_id=call.call_id))
            if injection and final_answer is None and len(trial.actions) >= injection[0]:
                trial.messages = insert_user_turn(trial.messages, injection[1])
                injection = None
        trial.grade = await environment.grade(final_answer, None)
    return trial
