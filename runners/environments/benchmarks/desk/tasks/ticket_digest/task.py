"""The workspace of ticket-digest: two exports of tickets, service levels, tiers, contacts, a log of the exports.

The checkpoints of ticket-digest: which tickets exceed their limit, and whether the digest and the mail list them.
"""

import datetime as dt
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from random import Random

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import (
    CheckpointNotMet,
    OfficeDeliverables,
    check_listed,
    mentions,
    number,
)
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
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


class Breach(msgspec.Struct, frozen=True):
    """A ticket and the number of minutes by which it exceeds its limit."""

    ticket: Ticket
    overrun_minutes: int


@cache
def _breaches(parameters: Parameters) -> tuple[Breach, ...]:
    """Return every breach, the largest overrun first."""
    is_reply = parameters.measure == "first reply"
    found = []
    for item in tickets_of(parameters):
        if not parameters.start_date <= f"{item.created:%Y-%m-%d}" <= parameters.end_date:
            continue
        end = (item.first_reply if is_reply else item.resolved) or dt.datetime.fromisoformat(parameters.as_of)
        taken = int((end - item.created).total_seconds() // 60)
        if parameters.hold_rule == HOLD_IS_TAKEN_OFF:
            taken -= item.hold_before_reply if is_reply else item.hold_before_resolution
        overrun = taken - 60 * limit_hours(parameters.measure, item.priority, tier_of(parameters, item.customer))
        if overrun > 0:
            found.append(Breach(item, overrun))
    return tuple(sorted(found, key=lambda breach: (-breach.overrun_minutes, breach.ticket.ticket)))


def _ids(text: str) -> list[str]:
    return re.findall(r"\bT-\d+\b", text)


def _sections(left: OfficeDeliverables, parameters: Parameters) -> list[tuple[str, list[str]]]:
    """Return each owner's heading with the lines below it that name a ticket, in digest order."""
    sections: list[tuple[str, list[str]]] = []
    for line in left.text(parameters.digest_file).splitlines():
        if line.lstrip().startswith("#"):
            owner = next((owner for owner in OWNERS if mentions(line, owner)), "")
            sections.append((owner, []))
        elif _ids(line):
            if not sections:
                sections.append(("", []))
            sections[-1][1].append(line)
    return sections


def _check_breaches(left: OfficeDeliverables, parameters: Parameters) -> str:
    listed = (ticket for _, lines in _sections(left, parameters) for line in lines for ticket in _ids(line))
    return check_listed(listed, (breach.ticket.ticket for breach in _breaches(parameters)), "breaches")


def _check_owners(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check that each owner's section lists exactly that owner's breaches, and that the sections are in order."""
    sections = [(owner, lines) for owner, lines in _sections(left, parameters) if lines]
    expected: dict[str, list[str]] = {}
    for breach in _breaches(parameters):
        expected.setdefault(breach.ticket.owner, []).append(breach.ticket.ticket)
    names = [owner for owner, _ in sections]
    if sorted(names) != sorted(expected):
        raise CheckpointNotMet("the sections are not one for each owner of a breach")
    wrong = [owner for owner, lines in sections if sorted(_ids(" ".join(lines))) != sorted(expected[owner])]
    if wrong:
        raise CheckpointNotMet(f"not exactly the breaches of {', '.join(wrong)} stand below that name")
    counts = [-len(expected[owner]) for owner in names]
    is_ordered = names == sorted(names) if parameters.owner_order == BY_NAME else counts == sorted(counts)
    if not is_ordered:
        raise CheckpointNotMet(f"the sections do not stand {parameters.owner_order}")
    return f"the breaches of {len(names)} owners stand below their names, {parameters.owner_order}"


def _check_lines(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check that every line, apart from its bullet, has the requested form and the right overrun, the largest first."""
    lines = [
        re.sub(r"^\s*(?:[-*+]\s+)?`?|`?\s*$", "", line) for _, lines in _sections(left, parameters) for line in lines
    ]
    breaches = {breach.ticket.ticket: breach for breach in _breaches(parameters)}
    if len(lines) < len(breaches):
        raise CheckpointNotMet(f"{len(lines)} lines for {len(breaches)} breaches")
    for line in lines:
        breach = breaches.get(_ids(line)[0])
        if breach is None or not _is_in_form(line, breach, parameters):
            raise CheckpointNotMet(
                f"{line!r} is not a breach in the form {parameters.line_form} with the right overrun"
            )
    for _, below in _sections(left, parameters):
        overruns = [breaches[_ids(line)[0]].overrun_minutes for line in below]
        if overruns != sorted(overruns, reverse=True):
            raise CheckpointNotMet("below a heading the largest overrun does not come first")
    return f"all {len(lines)} lines have the form {parameters.line_form} with the right overrun"


def _is_in_form(line: str, breach: Breach, parameters: Parameters) -> bool:
    """Return whether a line states the breach in the requested form. A half may be rounded either way."""
    pattern = re.escape(parameters.line_form).replace("<overrun>", r"(?P<overrun>\d[\d.,]*)")
    for name in ("ticket", "customer", "priority"):
        pattern = pattern.replace(f"<{name}>", re.escape(getattr(breach.ticket, name)))
    match = re.fullmatch(pattern, line)
    value = number(match["overrun"]) if match else None
    worth, digit = OVERRUN_UNITS[parameters.overrun_unit]
    return value is not None and abs(value - breach.overrun_minutes / worth) <= digit / 2 and value % digit == 0


def _check_escalation(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check that the mail lists the worst breaches in order, one id per line. Equal overruns may be in any order."""
    limit = 60 * int(parameters.escalation_hours)
    worst = {item.ticket.ticket: item.overrun_minutes for item in _breaches(parameters) if item.overrun_minutes > limit}
    listed = [_ids(line) for line in left.text(parameters.escalation_file).splitlines() if _ids(line)]
    ids = [found[0] for found in listed]
    if any(len(found) > 1 for found in listed) or sorted(ids) != sorted(worst):
        raise CheckpointNotMet(
            f"not a line for each of the {len(worst)} breaches of more than {parameters.escalation_hours} hours"
        )
    if [worst[ticket] for ticket in ids] != sorted(worst.values(), reverse=True):
        raise CheckpointNotMet("the largest overrun does not come first")
    return f"the {len(worst)} breaches of more than {parameters.escalation_hours} hours are listed"


def _check_recipient(left: OfficeDeliverables, parameters: Parameters) -> str:
    lines = [line.strip() for line in left.text(parameters.escalation_file).splitlines() if line.strip()]
    match = re.fullmatch(r"to:\s*(?:.*<)?([^<>\s]+)>?", lines[0].casefold() if lines else "")
    if match is None or match[1] != parameters.recipient.casefold():
        raise CheckpointNotMet(f"the first line is not To: {parameters.recipient}")
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
