"""The checkpoints of ticket-digest: which tickets exceed their limit, and whether the digest and the mail list them."""

import datetime as dt
import re
from functools import cache

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import CheckpointNotMet, OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.benchmarks.desk.tasks.ticket_digest.workspace import (
    BY_NAME,
    HOLD_IS_TAKEN_OFF,
    OVERRUN_UNITS,
    OWNERS,
    Parameters,
    Ticket,
    build,
    limit_hours,
    tickets_of,
    tier_of,
)
from lhaw_record.runners.environments.benchmarks.desk.text_matching import mentions, number


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
    listed = sorted(ticket for _, lines in _sections(left, parameters) for line in lines for ticket in _ids(line))
    expected = sorted(breach.ticket.ticket for breach in _breaches(parameters))
    if listed != expected:
        raise CheckpointNotMet(
            f"{len(listed)} tickets are listed, {len({*listed} & {*expected})} of the {len(expected)} breaches"
        )
    return f"the {len(expected)} breaches are listed, each once"


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
