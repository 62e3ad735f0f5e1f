"""One trial: every event in its place, and every failure at the boundary that it crossed."""

from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    CheckpointScored,
    QuestionAnswered,
    QuestionAsked,
    TrialFailed,
    TrialFinished,
    TrialStarted,
    type_name,
)
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.agents.runner import TrialRunner
from lhaw_record.runners.agents.services import Services
from lhaw_record.runners.base.conversation.messages import ToolDefinition, ToolResult
from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError, ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.protocol import Environment, EnvironmentSettings
from lhaw_record.runners.environments.grading.grade import Artifact, CheckpointResult, Grade
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.models.call_outcomes import RetryPolicy
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.protocol import ModelError
from lhaw_record.runners.runs.planning.plan import make_plan
from lhaw_record.runners.users.simulated_user.protocol import UserAnswer
from tests.support.canned_model import CannedModel, text_reply, tool_reply
from tests.support.toy_plan import ListedBenchmark, experiment

WORK = tool_reply(("c1", "work", "{}"))
ASK = tool_reply(("c2", "ask_user", '{"question":"When must it be done?"}'))
SUBMIT = tool_reply(("c3", "submit", '{"answer":"done"}'))


class BrittleBenchmark(ListedBenchmark):
    """Its parts fail as they are told."""

    def __init__(self, **failures):
        super().__init__(tasks=1)
        self.failures = failures

    @asynccontextmanager
    async def open(self, task, settings, variant=None):
        """Open, or fail."""
        self.fail("open")
        self.settings = settings
        yield self.failures.get("opens") or BrittleEnvironment(self)

    def fail(self, place):
        """Raise what was ordered for a place."""
        if place in self.failures:
            raise self.failures[place]


class BrittleEnvironment(Environment):
    """One tool, one checkpoint."""

    tools = (ToolDefinition(name="work", description="Work.", input_schema={"type": "object"}),)

    def __init__(self, benchmark):
        self.benchmark = benchmark

    async def call(self, name, arguments):
        """Work, or fail."""
        self.benchmark.fail("tool")
        for artifact in self.benchmark.failures.get("shows", ()):
            await self.benchmark.settings.keep(artifact)
        return ToolResult(text="worked", server="toy", server_pid=7)

    async def grade(self, final_answer, ask_judge):
        """Grade, or fail."""
        self.benchmark.fail("grader")
        results = (CheckpointResult(checkpoint_id="c1", score=1.0, details="it is done"),)
        artifact = Artifact(name="out.txt", role="deliverable", media_type="text/plain", content=b"done")
        grade = Grade(
            results=() if "results" in self.benchmark.failures else results, is_success=True, artifacts=(artifact,)
        )
        return msgspec.structs.replace(grade, **self.benchmark.failures.get("grade", {}))


class CannedServices(Services):
    """Services whose agent is a canned model and whose simulator may fail."""

    def __init__(self, described, benchmark, prompts, answers, simulator):
        super().__init__(described, benchmark, prompts)
        self.answers, self.simulator = answers, simulator

    def agent_caller(self, trial, recording, trial_clock=None):
        """The canned model, hardly ever retried."""
        return ModelCaller(
            model=CannedModel(self.answers),
            recording=recording,
            role="agent",
            thread_id="main",
            parameters={},
            retry=RetryPolicy(max_attempts=2, first_delay_s=0.001),
            trial_clock=trial_clock,
        )

    def user_simulator(self, trial, recording):
        """The simulator of the test."""
        return (self.simulator, None) if self.simulator else super().user_simulator(trial, recording)


async def attempt(tmp_path, answers, *, condition="full", simulator=None, changes=None, number=1, **failures):
    """Run one attempt and return its events and the outcome; the store must verify."""
    benchmark = BrittleBenchmark(**failures)
    described = experiment(conditions=tuple({"full": 0, condition: 0}), **(changes or {}))
    prompts = Prompts(described, Path(), benchmark.system_prompt())
    plan = make_plan(described, benchmark, prompts, "exact:1")
    trial = next(trial for trial in plan.trials if trial.condition == condition)
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "toy") as recorder:
        runner = TrialRunner(
            experiment=described,
            benchmark=benchmark,
            prompts=prompts,
            settings=EnvironmentSettings(sandbox=ProcessSandboxProvider(), limits=SandboxLimits()),
            services=CannedServices(described, benchmark, prompts, answers, simulator),
            recorder=recorder,
            run_id="run",
        )
        outcome = await runner.run(trial, number, 4)
    assert verify(store.root).findings == ()
    return [envelope.event for envelope in read_envelopes(store.root)], outcome


