"""ticket-digest: find the tickets that took longer than agreed, report them by owner, escalate the worst."""

import datetime as dt
import json
import random
import re
from decimal import Decimal
from functools import cache

import msgspec

from runners.benchmarks.desk.delivered import Delivered, Unmet
from runners.benchmarks.desk.files import Cell, Files, csv_text
from runners.benchmarks.desk.template import DeskCheckpoint, DeskTask
from runners.benchmarks.desk.words import mentions, number

MEASURES = ("first reply", "resolution")
HOLD_COUNTS = "time on hold counts like any other time"
HOLD_IS_TAKEN_OFF = "time on hold is taken off"
BY_NAME = "in the alphabetical order of the names"
BY_BREACHES = "the owner with the most breaches first"
OVERRUN_UNITS = {"minutes": (Decimal(1), Decimal(1)), "hours with one decimal": (Decimal(60), Decimal("0.1"))}
"""How an overrun is written: how many minutes one is worth, and its last digit."""
LINE_FORMS = (
    "<ticket> | <customer> | <overrun>",
    "<overrun>: <ticket> (<priority>), <customer>",
    "[<priority>] <customer>, <ticket>: <overrun>",
)
PRIORITIES = ("P1", "P2", "P3", "P4")
TIERS = ("Gold", "Silver", "Bronze")
_LIMIT_HOURS = {
    "first reply": {"P1": (1, 2, 4), "P2": (4, 6, 8), "P3": (8, 16, 24), "P4": (24, 36, 48)},
    "resolution": {"P1": (8, 12, 24), "P2": (24, 36, 48), "P3": (60, 80, 120), "P4": (120, 160, 200)},
}
_OWNERS = ("Noor Haidari", "Pavel Hruby", "Greta Olsen", "Samir Aziz", "Ivy Chen")
_CUSTOMERS = (
    "Albion Freight", "Borealis Foods", "Cobalt Works", "Delta Optics", "Ember Hotels", "Fjord Lines",
    "Granite Bank", "Harbour Clinic", "Indigo Print", "Juno Rail", "Krone Seeds", "Lumen Schools",
)  # fmt: skip
_TIMES = "%Y-%m-%d %H:%M"


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What the prompt says; the words for rules, orders, units and forms are the constants above."""

    ticket_file: str = "tickets_monday.csv"
    start_date: str = "2025-06-03"
    end_date: str = "2025-06-13"
    measure: str = "first reply"
    hold_rule: str = HOLD_IS_TAKEN_OFF
    as_of: str = "2025-06-16 08:00"
    digest_file: str = "sla_digest.md"
    owner_order: str = BY_BREACHES
    line_form: str = LINE_FORMS[1]
    overrun_unit: str = "minutes"
    escalation_file: str = "escalation.txt"
    recipient: str = "m.achterberg@fernhill.example"
    escalation_hours: str = "8"
    seed: int = 2


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the export; times without zone, hold in minutes before the first reply and before the resolution."""

    ticket: str
    created: dt.datetime
    customer: str
    priority: str
    owner: str
    first_reply: dt.datetime | None
    resolved: dt.datetime | None
    hold_before_reply: int
    hold_before_resolution: int

    def cells(self) -> dict[str, str]:
        """Return the row as it stands in the file, by column."""
        return {
            name: "" if value is None else f"{value:{_TIMES}}" if isinstance(value, dt.datetime) else str(value)
            for name, value in msgspec.structs.asdict(self).items()
        }


class Breach(msgspec.Struct, frozen=True):
    """A ticket and how many minutes it is beyond its limit."""

    ticket: Ticket
    overrun_minutes: int


