"""The web page: rendered here, whole, from the same messages as the API; its script only asks for it again."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from recorder.resources import data_path
from runners.daemon.daemon import Daemon
from runners.daemon.errors import DaemonRefusal
from runners.daemon.page_parts import experiment_page, experiments_page, problem_page, sign_in_page
from runners.daemon.replies import refusal_of
from runners.daemon.reports import Reports

REPORT_HEADERS = {"content-security-policy": "frame-ancestors 'none'"}
"""The report brings its own policy, which lets nothing load; the daemon's would forbid its one inline script."""

Answer = Callable[[Request], Awaitable[Response]]


def page_routes(daemon: Daemon, reports: Reports, *, has_token: bool) -> list[BaseRoute]:
    """Return the routes of the page.

    Args:
        daemon: What it shows.
        reports: Makes the report of the store.
        has_token: Whether people sign in.
    """

    async def experiments(_: Request) -> Response:
        return HTMLResponse(experiments_page(daemon.facts(), [daemon.overview(name) for name in daemon.queue.entries]))

    def known(name: str) -> str:
        if name not in daemon.queue.entries:
            message = f"experiment {name!r} was not submitted to this daemon"
            raise DaemonRefusal(message, kind="unknown", status=404)
        return name

    async def experiment(request: Request) -> Response:
        name = known(request.path_params["name"])
        return HTMLResponse(experiment_page(daemon.facts(), daemon.detail(name)))

    async def report(request: Request) -> Response:
        chosen = request.query_params.get("experiment")
        page = await reports.page(None if chosen is None else known(chosen))
        return HTMLResponse(page, headers=REPORT_HEADERS)

    async def sign_in(_: Request) -> Response:
        return HTMLResponse(sign_in_page(has_token=has_token))

    return [
        Route("/", _shown(experiments)),
        Route("/experiments/{name}", _shown(experiment)),
        Route("/report", _shown(report)),
        Route("/sign-in", _shown(sign_in)),
        Mount("/static", app=StaticFiles(directory=data_path("daemon"))),
    ]


def _shown(answer: Answer) -> Answer:
    """Turn what an answer refuses into a page that says why."""

    async def shown(request: Request) -> Response:
        try:
            return await answer(request)
        except Exception as error:  # noqa: BLE001 - turned into a reply in one place
            refusal = refusal_of(error)
            return HTMLResponse(problem_page(str(refusal)), refusal.status)

    return shown
