"""payroll-overtime, solved by hand from the files."""

from collections import defaultdict
from datetime import datetime, timedelta
from fractions import Fraction

from lhaw_record.runners.environments.benchmarks.desk.workspace_files import write_workbook
from tests.runners.environments.benchmarks.desk.solutions import another, csv_rows, save, sheet_rows

ALTERNATIVES = {
    "department": ["Dispatch", "Workshop"],
    "clock_file": ["clock/w37_2.csv", "clock/w37_gate.csv", "archive/week 37.csv"],
    "rounding": ["rounded down to full quarter hours", "rounded to the nearest five minutes"],
    "default_hours": ["5", "7.75"],
    "overtime_after": ["36", "38.5", "40"],
    "multiplier": ["1.25", "1.4", "2"],
    "payroll_file": ["out/payroll.xlsx", "september-pay.xlsx"],
    "sheet": ["September 2025", "Payroll", "2025-09"],
    "note_file": ["out/note.md", "pay-september.md"],
    "recipient": ["Jonas Ek", "Marta van Dam"],
    "seed": [1, 2, 3],
}
HEADER = ["badge", "name", "regular_hours", "overtime_hours", "pay"]


def _days(folder, clock_file):
    """Every row of the four weeks: week, badge, clock_in, clock_out."""
    for week, name in ((36, "clock/w36.csv"), (37, clock_file), (38, "clock/w38.csv"), (39, "clock/w39.csv")):
        for row in csv_rows(folder / name):
            yield week, row["badge"], row["clock_in"], row["clock_out"]


def _people(folder, department, sheet="Contracts"):
    rows = sheet_rows(folder / "contracts.xlsx", sheet)
    return {badge: (name, rate) for badge, name, unit, rate in rows if unit == department}


def _rounded(minutes, rule):
    if "nearest" in rule:
        return 5 * round(minutes / 5)
    unit = 15 if "quarter" in rule else 10
    return minutes - minutes % unit


def _minutes(start, end):
    return int((datetime.strptime(end, "%H:%M") - datetime.strptime(start, "%H:%M")) / timedelta(minutes=1))  # noqa: DTZ007


def _payroll(folder, parameters, **changes):
    """Go through the days with exact fractions; ``changes`` overrides parameters of the prompt."""
    understood = {name: getattr(parameters, name) for name in parameters.__struct_fields__} | changes
    people = _people(folder, understood["department"], understood.get("contracts", "Contracts"))
    weeks = defaultdict(Fraction)
    for week, badge, start, end in _days(folder, understood["clock_file"]):
        if not end:
            weeks[badge, week] += Fraction(understood["default_hours"])
            continue
        stay = _minutes(start, end)
        pause = 0 if stay <= 360 or understood.get("ignores_breaks") else 30 if stay <= 540 else 45
        weeks[badge, week] += Fraction(_rounded(stay - pause, understood["rounding"]), 60)
    rows = []
    for badge, (name, rate) in people.items():
        hours = [total for (owner, _), total in weeks.items() if owner == badge]
        over = sum(max(total - Fraction(understood["overtime_after"]), 0) for total in hours)
        regular = sum(hours) - over
        pay = Fraction(str(rate)) * (regular + over * Fraction(understood["multiplier"]))
        rows.append([badge, name, round(float(regular), 2), round(float(over), 2), round(float(pay), 2)])
    return rows


def _note(
    folder, parameters, rows, text="Dear {reader},\n\ntotal {total:.2f} EUR, {count} with overtime, most: {top}.\n"
):
    top = max(rows, key=lambda row: row[3])
    count = sum(row[3] > 0 for row in rows)
    total = sum(row[4] for row in rows)
    save(
        folder / parameters.note_file,
        text.format(reader=parameters.recipient, total=total, count=count, top=top[1]),
    )


def _workbook(folder, parameters, sheets):
    (folder / parameters.payroll_file).parent.mkdir(exist_ok=True)
    write_workbook(folder / parameters.payroll_file, sheets)


def day_by_day(folder, parameters):
    """In exact fractions, one sheet, nothing but what was asked for."""
    rows = _payroll(folder, parameters)
    _workbook(folder, parameters, {parameters.sheet: [HEADER, *rows]})
    _note(folder, parameters, rows)


def with_a_title(folder, parameters):
    """In hours as floats; a sheet of notes in front, a title, another column order, numbers as text, a list as note."""
    people = _people(folder, parameters.department)
    weeks = defaultdict(lambda: defaultdict(float))
    for week, badge, start, end in _days(folder, parameters.clock_file):
        if badge in people:
            stay = _minutes(start, end) if end else 0
            stay -= 45 if stay > 9 * 60 else 30 if stay > 6 * 60 else 0
            weeks[badge][week] += _rounded(stay, parameters.rounding) / 60 if end else float(parameters.default_hours)
    rows = []
    for badge, by_week in weeks.items():
        name, rate = people[badge]
        over = sum(max(0, hours - float(parameters.overtime_after)) for hours in by_week.values())
        plain = sum(by_week.values()) - over
        rows.append([badge, name, plain, over, rate * (plain + over * float(parameters.multiplier))])
    table = [[f"EUR {row[4]:,.2f}", f"{row[3]:.2f}", f"{row[2]:.2f}", row[1].upper(), row[0], "ok"] for row in rows]
    header = ["Pay", "Overtime Hours", "Regular hours", "Name", "Badge", "Checked"]
    title = [[f"Payroll of {parameters.department}"], []]
    _workbook(folder, parameters, {"Notes": [["made by hand"]] * 12, parameters.sheet: [*title, header, *table]})
    text = (
        "# Payroll\r\n\r\nFor {reader}\r\n\r\n- Most overtime: **{top}**\r\n- {count} of all\r\n- EUR {total:,.2f}\r\n"
    )
    _note(folder, parameters, rows, text)


def other_export(folder, parameters):
    """Takes the file of week 37 that does not count."""
    other = another(folder, "clock/w37*.csv", parameters.clock_file)
    rows = _payroll(folder, parameters, clock_file=other)
    _workbook(folder, parameters, {"Payroll of the department": [HEADER, *rows]})
    _note(folder, parameters, rows)


def own_rules(folder, parameters):
    """Deducts no breaks, and uses another rounding, limit, surcharge and rate; the note addresses nobody."""
    rows = _payroll(
        folder, parameters, rounding="rounded to the nearest five minutes", overtime_after="39.25", multiplier="1.1",
        default_hours="9", contracts="Until June", ignores_breaks=True,
    )  # fmt: skip
    _workbook(folder, parameters, {parameters.sheet: [HEADER, *rows, ["", "Total", "", "", sum(r[4] for r in rows)]]})
    _note(folder, parameters, rows, "Total {total}, {count}, {top}\n")


def another_department(folder, parameters):
    """Pays the wrong people."""
    department = next(name for name in ("Dispatch", "Workshop") if name != parameters.department)
    rows = _payroll(folder, parameters, department=department)
    _workbook(folder, parameters, {parameters.sheet: [HEADER, *rows]})
    _note(folder, parameters, rows)


CORRECT = (day_by_day, with_a_title)
WRONG = (other_export, own_rules, another_department)
