"""Stores for judges: small trials written down in a line, recorded on disk as a run would leave them."""

import json
from collections import defaultdict
from pathlib import Path

from lhaw_record.recorder.events import ArtifactStored, RunFinished, RunStarted
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.judging.failure_modes import JUDGED, FailureModes
from lhaw_record.runners.judging.judge_run import JudgeRun, JudgeSettings
from lhaw_record.runners.models.call_outcomes import RetryPolicy
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelReply, ModelRequest
from tests.analytics.make_store import Store as Written
from tests.support.canned_model import text_reply

JUDGE = "local-judge"
PRICE = Price(input_usd_per_million_tokens=100.0, output_usd_per_million_tokens=100.0)  # 0.0012 USD for each reply
FLAGS = json.dumps({"flags": {flag: {"verdict": "NO", "reason": "seen nothing"} for flag in JUDGED}})
CONFIRMED = json.dumps({"same_answer": True, "completes_task": True, "reason": "all say 7"})


def asking(trials: int = 3, *, experiment: str = "e", model: str = "m") -> Written:
    """Return some trials that asked once, and as many that did not."""
    written = Written(trials=trials, experiment=experiment)
    written.task("t")
    written.variant("t", "v", "goal input", scores="1/0 1/0", ambiguity_class="divergent")
    for index in range(trials):
        written.trial("v", "ask_user", index, actions=["read a", "ask_user S1", "submit"], model=model)
        written.trial("v", "underspecified", index, actions=["submit"], model=model)
    return written


async def on_disk(root: Path, *stores: Written) -> Store:
    """Record what was written down, one recorder per experiment."""
    store = create_store(root)
    for written in stores:
        streams = defaultdict(list)
        for envelope in written.envelopes:
            streams[envelope.stream_id].append(envelope)
        async with StoreRecorder(store, written.experiment) as recorder:
            for stream_id, envelopes in streams.items():
                first = envelopes[0]
                stream = recorder.stream(stream_id, trial_id=first.trial_id, attempt=first.attempt)
                await stream.append(*(envelope.event for envelope in envelopes))
                if isinstance(first.event, RunStarted):
                    await stream.append(_end(first.event.run_id))
    return store


def leave_behind(written: Written, stream_id: str, *artifacts: ArtifactStored) -> None:
    """Put artifacts in front of the end of the trial that was written down last."""
    end = written.envelopes.pop()
    written.rewind(stream_id)
    for artifact in artifacts:
        written.add(stream_id, artifact, end.trial_id, end.attempt)
    written.add(stream_id, end.event, end.trial_id, end.attempt)


def artifact(name: str, content: bytes, sha256: str, media_type: str = "text/plain") -> ArtifactStored:
    """Return a deliverable."""
    return ArtifactStored(sha256=sha256, media_type=media_type, size_bytes=len(content), role="deliverable", name=name)


def _end(run_id: str) -> RunFinished:
    counts = dict.fromkeys(("trials_finished", "trials_failed", "trials_blocked", "trials_left"), 0)
    return RunFinished(run_id=run_id, outcome="completed", **counts)


def settings(url: str, **changes: object) -> JudgeSettings:
    """Return how a judge behind an address is asked."""
    from lhaw_record.recorder.writing.redaction import Redactor

    values = {
        "model": LitellmModel(JUDGE, api_base=url, price=PRICE),
        "parameters": {"temperature": 0},
        "kind": "judge",
        "config": {},
        "redactor": Redactor(),
        "retry": RetryPolicy(max_attempts=3, first_delay_s=0.01),
        "request_timeout_s": 20.0,
        **changes,
    }
    return JudgeSettings(**values)


async def judged(store: Store, url: str, judging=None, on_change=lambda _: None, **changes: object) -> JudgeRun:
    """Run a judge over a store, as the command does."""
    driver = JudgeRun(store, judging or FailureModes(JUDGE, {"temperature": 0}), settings(url, **changes), on_change)
    await driver.run()
    return driver


def events_of(store: Store, kind: type) -> list:
    """Return the events of a type, in the order of their time."""
    found = [each for each in read_envelopes(store.root) if isinstance(each.event, kind)]
    return [each.event for each in sorted(found, key=lambda each: (each.recorded_at_us, each.sequence))]


class Judge:
    """A judge whose reply depends on the request: given ones in turn, then the last of them for ever."""

    def __init__(self, *replies: str) -> None:
        self.name = JUDGE
        self.requests: list[ModelRequest] = []
        self._replies = replies

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Return the next reply."""
        reply = self._replies[min(len(self.requests), len(self._replies) - 1)]
        self.requests.append(request)
        return text_reply(reply)

    def messages(self, number: int) -> tuple[Message, ...]:
        """The messages of a request."""
        return self.requests[number].messages