def build(parameters: Parameters) -> Files:
    """Make the workspace: the export, an earlier one in the same form, policy, tiers, contacts, a log of the exports."""
    tickets = _tickets(parameters)
    ending = parameters.ticket_file.rpartition(".")[2]
    folder = parameters.ticket_file.rpartition("/")[0]
    other = f"{folder}/tickets_friday.{ending}".lstrip("/")
    if other == parameters.ticket_file:
        other = other.replace("friday", "thursday")
    as_of = dt.datetime.fromisoformat(parameters.as_of)
    before = as_of - dt.timedelta(days=3)
    earlier = _as_seen_at(tickets, before)
    return {
        parameters.ticket_file: _export(tickets, ending),
        other: _export(earlier, ending),
        "sla_policy.md": _policy_text(),
        "customers.xlsx": {"Customers": _customers_sheet(parameters)},
        "contacts.md": (
            "# Contacts\n\n- Team lead support: Lena Brandt, l.brandt@fernhill.example\n"
            "- Account management: Otto Wirth, o.wirth@fernhill.example\n"
            f"- Escalations go to the head of support: {parameters.recipient}\n"
            "- Facilities: desk@fernhill.example\n"
        ),
        "export_log.txt": (
            f"{before:{_TIMES}} exported {other}, {len(earlier)} tickets\n"
            f"{as_of:{_TIMES}} exported {parameters.ticket_file}, {len(tickets)} tickets\n"
        ),
    }


