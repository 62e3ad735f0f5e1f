"""log-triage: read a folder of logs, filter by time and level, count per service, write table and summary."""

from lhaw_record.runners.environments.benchmarks.desk.recipe import (
    RecipeParameter,
    among,
    file_for,
    looked_up,
    recipe_of,
    seen,
)

_TIME_FORMAT = r"((?:YYYY-MM-DD |DD\.MM\. )?HH:MM(?::SS)?)"
_SUMMARY = "work out the summary"
_INSTANT = r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"

RECIPE = recipe_of(
    __file__,
    recognise=r"triage of the logs",
    deliverables=("incident_file", "summary_file"),
    results={
        "worst_service": looked_up(_SUMMARY, r"worst (\w+)"),
        "its_team": looked_up(_SUMMARY, r", (Team \w+)"),
        "total": looked_up(_SUMMARY, r"total (\d+)"),
    },
    log_folder=RecipeParameter(
        question="In which folder are the log files that I should use?",
        patterns=(r"log files in `([^`]+)`",),
        shape=r"(logs/[\w./-]*\w)",
        guesses=seen("list the files", r"\./([\w/-]+)/[\w-]+\.log", "logs"),
    ),
    window=RecipeParameter(
        question="Which period do you mean: from when to when, in UTC?",
        patterns=(rf"entries from {_INSTANT} to {_INSTANT}",),
        shape=rf"{_INSTANT} (?:to|until|through|and|-) {_INSTANT}",
        guesses=among("2025-06-03 00:00:00 2025-06-03 23:59:59", "2025-06-02 22:00:00 2025-06-03 06:00:00"),
    ),
    level=RecipeParameter(
        question="From which log level on does an entry count?",
        patterns=(r"level ([A-Z]+) or worse",),
        shape=r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b",
        guesses=among("ERROR", "WARNING", "CRITICAL"),
    ),
    counting=RecipeParameter(
        question="How should I treat several entries with the same request id?",
        patterns=(r"(only the first counts|every entry counts)",),
        shape=r"(only the first|every entry|each entry)",
        guesses=among("every entry counts"),
        criticality=0.5,
    ),
    minimum=RecipeParameter(
        question="How many entries must a service have to be listed?",
        patterns=(r"(?:only services|every service) with (\d+) or more",),
        shape=r"\b(\d+)\b(?: or more| entries|[.!]?$)",
        guesses=among("1", "5", "10"),
        reopened_by=(r"leave out the services with few entries",),
    ),
    incident_file=RecipeParameter(
        question="What is the file with the table to be called?",
        patterns=(r"write `([^`]+)` as a",),
        shape=r"([\w./-]+\.(?:csv|tsv|txt))\b",
        guesses=among("incident.csv", "triage.csv"),
    ),
    delimiter=RecipeParameter(
        question="Which delimiter should separate the columns of the table?",
        patterns=(r"\b(comma|semicolon|tab)-separated",),
        shape=r"\b(comma|semicolon|tab)\b",
        guesses=among("comma"),
        criticality=0.5,
    ),
    time_format=RecipeParameter(
        question="In which format do you want the times written?",
        patterns=(rf"written as {_TIME_FORMAT}",),
        shape=_TIME_FORMAT,
        guesses=among("YYYY-MM-DD HH:MM:SS"),
        criticality=0.5,
    ),
    summary_file=file_for("the summary", r"then write `([^`]+)` in Markdown", "md", "summary.md"),
    incident_id=RecipeParameter(
        question="What is the number of the incident?",
        patterns=(r"\bIncident ([A-Z]+-\d+)",),
        shape=r"\b([A-Z]{2,}-\d+)\b",
        guesses=among("INC-1", "INC-4398"),
        find=looked_up("read the handover", r"([A-Z]+-\d+) open"),
        rule=looked_up("read the handover", r"runs as ([A-Z]+-\d+)"),
    ),
)
