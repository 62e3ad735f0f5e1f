"""payroll-overtime: load clock times and contracts; days, weeks, overtime, pay; write the workbook and a note."""

from runners.models.scripted.recipe import Parameter, Recipe, among, bash, looked_up, python, read_file, seen

_CONTACTS = "read the contacts"

PARAMETERS = (
    Parameter(
        name="department",
        question="Which department is the payroll for?",
        patterns=(r"of the department ((?-i:[A-Z]\w+(?: [A-Z]\w+)*))",),
        shape=r"\bdepartment ([A-Z]\w+(?: [A-Z]\w+)*)",
        guesses=seen("look at the contracts", r"department: ([\w ]+)", "all"),
    ),
    Parameter(
        name="clock_file",
        question="Which of the two files for week 37 should I use?",
        patterns=(r"only `([^`]+)` counts",),
        shape=r"([\w./-]+\.csv)\b",
        guesses=seen("list the files", r"\./(clock/w37\w*\.csv)\b", "clock/w37.csv"),
    ),
    Parameter(
        name="rounding",
        question="How should the working time of a day be rounded?",
        patterns=(r"(rounded (?:down to full|to the nearest) [a-z]+ (?:minutes|hours))",),
        shape=r"((?:down to full|to the nearest) [a-z]+ (?:minutes|hours))",
        guesses=among("rounded down to full quarter hours", "not rounded", "rounded to the nearest five minutes"),
    ),
    Parameter(
        name="default_hours",
        question="How many hours count on a day without clock_out?",
        patterns=(r"(\d+(?:\.\d+)?) hours count",),
        shape=r"\b(\d+(?:\.\d+)?) hours\b",
        guesses=among("8", "0"),
    ),
    Parameter(
        name="overtime_after",
        question="After how many hours in a week does overtime begin?",
        patterns=(r"beyond (\d+(?:\.\d+)?) hours in a week",),
        shape=r"(?:beyond|after|over|above|is) (\d+(?:\.\d+)?)\b",
        guesses=among("40", "38", "35"),
    ),
    Parameter(
        name="multiplier",
        question="Which rate applies to an hour of overtime?",
        patterns=(r"hourly rate times (\d+(?:\.\d+)?)",),
        shape=r"\btimes (\d+(?:\.\d+)?)\b",
        guesses=among("1.25", "1.5"),
    ),
    Parameter(
        name="payroll_file",
        question="What should the workbook be called?",
        patterns=(r"the workbook `([^`]+)`",),
        shape=r"([\w./-]+\.xlsx)\b",
        guesses=among("payroll.xlsx", "payroll_september.xlsx"),
    ),
    Parameter(
        name="sheet",
        question="What should the sheet with the payroll be called?",
        patterns=(r"a sheet called ([\w -]+?)(?: with|[.;]|$)",),
        shape=r"\bsheet ([\w-]+)$",
        guesses=among("Payroll", "September"),
        criticality=0.5,
    ),
    Parameter(
        name="note_file",
        question="Under which file name should I save the note?",
        patterns=(r"write `([^`]+)` in Markdown",),
        shape=r"([\w./-]+\.md)\b",
        guesses=among("note.md"),
    ),
    Parameter(
        name="recipient",
        question="Who is the note for?",
        patterns=(r"inform ((?-i:[A-Z]\w+(?: \w+)* [A-Z]\w+))",),
        shape=r"\b([A-Z]\w+(?: [A-Z]\w+)+)\b",
        guesses=among("Human Resources", "Payroll Office"),
        find=looked_up(_CONTACTS, r"Payroll office \| ([^|]+?) \|"),
        criticality=0.5,
    ),
)