@cache
def _tickets(parameters: Parameters) -> tuple[Ticket, ...]:
    """Some weeks of tickets in order of creation, from before the period until after it."""
    chance = random.Random(parameters.seed)  # noqa: S311  reproducible test data, not secrets
    as_of = dt.datetime.fromisoformat(parameters.as_of)
    first = dt.datetime(2025, 5, 28, 7)  # noqa: DTZ001  the file says UTC once, not in every cell
    minutes = int((as_of - first).total_seconds() // 60) - 600
    created = sorted(first + dt.timedelta(minutes=chance.randrange(minutes)) for _ in range(110))
    return tuple(_drawn_ticket(chance, parameters, f"T-{4100 + 3 * place}", at) for place, at in enumerate(created))


def _drawn_ticket(chance: random.Random, parameters: Parameters, ticket: str, created: dt.datetime) -> Ticket:
    as_of = dt.datetime.fromisoformat(parameters.as_of)
    customer, priority = chance.choice(_CUSTOMERS), chance.choices(PRIORITIES, (2, 4, 5, 3))[0]
    tier = _tier(parameters, customer)
    reply_minutes = int(60 * _limit_hours("first reply", priority, tier) * chance.choice((0.2, 0.4, 0.7, 1, 1.15, 1.6, 3)))
    held = int(reply_minutes * chance.choice((0, 0, 0, 0.2, 0.4)))
    more_minutes = int(60 * _limit_hours("resolution", priority, tier) * chance.choice((0.2, 0.5, 0.8, 0.95, 1.1, 1.5)))
    first_reply: dt.datetime | None = created + dt.timedelta(minutes=reply_minutes)
    resolved: dt.datetime | None = created + dt.timedelta(minutes=reply_minutes + more_minutes)
    is_open = chance.random() < 0.06
    return Ticket(
        ticket=ticket,
        created=created,
        customer=customer,
        priority=priority,
        owner=chance.choices(_OWNERS, (7, 5, 4, 3, 2))[0],
        first_reply=first_reply if first_reply and first_reply < as_of and not is_open else None,
        resolved=resolved if resolved and resolved < as_of and not is_open else None,
        hold_before_reply=held,
        hold_before_resolution=held + int(more_minutes * chance.choice((0, 0, 0.1, 0.3))),
    )


def _as_seen_at(tickets: tuple[Ticket, ...], moment: dt.datetime) -> list[Ticket]:
    """What an earlier export says: later tickets, replies and resolutions are not in it."""
    return [
        msgspec.structs.replace(
            item,
            first_reply=item.first_reply if item.first_reply and item.first_reply < moment else None,
            resolved=item.resolved if item.resolved and item.resolved < moment else None,
        )
        for item in tickets
        if item.created < moment
    ]


def _export(tickets: tuple[Ticket, ...] | list[Ticket], ending: str) -> str:
    if ending == "jsonl":
        return "".join(f"{json.dumps(item.cells())}\n" for item in tickets)
    return csv_text([Ticket.__struct_fields__, *(item.cells().values() for item in tickets)])


def _tier(parameters: Parameters, customer: str) -> str:
    return TIERS[(_CUSTOMERS.index(customer) * 5 + parameters.seed) % len(TIERS)]


def _customers_sheet(parameters: Parameters) -> list[list[Cell]]:
    rows = [[f"C-{70 + place}", customer, _tier(parameters, customer)] for place, customer in enumerate(_CUSTOMERS)]
    return [["customer_id", "customer", "tier"], *rows]


def _policy_text() -> str:
    parts = ["# Service levels\n\nHours that a ticket may take at most, by priority and tier. A limit that is just met is met.\n"]
    for measure, limits in _LIMIT_HOURS.items():
        rows = "\n".join(f"| {priority} | {' | '.join(map(str, hours))} |" for priority, hours in limits.items())
        parts.append(f"\n## Time to {measure}\n\n| priority | {' | '.join(TIERS)} |\n| --- | --- | --- | --- |\n{rows}\n")
    return "".join(parts)


def _limit_hours(measure: str, priority: str, tier: str) -> int:
    return _LIMIT_HOURS[measure][priority][TIERS.index(tier)]


@cache
def _breaches(parameters: Parameters) -> tuple[Breach, ...]:
    """Every breach, the largest overrun first."""
    is_reply = parameters.measure == "first reply"
    found = []
    for item in _tickets(parameters):
        if not parameters.start_date <= f"{item.created:%Y-%m-%d}" <= parameters.end_date:
            continue
        end = (item.first_reply if is_reply else item.resolved) or dt.datetime.fromisoformat(parameters.as_of)
        taken = int((end - item.created).total_seconds() // 60)
        if parameters.hold_rule == HOLD_IS_TAKEN_OFF:
            taken -= item.hold_before_reply if is_reply else item.hold_before_resolution
        overrun = taken - 60 * _limit_hours(parameters.measure, item.priority, _tier(parameters, item.customer))
        if overrun > 0:
            found.append(Breach(item, overrun))
    return tuple(sorted(found, key=lambda breach: (-breach.overrun_minutes, breach.ticket.ticket)))


def _ids(text: str) -> list[str]:
    return re.findall(r"\bT-\d+\b", text)


def _sections(left: Delivered, parameters: Parameters) -> list[tuple[str, list[str]]]:
    """Each owner's heading with the lines below it that name a ticket, in the order of the digest."""
    sections: list[tuple[str, list[str]]] = []
    for line in left.text(parameters.digest_file).splitlines():
        if line.lstrip().startswith("#"):
            owner = next((owner for owner in _OWNERS if mentions(line, owner)), "")
            sections.append((owner, []))
        elif _ids(line):
            if not sections:
                sections.append(("", []))
            sections[-1][1].append(line)
    return sections


def _check_breaches(left: Delivered, parameters: Parameters) -> str:
    listed = sorted(ticket for _, lines in _sections(left, parameters) for line in lines for ticket in _ids(line))
    expected = sorted(breach.ticket.ticket for breach in _breaches(parameters))
    if listed != expected:
        raise Unmet(f"{len(listed)} tickets are listed, {len({*listed} & {*expected})} of the {len(expected)} breaches")
    return f"the {len(expected)} breaches are listed, each once"


def _check_owners(left: Delivered, parameters: Parameters) -> str:
    """Each owner's section holds exactly that owner's breaches, and the sections stand in the demanded order."""
    sections = [(owner, lines) for owner, lines in _sections(left, parameters) if lines]
    expected: dict[str, list[str]] = {}
    for breach in _breaches(parameters):
        expected.setdefault(breach.ticket.owner, []).append(breach.ticket.ticket)
    names = [owner for owner, _ in sections]
    if sorted(names) != sorted(expected):
        raise Unmet("the sections are not one for each owner of a breach")
    wrong = [owner for owner, lines in sections if sorted(_ids(" ".join(lines))) != sorted(expected[owner])]
    if wrong:
        raise Unmet(f"not exactly the breaches of {', '.join(wrong)} stand below that name")
    counts = [-len(expected[owner]) for owner in names]
    is_ordered = names == sorted(names) if parameters.owner_order == BY_NAME else counts == sorted(counts)
    if not is_ordered:
        raise Unmet(f"the sections do not stand {parameters.owner_order}")
    return f"the breaches of {len(names)} owners stand below their names, {parameters.owner_order}"


def _check_lines(left: Delivered, parameters: Parameters) -> str:
    """Every line has the demanded form, a bullet in front aside, with the right overrun, the largest first."""
    lines = [re.sub(r"^\s*(?:[-*+]\s+)?`?|`?\s*$", "", line) for _, lines in _sections(left, parameters) for line in lines]
    breaches = {breach.ticket.ticket: breach for breach in _breaches(parameters)}
    if len(lines) < len(breaches):
        raise Unmet(f"{len(lines)} lines for {len(breaches)} breaches")
    for line in lines:
        breach = breaches.get(_ids(line)[0])
        if breach is None or not _is_in_form(line, breach, parameters):
            raise Unmet(f"{line!r} is not a breach in the form {parameters.line_form} with the right overrun")
    for _, below in _sections(left, parameters):
        overruns = [breaches[_ids(line)[0]].overrun_minutes for line in below]
        if overruns != sorted(overruns, reverse=True):
            raise Unmet("below a heading the largest overrun does not come first")
    return f"all {len(lines)} lines have the form {parameters.line_form} with the right overrun"


def _is_in_form(line: str, breach: Breach, parameters: Parameters) -> bool:
    """Whether a line is the breach in the demanded form; a half of the last digit may be rounded either way."""
    pattern = re.escape(parameters.line_form).replace("<overrun>", r"(?P<overrun>\d[\d.,]*)")
    for name in ("ticket", "customer", "priority"):
        pattern = pattern.replace(f"<{name}>", re.escape(getattr(breach.ticket, name)))
    match = re.fullmatch(pattern, line)
    value = number(match["overrun"]) if match else None
    worth, digit = OVERRUN_UNITS[parameters.overrun_unit]
    return (
        value is not None and value % digit == 0 and abs(value - breach.overrun_minutes / worth) <= digit / 2
    )


def _check_escalation(left: Delivered, parameters: Parameters) -> str:
    """The ids of the worst breaches in their order, one on a line; ids of equal overrun may change places."""
    limit = 60 * int(parameters.escalation_hours)
    worst = {item.ticket.ticket: item.overrun_minutes for item in _breaches(parameters) if item.overrun_minutes > limit}
    listed = [_ids(line) for line in left.text(parameters.escalation_file).splitlines() if _ids(line)]
    ids = [found[0] for found in listed]
    if any(len(found) > 1 for found in listed) or sorted(ids) != sorted(worst):
        raise Unmet(f"not a line for each of the {len(worst)} breaches of more than {parameters.escalation_hours} hours")
    if [worst[ticket] for ticket in ids] != sorted(worst.values(), reverse=True):
        raise Unmet("the largest overrun does not come first")
    return f"the {len(worst)} breaches of more than {parameters.escalation_hours} hours are listed"


def _check_recipient(left: Delivered, parameters: Parameters) -> str:
    lines = [line.strip() for line in left.text(parameters.escalation_file).splitlines() if line.strip()]
    match = re.fullmatch(r"to:\s*(?:.*<)?([^<>\s]+)>?", lines[0].casefold() if lines else "")
    if match is None or match[1] != parameters.recipient.casefold():
        raise Unmet(f"the first line is not To: {parameters.recipient}")
    return f"the mail goes to {parameters.recipient}"


TASK = DeskTask(
    task_id="ticket-digest",
    domain="support",
    parameters=Parameters(),
    build=build,
    checkpoints=(
        DeskCheckpoint(checkpoint_id="breaches", label="exactly the breaches are listed", check=_check_breaches),
        DeskCheckpoint(checkpoint_id="owners", label="they stand below their owners, in order", check=_check_owners),
        DeskCheckpoint(checkpoint_id="lines", label="lines in the demanded form", check=_check_lines),
        DeskCheckpoint(checkpoint_id="escalation", label="the worst breaches are escalated", check=_check_escalation),
        DeskCheckpoint(checkpoint_id="recipient", label="the mail has the right recipient", check=_check_recipient),
    ),
)
