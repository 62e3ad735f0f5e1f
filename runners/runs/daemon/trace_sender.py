"""Sends each finished attempt of a daemon to an OpenTelemetry collector, as OTLP over HTTP.

A run never waits for the collector and never fails with it: only names of attempts are queued here, and their events
are in the store.
"""

import json
from collections import Counter, deque
from collections.abc import Callable

import aiohttp
import anyio
import anyio.to_thread

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.transfer.otlp import is_timed_trial, trace_of
from lhaw_record.recorder.transfer.whole_streams import StreamSelection, whole_streams
from lhaw_record.runners.runs.daemon.messages import TrialChange

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
REQUEST_S = 30.0
_PATH = "/v1/traces"
_TRIES = 3
"""How often an attempt is tried that cannot be read."""
_TRY_AGAIN = (408, 429, 502, 503, 504)
"""With these, and without a reply, the same request is sent again; OTLP 1.10 names the last four."""


class TraceSender:
    """A queue of attempts to send.

    Args:
        store: The store that has their events.
        endpoint: The collector's base URL, such as ``http://localhost:4318``, or the whole URL.
        say: Shows a message to the user.
    """

    def __init__(self, store: Store, endpoint: str, say: Callable[[str], None]) -> None:
        self._store = store
        self._url = endpoint if endpoint.rstrip("/").endswith(_PATH) else endpoint.rstrip("/") + _PATH
        self._say = say
        self._queue: deque[TrialChange] = deque()
        self._tries: Counter[tuple[str, int]] = Counter()
        self._dropped = 0
        self._news = anyio.Event()

    def note(self, change: TrialChange) -> None:
        if change.state in ("finished", "failed"):
            self._queue.append(change)
            self._news.set()

    async def run(self) -> None:
        """Send queued attempts until cancelled. If the collector does not answer, wait longer after each try."""
        wait_s = FIRST_WAIT_S
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_S)) as session:
            while True:
                if not self._queue:
                    self._news = anyio.Event()
                    await self._news.wait()
                elif (problem := await self._sent(session, self._queue[0])) is None:
                    self._queue.popleft()
                    wait_s = FIRST_WAIT_S
                else:
                    if wait_s == FIRST_WAIT_S:
                        self._say(f"{self._url}: {problem}; trials go on, and their traces are sent when it answers")
                    self._queue.rotate(-1)  # the others do not wait for one that cannot be sent
                    await anyio.sleep(wait_s)
                    wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    async def close(self, limit_s: float) -> None:
        """Send once more what is left, and say how many attempts were not sent."""
        with anyio.move_on_after(limit_s, shield=True):
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_S)) as session:
                for _ in range(len(self._queue)):
                    if await self._sent(session, self._queue[0]) is None:
                        self._queue.popleft()
                    else:
                        self._queue.rotate(-1)
        if left := len(self._queue) + self._dropped:
            self._say(
                f"{left} attempts were not sent to {self._url}; the store has them, and "
                f"'lhaw-record export otlp {self._store.name}' writes them"
            )

    async def _sent(self, session: aiohttp.ClientSession, change: TrialChange) -> str | None:
        """Send an attempt, or drop it. Return why it has to be sent again, None if it has not."""
        trial = change.trial
        try:
            body = await anyio.to_thread.run_sync(self._body, change)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one attempt, the others are sent
            self._tries[trial.trial_id, trial.attempt] += 1
            if self._tries[trial.trial_id, trial.attempt] < _TRIES:
                return f"attempt {trial.attempt} of trial {trial.trial_id} cannot be read yet ({error!r})"
            self._drop(f"attempt {trial.attempt} of trial {trial.trial_id} is not sent to {self._url}: {error!r}")
            return None
        try:
            async with session.post(self._url, data=body, headers={"Content-Type": "application/json"}) as reply:
                status, text = reply.status, (await reply.text(errors="replace"))[:200]
        except Exception as error:  # noqa: BLE001 - a run never fails with the collector
            return f"no answer ({str(error) or type(error).__name__})"
        if status in _TRY_AGAIN:
            return f"HTTP {status}"
        if status >= 400:
            self._drop(f"{self._url} refused the trace of trial {trial.trial_id}: HTTP {status} {text}")
        return None

    def _drop(self, reason: str) -> None:
        self._dropped += 1
        self._say(reason)

    def _body(self, change: TrialChange) -> bytes:
        selection = StreamSelection(experiment_id=change.experiment, trial_id=change.trial.trial_id)
        for stream in whole_streams(self._store, selection):
            if is_timed_trial(stream) and stream[0].attempt == change.trial.attempt:
                return json.dumps(trace_of(stream)).encode()
        raise RecorderError("the store has no end of it")
