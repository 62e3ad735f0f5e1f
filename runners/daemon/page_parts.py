"""The parts of the page as HTML: every value that comes from outside is escaped where it is put in."""

import time
from collections.abc import Iterable, Sequence
from html import escape

from runners.daemon.messages import MOST_AT_A_TIME, Cell, DaemonFacts, Detail, LiveTrial, Overview

_WORDS = {"cost_limit": "stopped by its cost limit"}
_EMPTY = "<p>Nothing was submitted yet. Submit an experiment file with <code>lhaw-record submit FILE</code>.</p>"
_ORDERS = {
    "running": ("pause", "cancel"),
    "waiting": ("pause", "cancel"),
    "pausing": ("resume", "cancel"),
    "paused": ("resume", "cancel"),
    "problem": ("resume", "cancel"),
    "failed": ("requeue", "cancel"),
    "cost_limit": ("cancel",),
}


def experiments_page(facts: DaemonFacts, overviews: Sequence[Overview]) -> str:
    """Return the page of all experiments."""
    heads = ("Experiment", "State", "Trials", "Time left", "Cost, USD", "Failed attempts", "Running")
    rows = "".join(_row(each) for each in overviews)
    table = f"<table>{_head(heads)}<tbody>{rows}</tbody></table>" if overviews else _EMPTY
    body = f"<h2>Experiments</h2>{_part('experiments', table)}"
    return _page("Experiments", facts, body, follow="")


def experiment_page(facts: DaemonFacts, detail: Detail) -> str:
    """Return the page of one experiment."""
    overview = detail.overview
    name = escape(overview.name)
    body = (
        f'<p><a href="/">All experiments</a></p><h2>{name}</h2>'
        + _part("standing", _standing(overview))
        + _part("orders", _orders(overview))
        + _tuning(overview)
        + f"<h3>Finished of planned trials</h3>{_part('cells', _cells(detail.cells))}"
        + f"<h3>Failed attempts by boundary</h3>{_part('failures', _failures(overview))}"
        + f"<h3>Live trials</h3>{_part('live', _live(detail.live))}"
        + f'<p class="quiet">From {escape(detail.path)}, submitted by {escape(overview.submitted_by)} '
        f"{_moment(overview.submitted_at_us)}. Its ended trials and tables are in "
        f'<a href="/report?experiment={name}">its report</a>; the report above is of the whole store.</p>'
    )
    return _page(overview.name, facts, body, follow=overview.name)


def sign_in_page(*, has_token: bool) -> str:
    """Return the page on which a person gives the token."""
    form = (
        '<form id="sign-in"><label for="token">The LHAW_RECORD_TOKEN that the daemon was started with</label>'
        '<input id="token" type="password" autocomplete="current-password" required>'
        "<button>Sign in</button></form>"
    )
    return _page("Sign in", None, form if has_token else '<p>No token is needed. <a href="/">Go on</a></p>')


def problem_page(message: str) -> str:
    """Return a page that says why there is no other."""
    return _page("Not shown", None, f'<h2>Not shown</h2><p>{escape(message)}</p><p><a href="/">All experiments</a></p>')


def _page(title: str, facts: DaemonFacts | None, body: str, follow: str | None = None) -> str:
    following = "" if follow is None else f' data-follow="{escape(follow)}"'
    store = f'<span class="quiet">{escape(facts.store)}</span>' if facts else ""
    links = '<nav><a href="/report">Report and trials</a><a href="/openapi.json">API</a></nav>' if facts else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} · lhaw-record</title>"
        '<link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/page.css">'
        '<script src="/static/page.js" defer></script></head>'
        f'<body{following}><header><h1><a href="/">lhaw-record</a></h1>{store}{links}'
        '<span id="connection" class="quiet" role="status"></span></header>'
        f'<main><p id="problem" role="alert" hidden></p>{body}</main></body></html>'
    )


def _part(place: str, html: str) -> str:
    """A part of the page that the script puts in anew when it has changed."""
    return f'<div id="{place}" class="wide" data-live tabindex="-1">{html}</div>'


def _row(each: Overview) -> str:
    name = escape(each.name)
    cells = (
        f'<th scope="row"><a href="/experiments/{name}">{name}</a></th>',
        f"<td>{_state(each)}</td>",
        f"<td>{_progress(each)}</td>",
        f'<td class="number">{_duration(each.left_s)}</td>',
        f'<td class="number">{_cost(each)}</td>',
        f"<td>{_failure_words(each)}</td>",
        f'<td class="number">{each.running}</td>',
    )
    return f"<tr>{''.join(cells)}</tr>"


