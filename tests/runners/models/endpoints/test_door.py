"""The door: one for all, in order, with the waiting told apart; and when a dead endpoint is given up."""

import anyio
import msgspec
import pytest

from lhaw_record.runners.models.endpoints.breaker import Breaker
from lhaw_record.runners.models.endpoints.door import Door, door_of
from lhaw_record.runners.models.failures import response_error
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelError
from tests.support.canned_model import text_reply
from tests.support.doors import Unhurried

REPLY = text_reply("done")


def error(kind, status=None, *, is_retryable=True, retry_after_s=None):
    """A failure as a model reports it."""
    return ModelError("no", kind=kind, is_retryable=is_retryable, http_status=status, retry_after_s=retry_after_s)


class Time:
    """A clock that a test moves."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        """The time."""
        return self.now_s


def door_at(time, outage_s=600.0):
    """A door on a test's clock."""
    return Door("m at http://server", breaker=Breaker("m at http://server", outage_s), clock=time)


async def ask(door, failure=None, request="r", seconds=0.0):
    """Send one request through a door: its reply, or its failure."""
    try:
        async with door.passage(lambda: request) as passage:
            if failure is not None:
                raise failure
            return passage.answered(REPLY)
    except ModelError as caught:
        return caught


def test_one_model_address_and_key_have_one_door():
    """Agents, users, judges and the gateway share a door; another key, address or model has its own."""
    one = LitellmModel("m", api_base="http://a/v1", api_key="k").door
    assert LitellmModel("m", api_base="http://a/v1", api_key="k").door is one
    others = [
        LitellmModel("m", api_base="http://a/v1", api_key="other").door,
        LitellmModel("m", api_base="http://b/v1", api_key="k").door,
        LitellmModel("n", api_base="http://a/v1", api_key="k").door,
    ]
    assert len({id(each) for each in (one, *others)}) == 4
    assert "k" not in one.name.removeprefix("m at http://a/v1")


# What the breaker knows after so many failures: kind, status, distinct requests, has answered before, expected outlook
DAYS = {
    "refused connections, never an answer": (error("connection"), 5, 1, False, "down"),
    "refused connections of a server that has answered": (error("connection"), 5, 1, True, "held"),
    "fewer of them": (error("connection"), 4, 4, True, ""),
    "a server error that one request causes": (error("server_error", 500), 9, 1, True, ""),
    "server errors for all requests": (error("server_error", 503), 5, 2, True, "held"),
    "a refused key": (error("authentication", 401, is_retryable=False), 1, 1, True, "down"),
    "an empty account": (error("rate_limit", 429, is_retryable=False), 1, 1, True, "down"),
    "a payment that is due": (error("other", 402, is_retryable=False), 1, 1, True, "down"),
    "moderation of one request": (error("authentication", 403, is_retryable=False), 9, 1, True, ""),
    "paths that are not there": (error("bad_request", 404, is_retryable=False), 5, 5, True, "down"),
    "a path that one request asks for": (error("bad_request", 404, is_retryable=False), 9, 1, True, ""),
    "bad requests": (error("bad_request", 400, is_retryable=False), 9, 9, True, ""),
    "a rate limit": (error("rate_limit", 429), 1, 1, True, "held"),
    "a daily quota": (error("rate_limit", 429, retry_after_s=40_000.0), 1, 1, True, "down"),
}


@pytest.mark.parametrize("day", DAYS.values(), ids=DAYS.keys())
async def test_what_the_door_makes_of_failures_in_a_row(day):
    """One request's own fault blames nobody else; what all requests would meet holds them, or gives the endpoint up."""
    failure, times, distinct, has_answered, outlook = day
    breaker = Breaker("m")
    if has_answered:
        breaker.answered()
    door = Door("m", breaker=breaker, pace=Unhurried())
    for number in range(times):
        again = error(
            failure.kind,
            failure.http_status,
            is_retryable=failure.is_retryable,
            retry_after_s=failure.retry_after_s,
        )
        last = await ask(door, again, request=str(number % distinct))
    assert last.outlook == outlook


