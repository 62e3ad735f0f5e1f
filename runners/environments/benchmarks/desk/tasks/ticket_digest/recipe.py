"""ticket-digest: load export, tiers and limits, time each ticket, group breaches by owner, write digest and mail."""

from lhaw_record.runners.environments.benchmarks.desk.recipe import (
    Recipe,
    RecipeParameter,
    among,
    file_for,
    file_with,
    looked_up,
    read_steps,
    seen,
)

_DAY = r"\d{4}-\d\d-\d\d"
_MOMENT = rf"({_DAY} \d\d:\d\d)"
_MAIL = r"([\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
_LINE = r"([<\[]+(?:priority|ticket|customer|overrun)>[^`]*?<(?:priority|ticket|customer|overrun)>)(?![^<`;]*<)"

PARAMETERS = (
    RecipeParameter(
        name="ticket_file",
        question="Which of the ticket exports should I use?",
        patterns=(r"ticket export `([^`]+)`",),
        shape=r"([\w./-]+\.(?:csv|jsonl))\b",
        guesses=seen("list the files", r"\./([\w/-]*tickets?\w*\.(?:csv|jsonl))\b", "tickets.csv"),
        shown_by="list the files",
    ),
    RecipeParameter(
        name="period",
        question="Which period do you mean: tickets created from which day to which day?",
        patterns=(rf"created from ({_DAY}) to ({_DAY})",),
        shape=rf"({_DAY}) (?:to|until|through|and|-) ({_DAY})",
        guesses=among("2025-06-09 2025-06-15", "2025-06-01 2025-06-30", "2025-05-16 2025-06-15"),
    ),
    RecipeParameter(
        name="measure",
        question="Is a breach about the time to the first reply or to the resolution?",
        patterns=(r"from its creation to its (first reply|resolution)",),
        shape=r"\b(first reply|resolution)\b",
        guesses=among("resolution"),
    ),
    RecipeParameter(
        name="hold_rule",
        question="How should I treat the time that a ticket was on hold?",
        patterns=(r"time on hold (is taken off|counts like any other time)",),
        shape=r"(taken off|counts like any other)",
        guesses=among("counts like any other time"),
    ),
    RecipeParameter(
        name="as_of",
        question="Until when do I count the time of a ticket that is still waiting?",
        patterns=(rf"count it until {_MOMENT}",),
        shape=_MOMENT,
        guesses=among("2025-06-15 23:59"),
        find=looked_up("read the log of the exports", rf"(?s).*{_MOMENT} exported"),
    ),
    RecipeParameter(
        name="owner_order",
        question="In which order should the owners come?",
        patterns=(r"(in the alphabetical order of the names|the owner with the longest list first)",),
        shape=r"(alphabetical|longest list first)",
        guesses=among("in the alphabetical order of the names"),
        criticality=0.5,
    ),
    RecipeParameter(
        name="line_form",
        question="What form should the line of a breach have?",
        patterns=(rf"in exactly this form: `{_LINE}",),
        shape=_LINE,
        guesses=among("<ticket> <customer> <priority> <overrun>", "<ticket>, <customer>: <overrun>"),
    ),
    RecipeParameter(
        name="overrun_unit",
        question="In which unit should the overrun be given?",
        patterns=(r"beyond the limit in (minutes|hours with one decimal)",),
        shape=r"(minutes|hours with one decimal)",
        guesses=among("hours with one decimal", "minutes"),
    ),
    file_for("digest_file", "the digest", r"write `([^`]+)` in Markdown", "md", "digest.md"),
    file_with("escalation_file", "the mail", r"then write `([^`]+)` as the text of a mail", "txt|eml", "mail.txt"),
    RecipeParameter(
        name="recipient",
        question="Who should receive the escalation mail?",
        patterns=(rf"first line is To: {_MAIL}",),
        shape=_MAIL,
        guesses=among("support@fernhill.example"),
        find=looked_up("read the contacts", rf"Escalations go to [^\n]*?{_MAIL}"),
        rule=looked_up("read the contacts", rf"escalations now go to {_MAIL}"),
    ),
    RecipeParameter(
        name="escalation_hours",
        question="From how many hours of overrun on should I escalate a breach?",
        patterns=(r"overrun of more than (\d+) hours",),
        shape=r"\b(\d+) ?h",
        guesses=among("24", "0", "12"),
        rule=looked_up("read the policy", r"escalated from (\d+) hours of overrun on"),
        reopened_by=(r"another limit for escalations|lowered the limit for escalations",),
    ),
)

RECIPE = Recipe(
    name="ticket-digest",
    recognise=r"wants the SLA digest",
    parameters=PARAMETERS,
    steps=read_steps(__file__),
    deliverables=("digest_file", "escalation_file"),
)
