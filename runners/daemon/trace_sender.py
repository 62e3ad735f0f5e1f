"""Sends each finished attempt of a daemon to an OpenTelemetry collector, as OTLP over HTTP.

A run never waits for the collector and never fails with it: only names of attempts are queued here, and their events
are in the store.
"""

import json
import ssl
from collections import deque
from collections.abc import Callable

import aiohttp
import anyio
import anyio.to_thread

from recorder.errors import RecorderError
from recorder.storage.store import Store
from recorder.transfer.otlp import is_timed_trial, trace_of
from recorder.transfer.whole_streams import Selection, whole_streams
from runners.daemon.messages import TrialChange

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
REQUEST_S = 30.0
_PATH = "/v1/traces"
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
        self._news = anyio.Event()

    def note(self, change: TrialChange) -> None:
        """Queue an attempt that ended."""
        if change.state in ("finished", "failed"):
            self._queue.append(change)
            self._news.set()

    async def run(self) -> None:
        """Send what is queued, until cancelled. If the collector is away, try again with longer and longer waits."""
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
                    await anyio.sleep(wait_s)
                    wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    async def close(self) -> None:
        """Send once more what is left, and say what cannot be sent."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_S)) as session:
            while self._queue and await self._sent(session, self._queue[0]) is None:
                self._queue.popleft()
        if self._queue:
            self._say(
                f"{len(self._queue)} attempts were not sent to {self._url}; the store has them, and "
                f"'lhaw-record export otlp {self._store.name}' writes them"
            )

    async def _sent(self, session: aiohttp.ClientSession, change: TrialChange) -> str | None:
        """Send an attempt. Return why it has to be sent again, None if it has not."""
        try:
            traces = await anyio.to_thread.run_sync(self._traces, change)
        except RecorderError as error:
            return f"the attempt cannot be read yet ({error})"
        for trace in traces:
            try:
                headers = {"Content-Type": "application/json"}
                async with session.post(self._url, data=json.dumps(trace).encode(), headers=headers) as reply:
                    status, text = reply.status, (await reply.text(errors="replace"))[:200]
            except (aiohttp.ClientError, TimeoutError, OSError, ssl.SSLError) as error:
                return f"no answer ({error or type(error).__name__})"
            if status in _TRY_AGAIN:
                return f"HTTP {status}"
            if status >= 400:
                self._say(f"{self._url} refused the trace of trial {change.trial.trial_id}: HTTP {status} {text}")
        return None

    def _traces(self, change: TrialChange) -> list[dict[str, object]]:
        selection = Selection(experiment_id=change.experiment, trial_id=change.trial.trial_id)
        found = [stream for stream in whole_streams(self._store, selection) if is_timed_trial(stream)]
        return [trace_of(stream) for stream in found if stream[0].attempt == change.trial.attempt]