async def test_an_endpoint_that_is_down_ends_requests_with_the_reason_and_is_tried_again():
    """Requests end at once, naming the address and the cause; later one tries, and its answer opens the door."""
    time = Time()
    door = door_at(time)
    for _ in range(5):
        await ask(door, error("connection"))
    refused = await ask(door)
    assert (refused.kind, refused.is_retryable, refused.outlook) == ("endpoint_down", False, "down")
    assert "http://server" in str(refused)
    assert "5 requests in a row" in str(refused)
    time.now_s += 100.0
    assert (await ask(door)).message.content == "done"
    assert door.state().why is None


# Bodies as the providers document or send them, in the words of runners/models/failures.py
GONE = {
    "openai": "The model `m` does not exist or you do not have access to it.",
    "anthropic": "model: claude-m",
    "gemini": "models/m is not found for API version v1beta, or is not supported for generateContent.",
    "vllm": "The model `m` does not exist.",
    "ollama": "model 'm' not found",
    "ollama, old": 'model "m" not found, try pulling it first',
    "openrouter": "No endpoints found for some/m.",
    "through litellm": "NotFoundError: OpenAIException - The model `m` does not exist.",
}
NOT_GONE = {
    "fastapi, a wrong path": '{"detail":"Not Found"}',
    "a reply that was not kept": "Item with id 'rs_1' not found. Items are not persisted when `store` is false.",
    "nginx": "<html><h1>404 Not Found</h1></html>",
}


@pytest.mark.parametrize("name", [*GONE, *NOT_GONE])
async def test_a_model_that_its_server_does_not_have_is_given_up_at_once(name):
    """The first request is enough, so that no trial is blamed; another HTTP 404 may be about one request."""
    words = {**GONE, **NOT_GONE}[name]
    failure = response_error(
        404, {}, msgspec.json.encode({"error": {"message": words}}), model="m/model-m", secrets=(), shown={}
    )
    door = Door("m", pace=Unhurried())
    await ask(door)
    assert (await ask(door, failure)).outlook == ("down" if name in GONE else "")


async def down_door(time):
    """A door that has been given up, and may try again."""
    door = Door("m at http://server", pace=Unhurried(), clock=time)
    for _ in range(5):
        await ask(door, error("connection"))
    assert (await ask(door)).outlook == "down"
    door.try_now()
    return door


async def begun(tasks, door, ends, found):
    """Begin a request that ends as it is told: the event that ends it, and the failure or None."""
    is_over = anyio.Event()

    async def go():
        try:
            async with door.passage(lambda: "r") as passage:
                await is_over.wait()
                if ends is not None:
                    raise ends
                found.append(passage.answered(REPLY).message.content)
        except ModelError as caught:
            found.append(caught.kind)

    tasks.start_soon(go)
    await anyio.wait_all_tasks_blocked()
    return is_over


@pytest.mark.parametrize(
    ("ends", "others"),
    [
        (None, "done"),
        (error("connection"), "endpoint_down"),
        (error("bad_request", 400, is_retryable=False), "done"),
        (error("rate_limit", 429, retry_after_s=0.0), "done"),
        ("cancelled", "done"),
    ],
)
async def test_while_one_request_tries_a_dead_endpoint_the_others_wait_for_its_result(ends, others):
    """A new run's requests are not refused because the first of them is still on its way."""
    door, found = await down_door(Time()), []
    async with anyio.create_task_group() as tasks, anyio.create_task_group() as probes:
        is_over = await begun(probes, door, None if ends == "cancelled" else ends, [])
        for _ in range(3):
            (await begun(tasks, door, None, found)).set()
        assert (found, door.state().under_way, door.state().waiting) == ([], 1, 3)
        probes.cancel_scope.cancel() if ends == "cancelled" else is_over.set()
    assert found == [others] * 3