async def test_a_trial_is_a_story_from_start_to_finish(tmp_path):
    """Started first, finished last; call, action, grading in between, each fact in its order."""
    events, outcome = await attempt(tmp_path, [WORK, SUBMIT])
    assert [type_name(type(event)) for event in events] == [
        "trial_started",
        *["model_called", "model_responded", "action_started", "action_finished"] * 2,
        "artifact_stored",
        "checkpoint_scored",
        "trial_finished",
    ]
    started, finished = events[0], events[-1]
    assert isinstance(started, TrialStarted)
    assert isinstance(finished, TrialFinished)
    assert (finished.ended_by, finished.final_answer, finished.is_success) == ("submitted", "done", True)
    assert (finished.action_count, outcome.is_valid, outcome.action_count) == (2, True, 2)
    assert (events[4].server, events[4].server_pid) == ("toy", 7)


async def test_what_an_environment_shows_is_kept_though_grading_fails(tmp_path):
    """A screenshot is an artifact as soon as it was taken, before its action ends."""
    picture = Artifact(name="screenshot-001.png", role="screenshot", media_type="image/png", content=b"png")
    events, _ = await attempt(tmp_path, [WORK, SUBMIT], shows=(picture,), grader=GraderError("gone", kind="timeout"))
    kinds = [type_name(type(event)) for event in events]
    assert kinds[3:6] == ["action_started", "artifact_stored", "action_finished"]
    assert kinds[-1] == "trial_failed"


@pytest.mark.parametrize(
    ("failures", "boundary", "kind"),
    [
        ({"open": SandboxBoundaryError("no sandbox", kind="start")}, "sandbox", "start"),
        ({"open": OSError("no space")}, "sandbox", "open"),
        ({"tool": ToolBoundaryError("server gone", kind="server_gone")}, "tool", "server_gone"),
        ({"tool": KeyError("oops")}, "tool", "crash"),
        ({"grader": GraderError("judge gone", kind="timeout")}, "grader", "timeout"),
        ({"grader": ZeroDivisionError("oops")}, "grader", "crash"),
        ({"results": None}, "grader", "incomplete"),
    ],
)
async def test_a_failure_is_attributed_to_its_boundary_and_never_scored(tmp_path, failures, boundary, kind):
    """Whatever breaks below becomes one trial_failed with a retry owed; no checkpoint is scored."""
    events, outcome = await attempt(tmp_path, [WORK, SUBMIT], **failures)
    last = events[-1]
    assert isinstance(last, TrialFailed)
    assert (last.boundary, last.error_kind, last.is_retry_owed) == (boundary, kind, True)
    assert not any(isinstance(event, CheckpointScored) for event in events)
    assert not outcome.is_valid


@pytest.mark.parametrize(("kind", "is_owed"), [("timeout", True), ("authentication", False)])
async def test_an_unreachable_model_fails_the_trial(tmp_path, kind, is_owed):
    """A model that never answers is missing data, retried only where that can help."""
    events, _ = await attempt(tmp_path, [ModelError("no", kind=kind, is_retryable=kind == "timeout")])
    assert (events[-1].boundary, events[-1].error_kind, events[-1].is_retry_owed) == ("model", kind, is_owed)


async def test_what_is_no_environment_is_refused_by_its_name(tmp_path):
    """A benchmark that opens something else is told so before the agent starts, and the trial is not owed again."""

    class Lookalike:
        """Has no base, so no defaults."""

    events, _ = await attempt(tmp_path, [SUBMIT], opens=Lookalike())
    failed = events[-1]
    assert (failed.boundary, failed.error_kind, failed.is_retry_owed) == ("sandbox", "open", False)
    assert "opens Lookalike, which does not inherit from Environment" in failed.message


class BrokenSimulator:
    """Knows no answer."""

    name = "broken"
    is_person = False

    async def answer(self, question, context, knowledge):
        """Break."""
        raise RuntimeError("simulator down")


