"""A trial behind the gateway, in process: its recording, its session and a client at its address."""

import contextlib

import anyio
import httpx

from lhaw_record.recorder.events import ActionFinished, ActionStarted, ModelCalled
from lhaw_record.runners.base.budget import TrialSpending
from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from lhaw_record.runners.base.conversation.injection import PlannedInjection
from lhaw_record.runners.base.conversation.messages import ToolDefinition, conversation_digest
from lhaw_record.runners.base.recording import ObservedRecording
from lhaw_record.runners.models.gateway.app import Gateway
from lhaw_record.runners.models.gateway.session import TrialSession
from lhaw_record.runners.models.gateway.upstream import ModelUpstream
from tests.support.canned_model import CannedModel, MemoryRecording

KEY = "key-of-the-trial"


class Rig:
    """One trial at a gateway."""

    def __init__(
        self, upstream, *, prompt=None, injection=None, token=None, gateway=None, key=KEY, budget=None, **clocks
    ):
        self.recording = MemoryRecording()
        observed = ObservedRecording(self.recording)
        if budget:
            observed.before.append(TrialSpending(budget).observe)
        self.session = TrialSession(
            recording=observed,
            upstream=upstream,
            prompt=prompt,
            injection=injection,
            wall_s=lambda: 0.0,
            **clocks,
        )
        self.gateway = gateway or Gateway()
        self.gateway.open(key, self.session, token)
        self.base = f"http://gateway/t/{key}/"

    @contextlib.asynccontextmanager
    async def client(self, **options):
        """A client at the trial's address, in process."""
        transport = httpx.ASGITransport(app=self.gateway.app())
        async with httpx.AsyncClient(transport=transport, base_url=self.base, **options) as client:
            yield client

    @property
    def events(self):
        """All events so far."""
        return self.recording.events

    def of(self, kind):
        """The recorded events of one type."""
        return [event for event in self.events if isinstance(event, kind)]

    def actions(self):
        """Name and arguments of each action, in order."""
        started = self.of(ActionStarted)
        assert [event.action_index for event in started] == list(range(1, len(started) + 1))
        return [(event.kind, event.name, event.arguments_json) for event in started]

    def results(self):
        """The result of each action, in order."""
        results = {event.action_index: event.result for event in self.of(ActionFinished)}
        return [results[event.action_index] for event in self.of(ActionStarted)]

    def kinds(self):
        """Thread and kind of each call."""
        return [(event.thread_id, event.call_kind) for event in self.of(ModelCalled)]

    def check_conversations(self):
        """Every recorded request can be rebuilt and has its digest; returns them by call."""
        requests = rebuild_requests(self.events)
        digests = {event.call_id: event.request_digest for event in self.of(ModelCalled)}
        assert {call_id: conversation_digest(messages) for call_id, messages in requests.items()} == digests
        return requests


class Capturing(ModelUpstream):
    """Keeps the bodies that would go to a provider."""

    def __init__(self, model):
        super().__init__(model)
        self.bodies = []

    async def send(self, outgoing, relay=None):
        """Keep the body and ask the model."""
        self.bodies.append(outgoing.request.body)
        return await super().send(outgoing, relay)


def canned(*answers, **options):
    """A rig over a model with prepared answers, and that model."""
    model = CannedModel(answers)
    return Rig(Capturing(model), **options), model


def tool(name):
    """A tool that takes anything."""
    return ToolDefinition(name=name, description="", input_schema={"type": "object", "properties": {}})


def injection_after(action, message="By the way: blue."):
    """An injection due after some action."""
    return PlannedInjection(percent=50, target_action=action, message=message, segment_ids=("S1",))


async def until(condition):
    """Wait for something that happens in another task; the test's own limit is the only other end."""
    with anyio.fail_after(600):
        while not condition():  # noqa: ASYNC110  what is waited for has no event
            await anyio.sleep(0.005)
