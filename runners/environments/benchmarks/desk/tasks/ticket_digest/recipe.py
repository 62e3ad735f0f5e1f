"""ticket-digest: load export, tiers and limits, time each ticket, group breaches by owner, write digest and mail."""

from lhaw_record.runners.environments.benchmarks.desk.recipe import (
    RecipeParameter,
    among,
    file_for,
    file_with,
    looked_up,
    recipe_of,
    seen,
)

_DAY = r"\d{4}-\d\d-\d\d"
_MOMENT = rf"({_DAY} \d\d:\d\d)"
_MAIL = r"([\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
_LINE = r"([<\[]+(?:priority|ticket|customer|overrun)>[^`]*?<(?:priority|ticket|customer|overrun)>)(?![^<`;]*<)"

RECIPE = recipe_of(
    __file__,
    recognise=r"wants the SLA digest",
    deliverables=("digest_file", "escalation_file"),
    ticket_file=RecipeParameter(
        question="Which of the ticket exports should I use?",
        patterns=(r"ticket export `([^`]+)`",),
        shape=r"([\w./-]+\.(?:csv|jsonl))\b",
        guesses=seen("list the files", r"\./([\w/-]*tickets?\w*\.(?:csv|jsonl))\b", "tickets.csv"),
        shown_by="list the files",
    ),
    period=RecipeParameter(
        question="Which period do you mean: tickets created from which day to which day?",
        patterns=(rf"created from ({_DAY}) to ({_DAY})",),
        shape=rf"({_DAY}) (?:to|until|through|and|-) ({_DAY})",
        guesses=among("2025-06-09 2025-06-15", "2025-06-01 2025-06-30", "2025-05-16 2025-06-15"),
    ),
    measure=RecipeParameter(
        question="Is a breach about the time to the first reply or to the resolution?",
        patterns=(r"from its creation to its (first reply|resolution)",),
        shape=r"\b(first reply|resolution)\b",
        guesses=among("resolution"),
    ),
    hold_rule=RecipeParameter(
        question="How should I treat the time that a ticket was on hold?",
        patterns=(r"time on hold (is taken off|counts like any other time)",),
        shape=r"(taken off|counts like any other)",
        guesses=among("counts like any other time"),
    ),
    as_of=RecipeParameter(
        question="Until when do I count the time of a ticket that is still waiting?",
        patterns=(rf"count it until {_MOMENT}",),
        shape=_MOMENT,
        guesses=among("2025-06-15 23:59"),
        find=looked_up("read the log of the exports", rf"(?s).*{_MOMENT} exported"),
    ),
    owner_order=RecipeParameter(
        question="In which order should the owners come?",
        patterns=(r"(in the alphabetical order of the names|the owner with the longest list first)",),
        shape=r"(alphabetical|longest list first)",
        guesses=among("in the alphabetical order of the names"),
        criticality=0.5,
    ),
    line_form=RecipeParameter(
        question="What form should the line of a breach have?",
        patterns=(rf"in exactly this form: `{_LINE}",),
        shape=_LINE,
        guesses=among("<ticket> <customer> <priority> <overrun>", "<ticket>, <customer>: <overrun>"),
    ),
    overrun_unit=RecipeParameter(
        question="In which unit should the overrun be given?",
        patterns=(r"beyond the limit in (minutes|hours with one decimal)",),
        shape=r"(minutes|hours with one decimal)",
        guesses=among("hours with one decimal", "minutes"),
    ),
    digest_file=file_for("the digest", r"write `([^`]+)` in Markdown", "md", "digest.md"),
    escalation_file=file_with("the mail", r"then write `([^`]+)` as the text of a mail", "txt|eml", "mail.txt"),
    recipient=RecipeParameter(
        question="Who should receive the escalation mail?",
        patterns=(rf"first line is To: {_MAIL}",),
        shape=_MAIL,
        guesses=among("support@fernhill.example"),
        find=looked_up("read the contacts", rf"Escalations go to [^\n]*?{_MAIL}"),
        rule=looked_up("read the contacts", rf"escalations now go to {_MAIL}"),
    ),
    escalation_hours=RecipeParameter(
        question="From how many hours of overrun on should I escalate a breach?",
        patterns=(r"overrun of more than (\d+) hours",),
        shape=r"\b(\d+) ?h",
        guesses=among("24", "0", "12"),
        rule=looked_up("read the policy", r"escalated from (\d+) hours of overrun on"),
        reopened_by=(r"another limit for escalations|lowered the limit for escalations",),
    ),
)
