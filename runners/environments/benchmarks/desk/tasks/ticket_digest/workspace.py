"""The workspace of ticket-digest: two exports of tickets, service levels, tiers, contacts, a log of the exports."""

import datetime as dt
import json
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from random import Random

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.workspace_files import Files, csv_text, other_name, seeded

MEASURES = ("first reply", "resolution")
HOLD_COUNTS = "time on hold counts like any other time"
HOLD_IS_TAKEN_OFF = "time on hold is taken off"
BY_NAME = "in the alphabetical order of the names"
BY_BREACHES = "the owner with the longest list first"
OVERRUN_UNITS = {"minutes": (Decimal(1), Decimal(1)), "hours with one decimal": (Decimal(60), Decimal("0.1"))}
"""Unit -> (minutes in one unit, value of the last digit)."""
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
OWNERS = ("Noor Haidari", "Pavel Hruby", "Greta Olsen", "Samir Aziz", "Ivy Chen")
_CUSTOMERS = (
    "Albion Freight", "Borealis Foods", "Cobalt Works", "Delta Optics", "Ember Hotels", "Fjord Lines",
    "Granite Bank", "Harbour Clinic", "Indigo Print", "Juno Rail", "Krone Seeds", "Lumen Schools",
)  # fmt: skip
_TIMES = "%Y-%m-%d %H:%M"


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of the task. The constants above define the rules, orders, units and forms."""

    ticket_file: str = "tickets_monday.csv"
    start_date: str = "2025-06-03"
    end_date: str = "2025-06-13"
    measure: str = "first reply"
    hold_rule: str = HOLD_IS_TAKEN_OFF
    as_of: str = "2025-06-16 08:00"
    digest_file: str = "late_tickets.md"
    owner_order: str = BY_BREACHES
    line_form: str = LINE_FORMS[1]
    overrun_unit: str = "minutes"
    escalation_file: str = "escalation.txt"
    recipient: str = "m.achterberg@fernhill.example"
    escalation_hours: str = "8"
    seed: int = 2


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the export, with naive datetimes and the minutes on hold before the first reply and the resolution."""

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
        """Return the row of the export: column -> cell text."""
        return {
            name: "" if value is None else f"{value:{_TIMES}}" if isinstance(value, dt.datetime) else str(value)
            for name, value in msgspec.structs.asdict(self).items()
        }


def build(parameters: Parameters) -> Files:
    """Build the workspace. The second export is a distractor, made three days earlier."""
    tickets = tickets_of(parameters)
    ending = parameters.ticket_file.rpartition(".")[2]
    folder = parameters.ticket_file.rpartition("/")[0]
    names = (f"{folder}/tickets_{day}.{ending}".lstrip("/") for day in ("friday", "thursday"))
    other = other_name(parameters.ticket_file, *names)
    as_of = dt.datetime.fromisoformat(parameters.as_of)
    before = as_of - dt.timedelta(days=3)
    earlier = [_as_seen_at(ticket, before) for ticket in tickets if ticket.created < before]
    return {
        parameters.ticket_file: _export(tickets, ending),
        other: _export(earlier, ending),
        "sla_policy.md": _policy_text(),
        "customers.xlsx": {
            "Customers": [
                ("customer_id", "customer", "tier"),
                *((f"C-{70 + place}", name, tier_of(parameters, name)) for place, name in enumerate(_CUSTOMERS)),
            ]
        },
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
def tickets_of(parameters: Parameters) -> tuple[Ticket, ...]:
    """Generate tickets from before, during and after the period, in order of creation."""
    chance = seeded(parameters.seed)
    as_of = dt.datetime.fromisoformat(parameters.as_of)
    first = dt.datetime(2025, 5, 28, 7)  # noqa: DTZ001  the file says UTC once, not in every cell
    minutes = int((as_of - first).total_seconds() // 60) - 600
    created = sorted(first + dt.timedelta(minutes=chance.randrange(minutes)) for _ in range(110))
    return tuple(_drawn_ticket(chance, parameters, f"T-{4100 + 3 * place}", at) for place, at in enumerate(created))


def _drawn_ticket(chance: Random, parameters: Parameters, ticket: str, created: dt.datetime) -> Ticket:
    customer, priority = chance.choice(_CUSTOMERS), chance.choices(PRIORITIES, (2, 4, 5, 3))[0]
    reply_limit, resolution_limit = (
        60 * limit_hours(measure, priority, tier_of(parameters, customer)) for measure in MEASURES
    )
    to_reply = int(reply_limit * chance.choice((0.2, 0.4, 0.7, 1, 1.15, 1.6, 3)))
    to_resolution = to_reply + int(resolution_limit * chance.choice((0.2, 0.5, 0.8, 0.95, 1.1, 1.5)))
    held = int(to_reply * chance.choice((0, 0, 0, 0.2, 0.4)))
    is_answered = chance.random() > 0.06
    drawn = Ticket(
        ticket=ticket,
        created=created,
        customer=customer,
        priority=priority,
        owner=chance.choices(OWNERS, (7, 5, 4, 3, 2))[0],
        first_reply=created + dt.timedelta(minutes=to_reply) if is_answered else None,
        resolved=created + dt.timedelta(minutes=to_resolution) if is_answered else None,
        hold_before_reply=held,
        hold_before_resolution=held + int((to_resolution - to_reply) * chance.choice((0, 0, 0.1, 0.3))),
    )
    return _as_seen_at(drawn, dt.datetime.fromisoformat(parameters.as_of))


def _as_seen_at(ticket: Ticket, moment: dt.datetime) -> Ticket:
    """Return the ticket as an export made at ``moment`` shows it, without later replies and resolutions."""
    return msgspec.structs.replace(
        ticket,
        first_reply=ticket.first_reply if ticket.first_reply and ticket.first_reply < moment else None,
        resolved=ticket.resolved if ticket.resolved and ticket.resolved < moment else None,
    )


def _export(tickets: Sequence[Ticket], ending: str) -> str:
    if ending == "jsonl":
        return "".join(f"{json.dumps(item.cells())}\n" for item in tickets)
    return csv_text([Ticket.__struct_fields__, *(list(item.cells().values()) for item in tickets)])


def tier_of(parameters: Parameters, customer: str) -> str:
    return TIERS[(_CUSTOMERS.index(customer) * 5 + parameters.seed) % len(TIERS)]


def _policy_text() -> str:
    parts = ["# Service levels\n\nHours that a ticket may take, by priority and tier. A limit just met is met.\n"]
    for measure, limits in _LIMIT_HOURS.items():
        rows = "\n".join(f"| {priority} | {' | '.join(map(str, hours))} |" for priority, hours in limits.items())
        parts.append(
            f"\n## Time to {measure}\n\n| priority | {' | '.join(TIERS)} |\n| --- | --- | --- | --- |\n{rows}\n"
        )
    return "".join(parts)


def limit_hours(measure: str, priority: str, tier: str) -> int:
    """Return the time limit for a ticket, in hours."""
    return _LIMIT_HOURS[measure][priority][TIERS.index(tier)]
