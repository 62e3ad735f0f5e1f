"""The workspace of log-triage: the logs of two regions, an older copy of the right ones, a runbook, a handover."""

import datetime as dt
from collections.abc import Sequence
from functools import cache
from random import Random

import msgspec

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


class Entry(msgspec.Struct, frozen=True, order=True):
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
def draw_entries(parameters: Parameters, seed: int) -> tuple[Entry, ...]:
    """Generate one night's entries in time order, dense within the period and some of them exactly on its limits."""
    chance = seeded(seed)
    start, end = instant(parameters.start), instant(parameters.end)
    services = chance.sample(sorted(OWNERS), len(OWNERS))
    entries: list[Entry] = []
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
        Entry(at, services[2], "CRITICAL", f"{0xED6E00 + place:06x}", "worker died")
        for place, at in enumerate((start - second, start, end, end + second))
    ]
    return tuple(sorted([*entries, *repeats, *edges]))


def _entry(chance: Random, at: dt.datetime, service: str) -> Entry:
    level = chance.choices(LEVELS, (8, 30, 25, 25, 12))[0]
    return Entry(at, service, level, f"{chance.randrange(16**6):06x}", chance.choice(_MESSAGES[level]))


def _log_files(folder: str, entries: Sequence[Entry]) -> dict[str, str]:
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
