"""The checkpoints of log-triage: how often each service failed, and whether the table and the summary say so."""

import datetime as dt
import re
from functools import cache

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import CheckpointNotMet, OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.benchmarks.desk.tasks.log_triage.workspace import (
    COLUMNS,
    DELIMITERS,
    LEVELS,
    ONCE_PER_REQUEST,
    OWNERS,
    TIME_FORMATS,
    Entry,
    Parameters,
    build,
    draw_entries,
    instant,
)
from lhaw_record.runners.environments.benchmarks.desk.text_matching import heading_mentions, mentions_number, number


class Tally(msgspec.Struct, frozen=True):
    """One row of the correct table."""

    service: str
    count: int
    first_seen: dt.datetime
    last_seen: dt.datetime


@cache
def _tallies(parameters: Parameters) -> tuple[Tally, ...]:
    """Return the rows of the correct table, the largest count first."""
    severe = LEVELS[LEVELS.index(parameters.level) :]
    start, end = instant(parameters.start), instant(parameters.end)
    counted: dict[str, list[Entry]] = {}
    requests: set[tuple[str, str]] = set()
    for entry in draw_entries(parameters, parameters.seed):
        is_repeat = (entry.service, entry.request) in requests
        if not (start <= entry.at <= end and entry.level in severe):
            continue
        requests.add((entry.service, entry.request))
        if not (is_repeat and parameters.counting == ONCE_PER_REQUEST):
            counted.setdefault(entry.service, []).append(entry)
    tallies = [Tally(service, len(found), found[0].at, found[-1].at) for service, found in counted.items()]
    listed = [tally for tally in tallies if tally.count >= int(parameters.minimum)]
    return tuple(sorted(listed, key=lambda tally: (-tally.count, tally.service)))


def _check_table(left: OfficeDeliverables, parameters: Parameters) -> str:
    rows = left.table(parameters.incident_file, COLUMNS, DELIMITERS[parameters.delimiter])
    if not {row["service"] for row in rows} & OWNERS.keys():
        raise CheckpointNotMet("no row names a service")
    return f"a {parameters.delimiter}-separated table with {len(rows)} rows and the demanded columns"


def _check_services(left: OfficeDeliverables, parameters: Parameters) -> str:
    rows = left.table(parameters.incident_file, ("service", "entries"))
    expected = {tally.service for tally in _tallies(parameters)}
    if sorted(row["service"] for row in rows) != sorted(expected):
        raise CheckpointNotMet(
            f"{len(rows)} services are listed, {len(expected)} reach {parameters.minimum} entries, not the same"
        )
    counts = [number(row["entries"]) for row in rows]
    if None in counts or counts != sorted(counts, key=lambda count: -(count or 0)):
        raise CheckpointNotMet("the largest count does not come first")
    return f"the {len(rows)} services are the right ones, the largest count first"


def _check_counts(left: OfficeDeliverables, parameters: Parameters) -> str:
    rows = left.table(parameters.incident_file, ("service", "entries"))
    counts = {row["service"]: number(row["entries"]) for row in rows}
    wrong = [tally.service for tally in _tallies(parameters) if counts.get(tally.service) != tally.count]
    if wrong:
        raise CheckpointNotMet(f"wrong or missing counts: {', '.join(wrong)}")
    return "every count is right"


def _check_times(left: OfficeDeliverables, parameters: Parameters) -> str:
    rows = {row["service"]: row for row in left.table(parameters.incident_file, ("service", "first_seen", "last_seen"))}
    form = TIME_FORMATS[parameters.time_format]
    for tally in _tallies(parameters):
        row = rows.get(tally.service, {})
        if (row.get("first_seen"), row.get("last_seen")) != (f"{tally.first_seen:{form}}", f"{tally.last_seen:{form}}"):
            raise CheckpointNotMet(
                f"first_seen or last_seen of {tally.service} is wrong or not written as {parameters.time_format}"
            )
    return f"every time is right and written as {parameters.time_format}"


def _check_summary(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check that the first service named in the summary is the one with most failures, and the first team its owner."""
    text = left.text(parameters.summary_file)
    tallies = _tallies(parameters)
    if not heading_mentions(text, f"Incident {parameters.incident_id}"):
        raise CheckpointNotMet(f"no heading says Incident {parameters.incident_id}")
    worst = [tally.service for tally in tallies if tally.count == tallies[0].count]
    service, team = _first_named(text, set(OWNERS)), _first_named(text, set(OWNERS.values()))
    if service not in worst or team != OWNERS[service]:
        raise CheckpointNotMet(f"it names {service} and {team}, not the service with the most entries and its owner")
    total = sum(tally.count for tally in tallies)
    if not mentions_number(text, total):
        raise CheckpointNotMet(f"the total of {total} entries is not there")
    return f"it names {service}, Team {team} and the total of {total}"


def _first_named(text: str, names: set[str]) -> str | None:
    match = re.search(rf"\b({'|'.join(sorted(names))})\b", text, re.IGNORECASE)
    return next(name for name in names if name.lower() == match[1].lower()) if match else None


TASK = DeskTask(
    task_id="log-triage",
    domain="operations",
    parameters=Parameters(),
    build=build,
    checkpoints=(
        DeskCheckpoint(checkpoint_id="table", label="the table has the demanded form", check=_check_table),
        DeskCheckpoint(checkpoint_id="services", label="the right services, in order", check=_check_services),
        DeskCheckpoint(checkpoint_id="counts", label="the counts are right", check=_check_counts),
        DeskCheckpoint(checkpoint_id="times", label="first and last times are right", check=_check_times),
        DeskCheckpoint(checkpoint_id="summary", label="the summary says what matters", check=_check_summary),
    ),
)