async def test_a_broken_simulator_fails_the_trial_and_invents_nothing(tmp_path):
    """The question is recorded, no answer is, and the trial fails at the user simulator."""
    events, _ = await attempt(tmp_path, [ASK, SUBMIT], condition="ask_user", simulator=BrokenSimulator())
    assert events[-1].boundary == "user_simulator"
    assert any(isinstance(event, QuestionAsked) for event in events)
    assert not any(isinstance(event, QuestionAnswered) for event in events)


class CertainSimulator:
    """Always answers."""

    name = "certain"
    is_person = False

    async def answer(self, question, context, knowledge):
        """Answer from what was removed."""
        return UserAnswer(text=f"It is {knowledge.removed[0].value}.")


async def test_a_question_goes_over_mcp_and_is_joined_to_its_action(tmp_path):
    """The ask_user call is action 2, its question carries the call id, and the agent reads the answer."""
    events, _ = await attempt(tmp_path, [WORK, ASK, SUBMIT], condition="ask_user", simulator=CertainSimulator())
    (asked,) = [event for event in events if isinstance(event, QuestionAsked)]
    (answered,) = [event for event in events if isinstance(event, QuestionAnswered)]
    assert (asked.question, asked.call_id, asked.action_index) == ("When must it be done?", "c2", 2)
    assert answered.answer == "It is today."
    assert events[-1].action_count == 3


async def test_an_agent_that_never_ends_meets_the_time_limit_and_is_graded(tmp_path, monkeypatch):
    """The time limit ends the agent, not the trial: what it left is graded, and its time was charged."""
    from lhaw_record.runners.experiment.tables import LimitsSpec

    class Slow(BrittleEnvironment):
        async def call(self, name, arguments):
            await anyio.sleep(0.1)
            return await super().call(name, arguments)

    monkeypatch.setattr(f"{__name__}.BrittleEnvironment", Slow)
    limits = LimitsSpec(max_seconds=0.25, max_turns=10**9)
    events, _ = await attempt(tmp_path, [WORK], changes={"limits": limits})
    assert (events[-1].ended_by, events[-1].is_success) == ("time_limit", True)
    assert events[-1].charged_ms >= 250


class Sleepy(BrittleEnvironment):
    """Its tool takes longer than any test."""

    async def call(self, name, arguments):
        """Never return."""
        await anyio.sleep_forever()


async def test_an_action_that_the_time_limit_cuts_off_is_finished(tmp_path, monkeypatch):
    """A command is the agent's own time: one that runs into the limit is an action with an error result."""
    from lhaw_record.runners.experiment.tables import LimitsSpec

    monkeypatch.setattr(f"{__name__}.BrittleEnvironment", Sleepy)
    events, _ = await attempt(tmp_path, [WORK], changes={"limits": LimitsSpec(max_seconds=0.2)})
    finished = [event for event in events if isinstance(event, ActionFinished)]
    assert [(event.action_index, event.is_error) for event in finished] == [(1, True)]
    assert (events[-1].ended_by, events[-1].action_count) == ("time_limit", 1)
    assert events[-1].charged_ms >= 200 > events[-1].waited_ms


async def test_a_question_that_is_never_answered_is_missing_data(tmp_path):
    """The agent's time stands still while it waits for the simulated user, and patience ends the attempt there."""
    from lhaw_record.runners.experiment.tables import LimitsSpec, RetrySpec

    class Thinking(CertainSimulator):
        async def answer(self, question, context, knowledge):
            await anyio.sleep_forever()

    events, _ = await attempt(
        tmp_path,
        [WORK, ASK],
        condition="ask_user",
        simulator=Thinking(),
        changes={"limits": LimitsSpec(max_seconds=5.0), "retry": RetrySpec(patience_s=0.3)},
    )
    finished = [event for event in events if isinstance(event, ActionFinished)]
    assert [(event.action_index, event.is_error) for event in finished] == [(1, False), (2, True)]
    assert [type(event) for event in events if isinstance(event, QuestionAsked | QuestionAnswered)] == [QuestionAsked]
    assert isinstance(events[-1], TrialFailed)
    assert (events[-1].boundary, events[-1].error_kind, events[-1].is_retry_owed) == ("user_simulator", "timeout", True)
    assert events[-1].waited_ms >= 300 > events[-1].charged_ms


