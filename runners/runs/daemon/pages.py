"""The web pages. They are rendered from the messages of the API, and their script reloads them after changes."""

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from lhaw_record.recorder.events import NoteCause
from lhaw_record.recorder.html_templates import VIEWER, render
from lhaw_record.recorder.resources import data_path
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.wording import CONDITION_LABELS
from lhaw_record.recorder.writing.redaction import Redactor, secrets_of
from lhaw_record.runners.models.gateway.relay import OPEN
from lhaw_record.runners.runs.daemon.daemon import Daemon
from lhaw_record.runners.runs.daemon.endpoints import RequestHandler, refusal_of
from lhaw_record.runners.runs.daemon.messages import (
    MOST_AT_A_TIME,
    CellCounts,
    DaemonFacts,
    DaemonRefusal,
    Detail,
    Overview,
)
from lhaw_record.runners.runs.daemon.orders import is_attempt, known
from lhaw_record.runners.runs.live_progress import duration
from lhaw_record.runners.users.simulated_user.person import open_questions

REPORT_HEADERS = {"content-security-policy": "frame-ancestors 'none'"}
"""The headers of the report. It contains its own, stricter policy; the daemon's would forbid its inline script."""

MakeReport = Callable[[Path, str | None], bytes]
"""A function that returns the report on a store, or on one experiment in it.

It is passed in, because this layer cannot import the report.
"""

ReadAttempt = Callable[[Path, str], bytes]
"""A function that returns what the viewer shows of one attempt as JSON, from a store and the id of its stream.

It is passed in, because this layer cannot import the report.
"""

_KEPT = 8  # a report may have some megabytes

_ORDERS = {
    "running": ("pause", "cancel"),
    "waiting": ("pause", "cancel"),
    "pausing": ("resume", "cancel"),
    "paused": ("resume", "cancel"),
    "problem": ("resume", "cancel"),
    "failed": ("requeue", "cancel"),
    "cost_limit": ("cancel",),
}
"""The orders that the page of an experiment offers, by the experiment's state."""


def page_routes(daemon: Daemon, reports: "Reports", read_attempt: ReadAttempt, *, has_token: bool) -> list[BaseRoute]:
    async def experiments(_: Request) -> Response:
        listing = daemon.listing()
        return _page(
            "experiments",
            "Experiments",
            facts=daemon.facts(),
            follow="",
            overviews=listing.experiments,
            endpoints=listing.endpoints,
            cost=_cost,
            duration=_duration,
        )

    async def experiment(request: Request) -> Response:
        entry = known(daemon, request.path_params["name"])
        return _experiment_page(daemon.facts(), daemon.detail(entry.name))

    async def attempt(request: Request) -> Response:
        name, stream_id = request.path_params["name"], request.path_params["stream_id"]
        await check(stream_id)
        return _page(
            "attempt",
            stream_id,
            facts=daemon.facts(),
            name=name,
            is_known=name in daemon.queue.entries,
            stream_id=stream_id,
            causes=get_args(NoteCause),
            labels=json.dumps({"condition": CONDITION_LABELS}),
            scripts=(*VIEWER[2:], "unpack.js", "attempt.js"),
        )

    async def attempt_data(request: Request) -> Response:
        stream_id = request.path_params["stream_id"]
        await check(stream_id)
        data = await anyio.to_thread.run_sync(read_attempt, daemon.store.root, stream_id)
        return Response(data, media_type="application/json")

    async def check(stream_id: str) -> None:
        if not await anyio.to_thread.run_sync(is_attempt, daemon.store, stream_id):
            raise DaemonRefusal(f"there is no attempt {stream_id!r}", kind="not_found", status=404)

    async def submit(_: Request) -> Response:
        return _page("submit", "Submit an experiment", facts=daemon.facts(), folder=str(Path.cwd()))

    async def report(request: Request) -> Response:
        chosen = request.query_params.get("experiment")
        page = await reports.page(None if chosen is None else known(daemon, chosen).name)
        return HTMLResponse(page, headers=REPORT_HEADERS)

    async def sign_in(_: Request) -> Response:
        return _page("sign_in", "Sign in", has_token=has_token)

    return [
        Route("/", shown(experiments)),
        Route("/experiments/{name}", shown(experiment)),
        Route("/experiments/{name}/attempts/{stream_id}", shown(attempt)),
        Route("/questions", shown(partial(_questions_page, daemon))),
        Route("/questions/{question_id}", shown(partial(_questions_page, daemon))),
        Route("/experiments/{name}/attempts/{stream_id}/data", shown(attempt_data)),
        Route("/experiments/{name}/attempts/{stream_id}/writing", shown(_writing)),
        Route("/submit", shown(submit)),
        Route("/report", shown(report)),
        Route("/sign-in", shown(sign_in)),
        Mount("/static", app=StaticFiles(directory=data_path("page", "static"))),
    ]


