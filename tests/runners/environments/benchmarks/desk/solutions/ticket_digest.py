"""ticket-digest, solved by hand from the files."""

import json
from datetime import datetime

from lhaw_record.runners.environments.benchmarks.desk.tasks.ticket_digest.task import (
    BY_NAME,
    HOLD_COUNTS,
    HOLD_IS_TAKEN_OFF,
    LINE_FORMS,
)
from tests.runners.environments.benchmarks.desk.solutions import another, csv_rows, save, sheet_rows

ALTERNATIVES = {
    "ticket_file": ["tickets_0616.jsonl", "exports/tickets_friday.csv", "exports/support tickets.csv"],
    "start_date": ["2025-05-30", "2025-06-05"],
    "end_date": ["2025-06-11", "2025-06-16"],
    "measure": ["resolution"],
    "hold_rule": [HOLD_COUNTS],
    "as_of": ["2025-06-17 06:30", "2025-06-20 12:00"],
    "digest_file": ["out/digest.md", "breaches.md"],
    "owner_order": [BY_NAME],
    "line_form": [LINE_FORMS[0], LINE_FORMS[2]],
    "overrun_unit": ["hours with one decimal"],
    "escalation_file": ["out/mail.txt", "escalate.eml"],
    "recipient": ["o.wirth@fernhill.example", "head-of-support@fernhill.example"],
    "escalation_hours": ["2", "20"],
    "seed": [1, 3, 4],
}


def _tickets(folder, name):
    path = folder / name
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return csv_rows(path)


def _limits(folder, measure):
    """Read one table of the policy: (priority, tier) -> hours."""
    lines = (folder / "sla_policy.md").read_text().splitlines()
    top = lines.index(f"## Time to {measure}") + 2
    grid = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[top : top + 6]]
    return {(row[0], tier): int(hours) for row in grid[2:] for tier, hours in zip(grid[0][1:], row[1:], strict=True)}


def _breaches(folder, parameters, *, name=None, measure=None, hold_rule=None, all_days=False):
    """Go through the tickets; return (minutes over, ticket row), the largest first."""
    measure = measure or parameters.measure
    limits = _limits(folder, measure)
    tiers = {row[1]: row[2] for row in sheet_rows(folder / "customers.xlsx", "Customers")}
    end, hold = ("first_reply", "reply") if measure == "first reply" else ("resolved", "resolution")
    found = []
    for row in _tickets(folder, name or parameters.ticket_file):
        if not all_days and not parameters.start_date <= row["created"].split()[0] <= parameters.end_date:
            continue
        span = datetime.fromisoformat(row[end] or parameters.as_of) - datetime.fromisoformat(row["created"])
        over = span.days * 1440 + span.seconds // 60 - 60 * limits[row["priority"], tiers[row["customer"]]]
        if (hold_rule or parameters.hold_rule) == HOLD_IS_TAKEN_OFF:
            over -= int(row[f"hold_before_{hold}"])
        if over > 0:
            found.append((over, row))
    return sorted(found, key=lambda pair: pair[0], reverse=True)


def _line(over, row, parameters, form=None):
    amount = str(over) if parameters.overrun_unit == "minutes" else f"{over / 60:.1f}"
    line = (form or parameters.line_form).replace("<overrun>", amount)
    return (
        line.replace("<ticket>", row["ticket"])
        .replace("<customer>", row["customer"])
        .replace("<priority>", row["priority"])
    )


def _owners(breaches, parameters):
    names = sorted({row["owner"] for _, row in breaches})
    if parameters.owner_order == BY_NAME:
        return names
    return sorted(names, key=lambda name: sum(row["owner"] == name for _, row in breaches), reverse=True)


def _digest(folder, parameters, breaches, *, owners=None, form=None):
    parts = []
    for owner in owners or _owners(breaches, parameters):
        lines = [_line(over, row, parameters, form) for over, row in breaches if row["owner"] == owner]
        parts.append("\n".join([f"# {owner}", *lines]))
    save(folder / parameters.digest_file, "\n\n".join(parts))


def _mail(folder, parameters, breaches, *, recipient=None, hours=None):
    worst = [row["ticket"] for over, row in breaches if over > 60 * int(hours or parameters.escalation_hours)]
    save(folder / parameters.escalation_file, "\n".join([f"To: {recipient or parameters.recipient}", *worst, ""]))


def plain(folder, parameters):
    """Exactly as the prompt says."""
    breaches = _breaches(folder, parameters)
    _digest(folder, parameters, breaches)
    _mail(folder, parameters, breaches)


def dressed_up(folder, parameters):
    """A title, an introduction, bullets with code marks, counts in the headings; a mail with subject and words."""
    breaches = _breaches(folder, parameters)
    lines = [
        "# SLA digest",
        "",
        f"All {len(breaches)} breaches of the period, by owner.",
        "",
        "## Method",
        "As agreed.",
    ]
    for owner in _owners(breaches, parameters):
        own = [(over, row) for over, row in breaches if row["owner"] == owner]
        lines += [
            "",
            f"### **{owner}** ({len(own)})",
            "",
            *(f"* `{_line(over, row, parameters)}`" for over, row in own),
        ]
    save(folder / parameters.digest_file, "\r\n".join(lines))
    worst = [row["ticket"] for over, row in breaches if over > 60 * int(parameters.escalation_hours)]
    listed = "\r\n".join(f"{place}. {ticket}" for place, ticket in enumerate(worst, start=1))
    head = (
        f"To: Head of support <{parameters.recipient.upper()}>\r\nSubject: Escalation\r\n\r\nPlease look at these:\r\n"
    )
    save(folder / parameters.escalation_file, f"{head}{listed}\r\n\r\nThank you")


def other_export(folder, parameters):
    """Takes the earlier export, and sends the mail to the first address in the contacts."""
    ending = parameters.ticket_file.rpartition(".")[2]
    other = another(folder, f"**/*ticket*.{ending}", parameters.ticket_file)
    breaches = _breaches(folder, parameters, name=other)
    _digest(folder, parameters, breaches)
    _mail(folder, parameters, breaches, recipient="l.brandt@fernhill.example")


def other_measure_all_days(folder, parameters):
    """Measures the other time on all days, writes lines in its own form, and escalates everything to nobody."""
    measure = "resolution" if parameters.measure == "first reply" else "first reply"
    breaches = _breaches(folder, parameters, measure=measure, all_days=True)
    _digest(folder, parameters, breaches, form="<ticket> <overrun>")
    _mail(folder, parameters, breaches, recipient="the team", hours=0)


def one_section(folder, parameters):
    """Finds the right breaches and puts them all below one owner, the smallest overrun first."""
    breaches = _breaches(folder, parameters)[::-1]
    lines = [_line(over, row, parameters) for over, row in breaches]
    save(folder / parameters.digest_file, "\n".join(["# Noor Haidari", *lines]))
    _mail(folder, parameters, breaches)


CORRECT = (plain, dressed_up)
WRONG = (other_export, other_measure_all_days, one_section)