async def test_an_outage_of_a_server_that_has_answered_is_waited_for_and_then_given_up():
    """Its requests are held, not failed; after the outage's limit they end."""
    time = Time()
    door = door_at(time, outage_s=60.0)
    await ask(door)
    outlooks = []
    for number in range(8):
        failed = await ask(door, error("server_error", 503), request=str(number))
        outlooks.append(failed.outlook)
        time.now_s += 61.0 if number == 6 else door.state().held_s + 0.001
    assert outlooks == ["", "", "", "", "held", "held", "held", "down"]


async def held_door(time):
    """A door of a server that has answered before and now fails for everybody; its next try is due."""
    door = door_at(time)
    await ask(door)
    for number in range(5):
        last = await ask(door, error("server_error", 503), request=str(number))
    assert last.outlook == "held"
    time.now_s += door.state().held_s
    return door


@pytest.mark.parametrize("kind", ["bad_request", "context_window", "content_filter"])
async def test_a_refusal_of_one_request_is_an_answer(kind):
    """It ends the outage, and the request is not sent again."""
    door = await held_door(Time())
    refused = await ask(door, error(kind, 400, is_retryable=False))
    assert (refused.outlook, door.state().why, door.state().held_s) == ("", None, 0.0)


async def test_a_refused_path_during_an_outage_gives_up_only_after_as_many_as_without_one():
    """One request that is refused (a moderator's 403, a 404 while a server starts) says little about the endpoint."""
    time = Time()
    door = await held_door(time)
    outlooks = []
    for number in range(5):
        refused = await ask(door, error("authentication", 403, is_retryable=False), request=f"refused {number}")
        outlooks.append(refused.outlook)
        time.now_s += door.state().held_s
    assert outlooks == ["", "", "", "", "down"]
    door = await held_door(Time())
    assert (await ask(door, error("authentication", 401, is_retryable=False))).outlook == "down"


async def test_a_failure_that_would_come_again_is_not_held():
    """What never left this machine says nothing about the endpoint: the next request tries."""
    door = await held_door(Time())
    assert (await ask(door, error("other", is_retryable=False))).outlook == ""
    assert door.state().why is not None
    assert (await ask(door)).message.content == "done"


async def test_only_one_request_at_a_time_tries():
    """However long it takes: the others wait for its end, not for a time."""
    time, found = Time(), []
    door = await held_door(time)
    async with anyio.create_task_group() as tasks:
        is_over = await begun(tasks, door, None, found)
        time.now_s += 3600.0
        (await begun(tasks, door, None, found)).set()
        state = door.state()
        assert (state.under_way, state.waiting, state.held_s, found) == (1, 1, 0.0, [])
        is_over.set()
    assert found == ["done", "done"]


async def test_requests_wait_in_order_and_are_told_how_long():
    """Behind a full door requests go out in the order in which they came; each reply says how long it was held."""
    door, came = Door("m"), []
    release = anyio.Event()

    async def hold():
        async with door.passage(lambda: "first") as passage:
            await release.wait()
            passage.answered(REPLY)

    async def follow(number):
        reply = await ask(door)
        came.append((number, reply.held_s))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(hold)
        await anyio.wait_all_tasks_blocked()
        for number in range(3):
            tasks.start_soon(follow, number)
            await anyio.wait_all_tasks_blocked()
        assert (door.state().under_way, door.state().waiting, came) == (4, 3, [])
        release.set()
    assert [number for number, _ in came] == [0, 1, 2]
    assert all(held_s > 0 for _, held_s in came)


async def test_a_request_that_is_cancelled_leaves_no_trace():
    """Trials that are stopped at the door or on their way free it for the others."""
    door = Door("m")
    async with anyio.create_task_group() as tasks:

        async def never():
            async with door.passage(lambda: "r"):
                await anyio.sleep_forever()

        for _ in range(7):
            tasks.start_soon(never)
        await anyio.wait_all_tasks_blocked()
        assert (door.state().under_way, door.state().waiting) == (4, 3)
        tasks.cancel_scope.cancel()
    assert (door.state().under_way, door.state().waiting) == (0, 0)
    assert (await ask(door)).message.content == "done"


def test_the_registry_keeps_a_door():
    """The same words give the same door for the whole process."""
    assert door_of("m", "a", "") is door_of("m", "a", "")