def _standing(each: Overview) -> str:
    facts = {
        "State": _state(each),
        "Trials": _progress(each),
        "Running": f"{each.running} of at most {each.concurrency}",
        "Time left": _duration(each.left_s),
        "Cost, USD": _cost(each),
        "Given up": f"{each.given_up} trials",
    }
    return "<dl>" + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items()) + "</dl>"


def _state(each: Overview) -> str:
    words = escape(_WORDS.get(each.state, each.state))
    problem = f'<p class="bad">{escape(each.problem)}</p>' if each.problem else ""
    return f'<span class="state {escape(each.state)}">{words}</span>{problem}'


def _progress(each: Overview) -> str:
    if each.planned is None or each.finished is None:
        return "not planned yet"
    words = f"{each.finished:,} of {each.planned:,}"
    return f'<progress value="{each.finished}" max="{max(each.planned, 1)}" aria-label="{words}"></progress> {words}'


def _cost(each: Overview) -> str:
    limit = "" if each.max_cost_usd is None else f" of {each.max_cost_usd:g}"
    if not each.unpriced:
        return f"{each.spent_usd:.4f}{limit}"
    return (f"{each.spent_usd:.4f} and {each.unpriced:,} unknown" if each.spent_usd else "unknown") + limit


def _failure_words(each: Overview) -> str:
    return escape(", ".join(f"{boundary} {count:,}" for boundary, count in sorted(each.failures.items()))) or "none"


def _orders(each: Overview) -> str:
    words = {"requeue": f"Try {each.given_up} failed trials again"}
    confirm = ' data-confirm="End the running trials and do not start again?"'
    buttons = (
        f'<button data-order="/api/experiments/{escape(each.name)}/{verb}"{confirm if verb == "cancel" else ""}>'
        f"{words.get(verb, verb.capitalize())}</button>"
        for verb in _ORDERS.get(each.state, ())
    )
    return "".join(buttons)


def _tuning(each: Overview) -> str:
    return (
        f'<form class="tuning" data-order="/api/experiments/{escape(each.name)}/concurrency">'
        f'<label for="concurrency">Trials at a time</label><input id="concurrency" name="concurrency" type="number" '
        f'min="1" max="{MOST_AT_A_TIME}" value="{each.concurrency}" required><button>Change</button></form>'
    )


def _cells(cells: Iterable[Cell]) -> str:
    found = {(cell.agent, cell.condition): cell for cell in cells}
    if not found:
        return "<p>Not planned yet.</p>"
    agents = list(dict.fromkeys(agent for agent, _ in found))
    conditions = list(dict.fromkeys(condition for _, condition in found))
    rows = (
        f'<tr><th scope="row">{escape(condition)}</th>'
        + "".join(_cell(found.get((agent, condition))) for agent in agents)
        + "</tr>"
        for condition in conditions
    )
    return f"<table>{_head(('Condition', *map(escape, agents)))}<tbody>{''.join(rows)}</tbody></table>"


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return '<td class="number">-</td>'
    running = f' <span class="busy">+{cell.running}</span>' if cell.running else ""
    done = ' class="number good"' if cell.finished == cell.planned else ' class="number"'
    return f"<td{done}>{cell.finished:,} of {cell.planned:,}{running}</td>"


def _failures(each: Overview) -> str:
    if not each.failures:
        return "<p>None.</p>"
    rows = (
        f'<tr><th scope="row">{escape(boundary)}</th><td class="number">{count:,}</td></tr>'
        for boundary, count in sorted(each.failures.items())
    )
    return f"<table>{_head(('Boundary', 'Attempts'))}<tbody>{''.join(rows)}</tbody></table>"


def _live(trials: Sequence[LiveTrial]) -> str:
    if not trials:
        return "<p>None.</p>"
    rows = "".join(
        f"<tr><td><code>{escape(each.trial_id[:12])}</code></td><td>{escape(each.agent)}</td>"
        f"<td>{escape(each.condition)}</td><td>{escape(each.variant_id or each.task_id)}</td>"
        f'<td class="number">{each.attempt}</td><td>{_moment(each.began_at_us)}</td></tr>'
        for each in trials
    )
    heads = ("Trial", "Agent", "Condition", "Task or variant", "Attempt", "Since")
    return f"<table>{_head(heads)}<tbody>{rows}</tbody></table>"


def _head(names: Iterable[str]) -> str:
    return "<thead><tr>" + "".join(f'<th scope="col">{name}</th>' for name in names) + "</tr></thead>"


def _moment(at_us: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_us / 1e6))


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
