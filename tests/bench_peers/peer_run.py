"""The peer's side: runs the given trials with inspect_ai and leaves its log. Run by the peer environment's Python.

    python -m tests.bench_peers.peer_run TRIALS_JSON LOG_DIRECTORY [--no-realtime]

What inspect_ai offers to be fast and a mock experiment allows is on: no display, no running scores, no control server,
no limit below the concurrency, a model of its plug-in interface that answers at once (the bundled mock copies the whole
conversation on every call), a loop without an agent framework around it, no per-trial state. Its defaults are kept for
the log: the .eval format, samples flushed ten at a time, every event also put into its live buffer while running.
"""

import argparse
import json
import random
import sys
from pathlib import Path

import inspect_ai
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    execute_tools,
    get_model,
    modelapi,
)
from inspect_ai.scorer import Score, mean, scorer
from inspect_ai.solver import solver
from inspect_ai.tool import ToolCall, tool

from tests.bench.timed import Passage

MODEL = "worker"


@modelapi(name="toy")
class ToyModel(ModelAPI):
    """Works a number of times, then submits."""

    def __init__(self, model_name, actions, reply_characters, concurrency, **_settings):
        super().__init__(model_name)
        self._text = "t" * reply_characters
        self._actions = actions
        self._concurrency = concurrency

    def max_connections(self):
        """As many at once as there are trials at once."""
        return self._concurrency

    async def generate(self, input, tools, tool_choice, config):  # noqa: A002 - the interface names it so
        """Reply at once with one tool call."""
        replies = 1 + sum(message.role == "assistant" for message in input)
        name, arguments = ("submit", {"answer": "done"}) if replies == self._actions else ("work", {"n": replies})
        call = ToolCall(id=f"call_{replies}", function=name, arguments=arguments)
        message = ChatMessageAssistant(content=self._text, tool_calls=[call], source="generate", model=MODEL)
        return ModelOutput(
            model=MODEL,
            choices=[ChatCompletionChoice(message=message, stop_reason="tool_calls")],
            usage=ModelUsage(input_tokens=200 * replies, output_tokens=50, total_tokens=200 * replies + 50),
        )


@tool
def work(characters, source):
    """The one tool of the environment."""

    async def execute(n: int) -> str:
        """Do step n.

        Args:
            n: The step.
        """
        return f"{n} {source.randbytes(characters // 2).hex()}"

    return execute


@tool
def submit():
    """The tool that ends a trial."""

    async def execute(answer: str) -> str:
        """Finish the task. Call this once, when everything is done.

        Args:
            answer: The final answer, or a one-line summary.
        """
        return "Submitted."

    return execute


@solver
def toy_agent(tools):
    """Ask, act, put the results back, until it submits; the injected message follows its action."""

    async def solve(state, generate):
        model = get_model()
        injected = state.metadata["inject_after_action"]
        actions = 0
        while True:
            state.output = await model.generate(state.messages, tools)
            state.messages.append(state.output.message)
            results, _ = await execute_tools(state.messages, tools)
            state.messages.extend(results)
            actions += 1
            if state.output.message.tool_calls[0].function == "submit":
                state.output.completion = state.output.message.tool_calls[0].arguments["answer"]
                return state
            if actions == injected:
                state.messages.append(ChatMessageUser(content=state.metadata["inject_message"]))

    return solve


@scorer(metrics=[mean()])
def graded():
    """Half a point for working, half for an answer."""

    async def score(state, target):
        worked = sum(message.role == "tool" and message.function == "work" for message in state.messages)
        answer = state.output.completion
        value = 0.5 * (worked > 0) + 0.5 * (answer != "")
        return Score(value=value, answer=answer, explanation=f"worked {worked} times, answered {answer!r}")

    return score


def main():
    """Run the trials and print what it took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("trials", type=Path)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--no-realtime", action="store_true")
    options = parser.parse_args()
    given = json.loads(options.trials.read_text())
    workload = given["workload"]
    samples = [
        Sample(
            id=trial["id"],
            input=[ChatMessageSystem(content=trial["system"]), ChatMessageUser(content=trial["prompt"])],
            metadata=trial["metadata"],
        )
        for trial in given["trials"]
    ]
    passage = Passage()
    tools = [work(workload["result_characters"], random.Random(0)), submit()]
    (log,) = inspect_ai.eval(
        inspect_ai.Task(dataset=MemoryDataset(samples), solver=toy_agent(tools), scorer=graded()),
        model=f"toy/{MODEL}",
        model_args={key: workload[key] for key in ("actions", "reply_characters", "concurrency")},
        max_samples=workload["concurrency"],
        max_connections=workload["concurrency"],
        display="none",
        score_display=False,
        ctl_server=False,
        log_dir=str(options.logs),
        log_realtime=not options.no_realtime,
    )
    json.dump({**passage.end(), "is_whole": log.status == "success"}, sys.stdout)


if __name__ == "__main__":
    main()