STEPS = (
    bash("list the files", "find . -type f | sort"),
    bash("look at the clock times", "wc -l clock/*.csv && head -n 4 {{clock_file}}"),
    read_file("read the handbook", "handbook.md", joins_previous=True),
    read_file(_CONTACTS, "contacts.md", is_extra=True),
    python(
        "look at the contracts",
        """
import openpyxl
from decimal import Decimal
book = openpyxl.load_workbook("contracts.xlsx")
contracts = list(book["Contracts"].iter_rows(min_row=2, values_only=True))
print(book.sheetnames, len(contracts), "contracts")
for name in sorted({row[2] for row in contracts}):
    print("department:", name)
""",
    ),
    python(
        "pick the employees of the department",
        """
people = {row[0]: row for row in contracts if {{department}} in ("all", row[2])}
print(len(people), "employees")
""",
        after=("look at the contracts",),
    ),
    python(
        "load the clock times",
        """
import csv
files = {36: "clock/w36.csv", 37: {{clock_file}}, 38: "clock/w38.csv", 39: "clock/w39.csv"}
days = []
for week, name in files.items():
    with open(name, newline="") as file:
        days += [(week, row) for row in csv.DictReader(file)]
print(len(days), "days")
""",
    ),
    python(
        "take the breaks from the handbook",
        r"""
import re
with open("handbook.md") as file:
    rules = re.findall(r"more than (\d+) hours: (\d+) minutes", file.read())
breaks = sorted(((int(hours) * 60, int(minutes)) for hours, minutes in rules), reverse=True)
print(breaks)
""",
    ),
    python(
        "work out the time on the clock",
        """
def minutes(text):
    return int(text[:2]) * 60 + int(text[3:])

clocked = []
for week, row in days:
    if row["badge"] in people:
        stay = minutes(row["clock_out"]) - minutes(row["clock_in"]) if row["clock_out"] else None
        clocked.append((row["badge"], week, stay))
print(len(clocked), "days,", sum(stay is None for badge, week, stay in clocked), "without clock_out")
""",
        after=("pick the employees of the department", "load the clock times"),
    ),
    python(
        "deduct breaks and round",
        """
rule = {{rounding}}
unit = next((size for word, size in (("ten", 10), ("quarter", 15), ("five", 5)) if word in rule), 1)
worked = []
for badge, week, stay in clocked:
    if stay is not None:
        net = stay - next((pause for limit, pause in breaks if stay > limit), 0)
        net = (net + unit // 2) // unit * unit if "nearest" in rule else net // unit * unit
        worked.append((badge, week, Decimal(net) / 60))
print(len(worked), "days with times")
""",
        after=("work out the time on the clock", "take the breaks from the handbook"),
    ),
    python(
        "fill in the days without clock_out",
        """
filled = worked + [(badge, week, Decimal({{default_hours}})) for badge, week, stay in clocked if stay is None]
print(len(filled), "days in all")
""",
        after=("deduct breaks and round",),
    ),
    python(
        "add up the weeks",
        """
weeks = {}
for badge, week, hours in filled:
    weeks[badge, week] = weeks.get((badge, week), 0) + hours
print(len(weeks), "weeks of work")
""",
        after=("fill in the days without clock_out",),
    ),
    python(
        "split off the overtime",
        """
limit = Decimal({{overtime_after}})
split = {badge: [Decimal(0), Decimal(0)] for badge in people}
for (badge, week), hours in weeks.items():
    split[badge][0] += min(hours, limit)
    split[badge][1] += max(hours - limit, Decimal(0))
print(sum(over > 0 for regular, over in split.values()), "have overtime")
""",
        after=("add up the weeks",),
    ),
    python(
        "work out the pay",
        """
pay = {
    badge: Decimal(str(people[badge][3])) * (regular + over * Decimal({{multiplier}}))
    for badge, (regular, over) in split.items()
}
print({badge: round(amount, 2) for badge, amount in pay.items()})
""",
        after=("split off the overtime",),
    ),
    python(
        "write the payroll",
        """
import pathlib
path = pathlib.Path({{payroll_file}})
path.parent.mkdir(parents=True, exist_ok=True)
result = openpyxl.Workbook()
result.active.title = {{sheet}}
result.active.append(["badge", "name", "regular_hours", "overtime_hours", "pay"])
for badge, (regular, over) in split.items():
    numbers = [round(float(value), 2) for value in (regular, over, pay[badge])]
    result.active.append([badge, people[badge][1], *numbers])
result.save(path)
print("wrote", path)
""",
        after=("work out the pay",),
        is_delivery=True,
    ),
    python(
        "read the payroll once more",
        """
for row in openpyxl.load_workbook({{payroll_file}}).active.iter_rows(values_only=True):
    print(row)
""",
        after=("write the payroll",),
        is_extra=True,
    ),
    python(
        "gather the figures for the note",
        """
total = sum(pay.values())
count = sum(over > 0 for regular, over in split.values())
top = max(split, key=lambda badge: split[badge][1])
print(f"{total:.2f} EUR, {count} with overtime, most: {people[top][1]}")
""",
        after=("work out the pay",),
    ),
    python(
        "write the note",
        """
reader, path = {{recipient}}, pathlib.Path({{note_file}})
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text(
    f"# Payroll for September\\n\\nDear {reader},\\n\\n"
    f"- Total pay: {total:.2f} EUR\\n- Employees with overtime: {count}\\n- Most overtime: {people[top][1]}\\n"
)
""",
        after=("gather the figures for the note",),
        is_delivery=True,
    ),
    bash("read the note once more", "cat {{note_file}}", after=("write the note",), is_extra=True),
)

RECIPE = Recipe(
    name="payroll-overtime",
    recognise=r"September payroll",
    parameters=PARAMETERS,
    steps=STEPS,
    deliverables=("payroll_file", "note_file"),
)
