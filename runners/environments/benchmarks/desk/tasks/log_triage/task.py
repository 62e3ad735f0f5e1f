"""The workspace of log-triage: the logs of two regions, an older copy of the right ones, a runbook, a handover.

The checkpoints of log-triage: how often each service failed, and whether the table and the summary say so.
"""

import datetime as dt
import re
from collections.abc import Sequence
from functools import cache
from random import Random

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import (
    CheckpointNotMet,
    OfficeDeliverables,
    heading_mentions,
    mentions_number,
    number,
)
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import Files, other_name, seeded

COLUMNS = ("service", "entries", "first_seen", "last_seen")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t"}
TIME_FORMATS = {"HH:MM:SS": "%H:%M:%S", "YYYY-MM-DD HH:MM:SS": "%Y-%m-%d %H:%M:%S", "DD.MM. HH:MM": "%d.%m. %H:%M"}
ONCE_PER_REQUEST = "of several entries with the same request id in one service, only the first counts"
EVERY_ENTRY = "every entry counts, also when its request id comes back"
OWNERS = {
    "checkout": "Heron", "search": "Otter", "gateway": "Lynx", "mailer": "Ibis",
    "billing": "Heron", "catalog": "Otter", "session": "Lynx", "export": "Marten",
}  # fmt: skip
_WEIGHTS = (16, 11, 8, 5, 4, 3, 2, 1)
_MESSAGES = {
    "DEBUG": ("cache warm", "config reloaded"),
    "INFO": ("request served", "job finished"),
    "WARNING": ("slow upstream", "retrying call", "queue above 80 %"),
    "ERROR": ("upstream timed out", "connection refused", "could not parse reply"),
    "CRITICAL": ("out of connections", "worker died"),
}


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of the task. Times are in UTC, and ``counting`` is one of the two rules above."""

    log_folder: str = "logs/eu-west-2"
    start: str = "2025-06-03 03:50:00"
    end: str = "2025-06-03 05:20:00"
    level: str = "WARNING"
    counting: str = ONCE_PER_REQUEST
    incident_file: str = "error_counts.txt"
    delimiter: str = "semicolon"
    time_format: str = "HH:MM:SS"
    minimum: str = "4"
    summary_file: str = "morning_note.md"
    incident_id: str = "INC-4417"
    seed: int = 4417


class LogEntry(msgspec.Struct, frozen=True, order=True):
    """One line of a log."""

    at: dt.datetime
    service: str
    level: str
    request: str
    text: str

    def line(self) -> str:
        """Return the entry as a line of a log file."""
        return f"{self.at:%Y-%m-%dT%H:%M:%SZ} {self.level:<8} [{self.service}] req={self.request} {self.text}"


def build(parameters: Parameters) -> Files:
    """Build the workspace, with the logs of another region and an older copy as distractors."""
    entries = draw_entries(parameters, parameters.seed)
    other = other_name(parameters.log_folder, "logs/eu-west-1", "logs/eu-north-1")
    region = parameters.log_folder.rsplit("/", 1)[-1]
    older = [entry for entry in entries if entry.at < instant(parameters.start) + dt.timedelta(minutes=35)]
    return {
        **_log_files(parameters.log_folder, entries),
        **_log_files(other, draw_entries(parameters, parameters.seed + 1)),
        **_log_files(f"logs/copy-of-{region}", older),
        "runbook.md": _runbook_text(),
        "handover.txt": (
            "Night shift, handover\n"
            "- INC-4398 closed, certificate of the test system renewed\n"
            f"- {parameters.incident_id} open, customers saw errors, cause unknown, triage wanted in the morning\n"
            "- nothing else\n"
        ),
    }


@cache
def draw_entries(parameters: Parameters, seed: int) -> tuple[LogEntry, ...]:
    """Generate one night's entries in time order, dense within the period and some of them exactly on its limits."""
    chance = seeded(seed)
    start, end = instant(parameters.start), instant(parameters.end)
    services = chance.sample(sorted(OWNERS), len(OWNERS))
    entries: list[LogEntry] = []
    for span_start, span_end, count in (
        (start - dt.timedelta(hours=3), start, 70),
        (start, end, 170),
        (end, end + dt.timedelta(hours=2), 60),
    ):
        seconds = int((span_end - span_start).total_seconds())
        for _ in range(count):
            at = span_start + dt.timedelta(seconds=chance.randrange(1, seconds))
            entries.append(_entry(chance, at, chance.choices(services, _WEIGHTS)[0]))
    repeats = [
        msgspec.structs.replace(entry, at=entry.at + dt.timedelta(seconds=chance.randrange(5, 90)))
        for entry in entries
        if entry.at > start and chance.random() < 0.2
    ]
    second = dt.timedelta(seconds=1)
    edges = [
        LogEntry(at, services[2], "CRITICAL", f"{0xED6E00 + place:06x}", "worker died")
        for place, at in enumerate((start - second, start, end, end + second))
    ]
    return tuple(sorted([*entries, *repeats, *edges]))


def _entry(chance: Random, at: dt.datetime, service: str) -> LogEntry:
    level = chance.choices(LEVELS, (8, 30, 25, 25, 12))[0]
    return LogEntry(at, service, level, f"{chance.randrange(16**6):06x}", chance.choice(_MESSAGES[level]))


def _log_files(folder: str, entries: Sequence[LogEntry]) -> dict[str, str]:
    """Distribute entries over the log files of three machines."""
    return {
        f"{folder}/app-{number + 1}.log": "".join(f"{entry.line()}\n" for entry in entries[number::3])
        for number in range(3)
    }


def _runbook_text() -> str:
    rows = "\n".join(f"| {service} | Team {team} |" for service, team in sorted(OWNERS.items()))
    return (
        "# Runbook\n\n## Who owns what\n\n| service | owner |\n| --- | --- |\n"
        f"{rows}\n\n## Clocks\n\nAll machines log in UTC.\n"
    )


def instant(text: str) -> dt.datetime:
    """Convert a time as written in the prompt to a datetime."""
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


class ServiceTally(msgspec.Struct, frozen=True):
    """One row of the table that a right solution writes."""

    service: str
    count: int
    first_seen: dt.datetime
    last_seen: dt.datetime


@cache
def _tallies(parameters: Parameters) -> tuple[ServiceTally, ...]:
    """Return the rows of the correct table, the largest count first."""
    severe = LEVELS[LEVELS.index(parameters.level) :]
    start, end = instant(parameters.start), instant(parameters.end)
    counted: dict[str, list[LogEntry]] = {}
    requests: set[tuple[str, str]] = set()
    for entry in draw_entries(parameters, parameters.seed):
        is_repeat = (entry.service, entry.request) in requests
        if not (start <= entry.at <= end and entry.level in severe):
            continue
        requests.add((entry.service, entry.request))
        if not (is_repeat and parameters.counting == ONCE_PER_REQUEST):
            counted.setdefault(entry.service, []).append(entry)
    tallies = [ServiceTally(service, len(found), found[0].at, found[-1].at) for service, found in counted.items()]
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
