"""log-triage, solved by hand from the files."""

import re
from collections import Counter
from datetime import datetime

from lhaw_record.runners.environments.benchmarks.desk.tasks.log_triage.task import EVERY_ENTRY
from tests.runners.environments.benchmarks.desk.solutions import another, save, write_table

ALTERNATIVES = {
    "log_folder": ["logs/us-east-1", "logs/eu-west-1", "export/night/eu-west-2"],
    "start": ["2025-06-03 03:20:00", "2025-06-03 04:01:30"],
    "end": ["2025-06-03 05:00:00", "2025-06-03 06:10:10"],
    "level": ["ERROR", "INFO"],
    "counting": [EVERY_ENTRY],
    "incident_file": ["triage.csv", "out/services.txt"],
    "delimiter": ["comma", "tab"],
    "time_format": ["YYYY-MM-DD HH:MM:SS", "DD.MM. HH:MM"],
    "minimum": ["2", "6"],
    "summary_file": ["out/summary.md", "triage.md"],
    "incident_id": ["INC-90", "OPS-1202"],
    "seed": [1, 2, 3],
}
_FORMS = {"HH:MM:SS": "%H:%M:%S", "YYYY-MM-DD HH:MM:SS": "%Y-%m-%d %H:%M:%S", "DD.MM. HH:MM": "%d.%m. %H:%M"}
_LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


def _counted(folder, parameters, *, logs=None, level=None, ignores_period=False, ignores_repeats=False):
    """Merge the logs line by line and keep (time, service) of what counts."""
    text = "".join(path.read_text() for path in (folder / (logs or parameters.log_folder)).iterdir())
    counted, seen = [], set()
    for line in sorted(text.splitlines()):
        stamp, name, service, request = line.split()[:4]
        when = stamp.replace("T", " ").rstrip("Z")
        if _LEVELS.index(name) < _LEVELS.index(level or parameters.level):
            continue
        if not ignores_period and (when < parameters.start or when > parameters.end):
            continue
        key = (service, request)
        if key in seen and parameters.counting != EVERY_ENTRY and not ignores_repeats:
            continue
        seen.add(key)
        counted.append((datetime.fromisoformat(when), service.strip("[]")))
    return counted


def _rows(counted, parameters, form=None, minimum=None):
    counts = Counter(service for _, service in counted)
    rows = []
    for service, count in counts.most_common():
        times = [when.strftime(form or _FORMS[parameters.time_format]) for when, name in counted if name == service]
        if count >= int(minimum or parameters.minimum):
            rows.append([service, count, times[0], times[-1]])
    return rows


def _hand_in(folder, parameters, rows, *, delimiter=None, header=("service", "entries", "first_seen", "last_seen")):
    sign = delimiter or {"comma": ",", "semicolon": ";", "tab": "\t"}[parameters.delimiter]
    write_table(folder / parameters.incident_file, [header, *rows], sign)


def _summary(folder, parameters, rows, *, worst=0, heading=None):
    service = rows[worst][0]
    team = re.search(rf"\| {service} \| (.+?) \|", (folder / "runbook.md").read_text())[1]
    heading = heading or f"# Incident {parameters.incident_id}"
    total = sum(row[1] for row in rows)
    save(folder / parameters.summary_file, f"{heading}\n\n{service} ({team}) was hit worst; {total:,} entries.\n")


def plain(folder, parameters):
    """Exactly as the prompt says."""
    rows = _rows(_counted(folder, parameters), parameters)
    _hand_in(folder, parameters, rows)
    _summary(folder, parameters, rows)


def embellished(folder, parameters):
    """Capitals in the header, another column order, an extra column, blank lines; a summary with a list of services."""
    rows = _rows(_counted(folder, parameters), parameters)
    header = ("Entries", "Service", "First seen", "Last seen", "Note")
    _hand_in(folder, parameters, [[row[1], f" {row[0]} ", *row[2:], ""] for row in rows] + [[]], header=header)
    _summary(folder, parameters, rows, heading=f"## **Incident {parameters.incident_id}**: triage")
    path = folder / parameters.summary_file
    path.write_text(path.read_text() + "".join(f"\n- {row[0]}: {row[1]}" for row in rows))


def wrong_region(folder, parameters):
    """Counts another folder's logs with commas in place of the delimiter."""
    other = another(folder, "logs/*", parameters.log_folder)
    rows = _rows(_counted(folder, parameters, logs=other), parameters)
    _hand_in(folder, parameters, rows, delimiter="|")
    _summary(folder, parameters, rows)


def whole_night(folder, parameters):
    """Ignores the period, the repeats and the minimum, and writes times as full timestamps."""
    counted = _counted(folder, parameters, ignores_period=True, ignores_repeats=True)
    rows = _rows(counted, parameters, form="%Y-%m-%dT%H:%M:%SZ", minimum=1)
    _hand_in(folder, parameters, rows)
    _summary(folder, parameters, rows)


def upside_down(folder, parameters):
    """The right rows in the wrong order, without first and last times, and the least hit service in the summary."""
    rows = _rows(_counted(folder, parameters), parameters)[::-1]
    _hand_in(folder, parameters, [row[:2] for row in rows], header=("service", "entries"))
    _summary(folder, parameters, rows, heading="# Triage")


CORRECT = (plain, embellished)
WRONG = (wrong_region, whole_night, upside_down)