async def _writing(request: Request) -> Response:
    """Answer with what the models of an attempt have written of the replies that are streamed now."""
    trial_id = request.path_params["stream_id"].partition("-")[0]
    clean = Redactor(secrets_of(os.environ)).clean_text
    return JSONResponse([clean(each.written) for (of, _), each in list(OPEN.items()) if of == trial_id])


async def _questions_page(daemon: Daemon, request: Request) -> Response:
    waiting = open_questions(daemon.store.questions_dir)
    chosen = request.path_params.get("question_id")
    asked = next((each for each in waiting if each.question_id == chosen), None)
    if chosen and asked is None:
        raise DaemonRefusal("this question is answered, or its trial has ended", kind="not_open", status=404)
    follow: dict[str, Any] = {} if asked else {"follow": ""}
    return _page("questions", "Questions", facts=daemon.facts(), waiting=waiting, asked=asked, **follow)


def _experiment_page(facts: DaemonFacts, detail: Detail) -> Response:
    conditions: dict[str, dict[str, CellCounts]] = {}
    for cell in detail.cells:
        conditions.setdefault(cell.condition, {})[cell.agent] = cell
    return _page(
        "experiment",
        detail.overview.name,
        facts=facts,
        follow=detail.overview.name,
        overview=detail.overview,
        path=detail.path,
        orders=_ORDERS.get(detail.overview.state, ()),
        most_at_a_time=MOST_AT_A_TIME,
        agents=list(dict.fromkeys(cell.agent for cell in detail.cells)),
        conditions=conditions,
        trials=detail.live,
        labels=CONDITION_LABELS,
        cost=_cost,
        duration=_duration,
        moment=_moment,
    )


def _page(template: str, title: str, status: int = 200, **values: Any) -> Response:
    return HTMLResponse(render(f"page/{template}.html", title=title, **values), status)


def shown(answer: RequestHandler) -> RequestHandler:
    """Wrap a page handler so that an error becomes a page with the error message."""

    async def page(request: Request) -> Response:
        try:
            return await answer(request)
        except Exception as error:  # noqa: BLE001 - turned into a reply in one place
            refusal = refusal_of(error)
            return _page("problem", "Not shown", refusal.status, message=str(refusal))

    return page


class Reports:
    """The reports on one store. The latest reports are cached until the store changes.

    Args:
        store: The store.
        make: A function that makes a report. It is called in a thread, one call at a time.
    """

    def __init__(self, store: Store, make: MakeReport) -> None:
        self._store = store
        self._make = make
        self._lock = anyio.Lock()
        self._kept: dict[str | None, tuple[frozenset[tuple[str, int]], bytes]] = {}

    async def page(self, experiment: str | None = None) -> bytes:
        async with self._lock:
            state = await anyio.to_thread.run_sync(self._state)
            made, page = self._kept.pop(experiment, (None, b""))
            if made != state:
                page = await anyio.to_thread.run_sync(self._make, self._store.root, experiment)
            self._kept[experiment] = state, page
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
            return page

    def _state(self) -> frozenset[tuple[str, int]]:
        """Return the names and sizes of journals and segments, which change with every event."""
        found = set()
        for path in (*self._store.journals().values(), *self._store.segment_paths()):
            try:
                found.add((path.name, path.stat().st_size))
            except FileNotFoundError:
                continue  # sealed or merged meanwhile; the new file changes the state as well
        return frozenset(found)


def _cost(each: Overview) -> str:
    limit = "" if each.max_cost_usd is None else f" of {each.max_cost_usd:g}"
    if not each.unpriced:
        return f"{each.spent_usd:.4f}{limit}"
    return (f"{each.spent_usd:.4f} and {each.unpriced:,} unknown" if each.spent_usd else "unknown") + limit


def _moment(at_us: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_us / 1e6))


def _duration(seconds: float | None) -> str:
    return "-" if seconds is None else duration(round(seconds))
