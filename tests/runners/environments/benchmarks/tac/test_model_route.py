"""The route to an evaluator's model, asked by litellm, as published evaluators ask."""

import subprocess
import sys
from pathlib import Path

import anyio
import openai
import pytest

from lhaw_record.runners.base.clock import TrialClock, held
from lhaw_record.runners.base.errors import GraderError
from lhaw_record.runners.environments.benchmarks.tac import route_program
from lhaw_record.runners.environments.benchmarks.tac.model_route import ModelRoute
from lhaw_record.runners.environments.sandboxes.docker.sidecar import LineChannel
from lhaw_record.runners.models.litellm_library import litellm_library

litellm = litellm_library()
pytestmark = pytest.mark.anyio
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


class _Pipe:
    """The standard input of a process, as a transport."""

    def __init__(self, process):
        self._process = process

    def write(self, data):
        """Send bytes."""
        self._process.stdin.write(data)
        self._process.stdin.flush()


class _LocalChannel(LineChannel):
    def connection_made(self, transport):
        """Keep a pipe in place of a transport."""
        self._transport = transport


def started():
    """Start the program here, with a key."""
    command = [sys.executable, "-c", Path(route_program.__file__).read_text(), "k1"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


async def asked(ask, *requests, key="k1", clock=None):
    """Run the program beside us and send requests by litellm; returns what came back and the route's failure."""
    process = started()
    answers = []

    def complete(messages, url):
        # A client of our own can be closed; litellm would keep its own open.
        with openai.OpenAI(api_key=key, base_url=url, max_retries=2, timeout=300) as client:
            reply = litellm.completion(model="openai/gpt-4o", messages=messages, client=client, timeout=300)
        return reply.json()["choices"][0]["message"]["content"]

    with _LocalChannel() as channel:
        channel.connection_made(_Pipe(process))
        route = ModelRoute(channel, {}, clock or TrialClock())
        port = int(await anyio.to_thread.run_sync(process.stdout.readline))

        async def read():
            while line := await anyio.to_thread.run_sync(process.stdout.readline):
                channel.data_received(line)

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            group.start_soon(route.serve, ask)
            for messages in requests:
                try:
                    answers.append(await anyio.to_thread.run_sync(complete, messages, f"http://127.0.0.1:{port}/v1"))
                except (litellm.BadRequestError, litellm.AuthenticationError) as error:
                    answers.append(type(error).__name__)
            process.stdin.close()
            await anyio.to_thread.run_sync(process.wait)
            group.cancel_scope.cancel()
    process.stdout.close()
    return answers, route.failure


def question(*parts, role="user"):
    """Return a message of the form that published evaluators send."""
    return {"role": role, "content": list(parts)}


def text(words):
    """Return a part of a message."""
    return {"type": "text", "text": words}


async def test_litellm_gets_the_judges_words():
    """Texts arrive as they are, in one part or several, and a system prompt where there is one."""
    seen = []

    async def ask(system, user):
        seen.append((system, user))
        return f"Yes, {len(seen)}."

    plain = {"role": "user", "content": "Is it?\né"}
    answers, failure = await asked(
        ask, [plain], [{"role": "system", "content": "Be brief."}, question(text("a"), text("b"))]
    )
    assert (answers, failure) == (["Yes, 1.", "Yes, 2."], None)
    assert seen == [("", "Is it?\né"), ("Be brief.", "a\nb")]


@pytest.mark.thorough
async def test_what_the_route_does_not_carry_is_told():
    """Pictures and several turns are refused once, whatever the evaluator makes of it; the judge is not asked."""

    async def ask(system, user):
        raise AssertionError

    answers, failure = await asked(ask, [question(text("a"), PICTURE)], [question(text("a"))])
    assert answers == ["BadRequestError", "BadRequestError"]
    assert (failure.kind, failure.is_retry_owed) == ("model_unfit", False)
    assert "benchmark.asks_directly" in str(failure)
    several = [question(text("a")), {"role": "assistant", "content": "b"}, question(text("c"))]
    assert (await asked(ask, several))[1].kind == "model_unfit"


async def test_a_judge_that_fails_fails_the_trial():
    """The first failure stands, also where the evaluator goes on; a stranger's key gets nothing."""

    async def ask(system, user):
        raise GraderError("no credit", kind="out_of_credit")

    answers, failure = await asked(ask, [question(text("a"))])
    assert answers == ["BadRequestError"]
    assert failure.kind == "out_of_credit"
    assert await asked(ask, [question(text("a"))], key="k2") == (["AuthenticationError"], None)


@pytest.mark.thorough
async def test_a_question_that_is_too_large_is_told():
    """It is not left to the evaluator, which would make a false of it; the route's container has little memory."""

    async def ask(system, user):
        raise AssertionError

    answers, failure = await asked(ask, [question(text("a" * (5 << 20)))])
    assert answers == ["BadRequestError"]
    assert (failure.kind, failure.is_retry_owed) == ("model_unfit", False)


async def test_a_turn_at_the_door_is_not_the_evaluators():
    """The clock that bounds the evaluator stands still while its question waits to be sent."""
    now_s = [0.0]
    clock = TrialClock(600.0, now_s=lambda: now_s[0])

    async def ask(system, user):
        with held():
            now_s[0] += 10_000.0
        return "Yes."

    answers, _ = await clock.bound(lambda: asked(ask, [question(text("a"))], clock=clock))
    assert answers == ["Yes."]
    assert clock.charged_s == 0.0