async def test_the_condition_decides_prompt_and_tools(tmp_path):
    """Underspecified shows the variant's prompt and no ask_user; full_ask_user shows the full prompt and the tool."""
    events, _ = await attempt(tmp_path, [text_reply("hm"), SUBMIT], condition="underspecified")
    called = events[1]
    assert '"content":"Do it 0."' in called.new_messages_json
    assert "ask_user" not in called.tools_json
    events, _ = await attempt(tmp_path / "other", [SUBMIT], condition="full_ask_user")
    assert "Do it by 0 today." in events[1].new_messages_json
    assert "ask_user" in events[1].tools_json


def result(score, *, checkpoint_id="c1", details=""):
    """What a grader says of a checkpoint."""
    return CheckpointResult(checkpoint_id=checkpoint_id, score=score, details=details)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"results": (result(float("nan")),)}, "impossible_score"),
        ({"results": (result(float("inf")),)}, "impossible_score"),
        ({"results": (result(1.5),)}, "impossible_score"),
        ({"results": (result(-0.5),)}, "impossible_score"),
        ({"final_score": float("nan")}, "impossible_score"),
        ({"results": (result(1.0, checkpoint_id="c9"),)}, "incomplete"),
        ({"results": (result(1.0), result(0.0))}, "incomplete"),
    ],
)
async def test_a_grader_that_talks_nonsense_is_missing_data(tmp_path, said, kind):
    """No number, more points than there are, fewer than none, an unknown checkpoint, one twice: nothing is recorded."""
    events, _ = await attempt(tmp_path, [SUBMIT], grade=said)
    assert (events[-1].boundary, events[-1].error_kind) == ("grader", kind)
    assert not [event for event in events if isinstance(event, CheckpointScored)]


async def test_what_a_grader_quotes_is_bounded(tmp_path):
    """A sentence with a file in it is cut, and half a character of an agent's does not stop the recorder."""
    events, _ = await attempt(tmp_path, [SUBMIT], grade={"results": (result(0.0, details="\ud800" + "x" * 9_000_000),)})
    (event,) = [event for event in events if isinstance(event, CheckpointScored)]
    assert event.details.startswith("\ufffdxxx")
    assert len(event.details) < 2100


async def test_abuse_of_resources_ends_a_trial_that_counts(tmp_path):
    """What cannot be graded within the limits is a graded failure with an ending of its own, not missing data."""
    events, outcome = await attempt(
        tmp_path, [SUBMIT], grade={"results": (result(0.0),), "is_success": False, "resource_abuse": "too much"}
    )
    assert outcome.is_valid
    assert (events[-1].ended_by, events[-1].is_success) == ("resource_abuse", False)


TOO_MUCH = SandboxBoundaryError("the sandbox is gone: no memory", kind="sandbox_out_of_memory", is_abuse=True)


@pytest.mark.parametrize("place", ["tool", "grader"])
async def test_an_agent_that_loses_its_sandbox_stays_in_the_denominator(tmp_path, place):
    """Lost while it works, or when it is read for grading: every checkpoint fails with the reason, and counts."""
    events, outcome = await attempt(tmp_path, [WORK, SUBMIT], **{place: TOO_MUCH})
    assert outcome.is_valid
    assert (events[-1].ended_by, events[-1].is_success) == ("resource_abuse", False)
    results = [event for event in events if isinstance(event, CheckpointScored)]
    assert [(event.score, event.details) for event in results] == [(0.0, str(TOO_MUCH))]
    started = [event.action_index for event in events if isinstance(event, ActionStarted)]
    finished = {event.action_index: event for event in events if isinstance(event, ActionFinished)}
    assert list(finished) == started
    assert finished[1].is_error == (place == "tool")


async def test_a_sandbox_that_the_host_loses_is_missing_data(tmp_path):
    """The same end without the agent's doing is infrastructure: nothing is scored and an attempt is owed."""
    lost = SandboxBoundaryError("the sandbox is gone: its driver ended", kind="sandbox_died")
    events, _ = await attempt(tmp_path, [WORK, SUBMIT], tool=lost)
    assert (events[-1].boundary, events[-1].is_retry_owed) == ("sandbox", True)
    assert not [event for event in events if isinstance(event, CheckpointScored)]
