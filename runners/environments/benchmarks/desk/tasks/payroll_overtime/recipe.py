"""payroll-overtime: load clock times and contracts, calculate hours, overtime and pay, write workbook and note."""

from lhaw_record.runners.environments.benchmarks.desk.recipe import (
    RecipeParameter,
    among,
    file_for,
    looked_up,
    recipe_of,
    seen,
)

_CONTACTS = "read the contacts"

RECIPE = recipe_of(
    __file__,
    recognise=r"September payroll",
    deliverables=("payroll_file", "note_file"),
    department=RecipeParameter(
        question="Which department is the payroll for?",
        patterns=(r"of the department ((?-i:[A-Z]\w+(?: [A-Z]\w+)*))",),
        shape=r"\bdepartment ([A-Z]\w+(?: [A-Z]\w+)*)",
        guesses=seen("look at the contracts", r"department: ([\w ]+)", "all"),
    ),
    clock_file=RecipeParameter(
        question="Which of the two files for week 37 should I use?",
        patterns=(r"only `([^`]+)` counts",),
        shape=r"([\w./-]+\.csv)\b",
        guesses=seen("list the files", r"\./(clock/w37\w*\.csv)\b", "clock/w37.csv"),
    ),
    rounding=RecipeParameter(
        question="How should the working time of a day be rounded?",
        patterns=(r"(rounded (?:down to full|to the nearest) [a-z]+ (?:minutes|hours))",),
        shape=r"((?:down to full|to the nearest) [a-z]+ (?:minutes|hours))",
        guesses=among("rounded down to full quarter hours", "not rounded", "rounded to the nearest five minutes"),
    ),
    default_hours=RecipeParameter(
        question="How many hours count on a day without clock_out?",
        patterns=(r"(\d+(?:\.\d+)?) hours count",),
        shape=r"\b(\d+(?:\.\d+)?) hours\b",
        guesses=among("8", "0"),
    ),
    overtime_after=RecipeParameter(
        question="After how many hours in a week does overtime begin?",
        patterns=(r"beyond (\d+(?:\.\d+)?) hours in a week",),
        shape=r"(?:beyond|after|over|above|is) (\d+(?:\.\d+)?)\b",
        guesses=among("40", "38", "35"),
    ),
    multiplier=RecipeParameter(
        question="Which rate applies to an hour of overtime?",
        patterns=(r"hourly rate times (\d+(?:\.\d+)?)",),
        shape=r"\btimes (\d+(?:\.\d+)?)\b",
        guesses=among("1.25", "1.5"),
        rule=looked_up("read the handbook", r"paid at (\d+(?:\.\d+)?) times"),
    ),
    payroll_file=RecipeParameter(
        question="What should the workbook be called?",
        patterns=(r"the workbook `([^`]+)`",),
        shape=r"([\w./-]+\.xlsx)\b",
        guesses=among("payroll.xlsx", "payroll_september.xlsx"),
    ),
    sheet=RecipeParameter(
        question="What should the sheet with the payroll be called?",
        patterns=(r"a sheet called ([\w -]+?)(?: with|[.;]|$)",),
        shape=r"\bsheet ([\w-]+)$",
        guesses=among("Payroll", "September"),
        criticality=0.5,
    ),
    note_file=file_for("the note", r"write `([^`]+)` in Markdown", "md", "note.md"),
    recipient=RecipeParameter(
        question="Who is the note for?",
        patterns=(r"inform ((?-i:[A-Z]\w+(?: \w+)* [A-Z]\w+))",),
        shape=r"\b([A-Z]\w+(?: [A-Z]\w+)+)\b",
        guesses=among("Human Resources", "Payroll Office"),
        find=looked_up(_CONTACTS, r"Payroll office \| ([^|]+?) \|"),
        criticality=0.5,
        rule=looked_up(_CONTACTS, r"the payroll office is now ([^.]+)\."),
    ),
)
