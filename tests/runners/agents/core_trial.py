"""A trial with nothing of the runners imported but their core: environment, model and parts are written here."""

import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from lhaw_record.recorder.events import ModelCalled, ModelResponded, TrialStarted
from lhaw_record.recorder.events.values import Checkpoint, Usage
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.agents.agent_loop import NativeAgent
from lhaw_record.runners.agents.attempt import Attempt
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition, ToolResult
from lhaw_record.runners.base.recording import ObservedRecording
from lhaw_record.runners.environments.grading.grade import CheckpointResult, Grade
from lhaw_record.runners.models.protocol import ModelReply, ModelRequest

OTHERS = tuple(f"lhaw_record.{layer}" for layer in ("runners.", "analytics", "generators"))


class Environment:
    """One tool, which counts."""

    tools = (ToolDefinition(name="work", description="Work.", input_schema={"type": "object"}),)
    facts, bounds_its_grading, worked = (), True, 0

    async def call(self, name, arguments, call_id):
        """Count."""
        self.worked += 1
        return ToolResult(text="done")

    async def next_step(self):
        """The task has one step."""
        return

    async def grade(self, final_answer, ask_judge):
        """Full points for one call and the right answer."""
        is_success = self.worked == 1 and final_answer == "42"
        result = CheckpointResult(checkpoint_id="c1", score=float(is_success), details="")
        return Grade(results=(result,), is_success=is_success)


class Scripted:
    """Works once, then submits. Its calls are recorded, and none is repeated."""

    total_usage = Usage(cost_usd=0.0)

    def __init__(self, recording):
        self.recording = recording
        self.calls = [("work", "{}"), ("submit", '{"answer": "42"}')]

    async def respond(self, request):
        """Return the next call."""
        name, arguments = self.calls.pop(0)
        call = ToolCall(call_id=f"call_{len(self.calls)}", name=name, arguments_json=arguments)
        message = Message(role="assistant", content="", tool_calls=(call,))
        return ModelReply(message=message, finish_reason="tool_calls", usage=Usage())

    async def request(self, messages, tools=()):
        """Record a call, make it, and return the reply and its event."""
        call_id = f"main.{len(messages)}"
        called = ModelCalled(
            call_id=call_id,
            role="agent",
            thread_id="main",
            call_kind="main",
            model="scripted",
            parameters_json="{}",
            request_digest="",
            shared_count=0,
            message_count=len(messages),
            new_messages_json="[]",
        )
        await self.recording.append(called)
        reply = await self.respond(ModelRequest(messages=tuple(messages), tools=tuple(tools)))
        responded = ModelResponded(
            call_id=call_id, role="agent", text="", finish_reason=reply.finish_reason, latency_ms=0.0
        )
        return reply, responded


class Parts:
    """The parts of the trial."""

    checkpoints, grader, grading_clock = (Checkpoint(checkpoint_id="c1", label="done"),), "core", None

    def __init__(self, recorder, stream):
        self.keep = recorder.keep
        self.recording = ObservedRecording(stream)
        self.seen = []
        self.recording.after.append(lambda event: self.seen.append(type(event).__name__))

    @asynccontextmanager
    async def environment(self, store):
        """A fresh one."""
        yield Environment()

    @asynccontextmanager
    async def agent(self, environment, store):
        """The native agent, with a scripted model."""
        yield NativeAgent(
            caller=Scripted(self.recording),
            toolbox=environment,
            recording=self.recording,
            opening=(Message(role="user", content="Work."),),
            ends_on_text=False,
            nudge="Go on.",
            max_turns=5,
        )

    def judge(self):
        """None is needed."""
        return

    def measured(self):
        """Nothing was spent."""
        return {"cost_usd": 0.0}


async def main():
    """Run the trial and print which of our modules it needed."""
    words = dict.fromkeys(TrialStarted.__struct_fields__[:22], "-") | {"trial_index": 0, "seed": 1}
    started = TrialStarted(**words)
    async with StoreRecorder(create_store(Path(sys.argv[1])), "core") as recorder:
        stream = recorder.attempt("t1", 1)
        parts = Parts(recorder, stream)
        closing = await Attempt(stream, started, parts).run()
    assert (closing.ended_by, closing.is_success, closing.action_count) == ("submitted", True, 2), closing
    sys.stdout.write(" ".join(name for name in sys.modules if name.startswith(OTHERS)))


if __name__ == "__main__":
    anyio.run(main)
