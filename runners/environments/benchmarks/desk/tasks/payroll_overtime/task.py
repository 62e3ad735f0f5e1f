"""The workspace of payroll-overtime: a file of clock times per week, one week twice, contracts, handbook, contacts.

The checkpoints of payroll-overtime: correct hours and pay as exact fractions, and whether they were handed in.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import (
    CheckpointNotMet,
    OfficeDeliverables,
    Row,
    check_listed,
    mentions,
    mentions_number,
    number,
    numbers,
)
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import (
    Files,
    Workbook,
    csv_text,
    other_name,
    seeded,
    sheet_of,
)

DEPARTMENTS = ("Dispatch", "Cold Store", "Workshop")
WEEKS = (36, 37, 38, 39)
BREAKS = ((9 * 60, 45), (6 * 60, 30))
"""(Minutes on the clock that must be exceeded, minutes of break). The first entry that applies counts."""
ROUNDINGS = (
    "rounded down to full ten minutes",
    "rounded down to full quarter hours",
    "rounded to the nearest five minutes",
)
_TWICE_EXPORTED_WEEK = 37
_EDGE_STAYS = (6 * 60, 6 * 60 + 1, 9 * 60, 9 * 60 + 1)
_NAMES = (
    "Yusuf Demir", "Greta Lund", "Paolo Conti", "Hanna Virtanen", "Dmitri Orlov", "Aoife Byrne", "Kofi Mensah",
    "Lena Fischer", "Mateo Cruz", "Sanne Bakker", "Ivan Horvat", "Noor Rahimi", "Bram Peeters", "Zofia Wrona",
    "Emil Strand", "Farah Aziz", "Tiago Lopes", "Olga Marin",
)  # fmt: skip


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of the task. Hours are decimal, and ``rounding`` is one of ``ROUNDINGS``."""

    department: str = "Cold Store"
    clock_file: str = "clock/w37.csv"
    rounding: str = "rounded down to full ten minutes"
    default_hours: str = "6.5"
    overtime_after: str = "37.5"
    multiplier: str = "1.35"
    payroll_file: str = "wages_0925.xlsx"
    sheet: str = "P09"
    note_file: str = "totals.md"
    recipient: str = "Ylva Sand"
    seed: int = 202509


class Employee(msgspec.Struct, frozen=True):
    """One row of the contracts. ``usual_minutes`` is how long this person stays on a normal day."""

    badge: str
    name: str
    department: str
    hourly_rate: Decimal
    usual_minutes: int


class Day(msgspec.Struct, frozen=True):
    """One row of a clock file. Times are minutes since midnight."""

    badge: str
    date: dt.date
    clock_in: int
    clock_out: int | None


def build(parameters: Parameters) -> Files:
    """Build the workspace. As distractors, it has an uncorrected export of week 37 and a file from August."""
    doubled = draw_week(parameters, _TWICE_EXPORTED_WEEK)
    other = other_name(parameters.clock_file, "clock/w37_2.csv", "clock/w37.csv")
    single = {
        f"clock/w{week}.csv": _clock_text(draw_week(parameters, week))
        for week in (35, *WEEKS)
        if week != _TWICE_EXPORTED_WEEK
    }
    return {
        **single,
        parameters.clock_file: _clock_text(doubled),
        other: _clock_text(_uncorrected(doubled)),
        "contracts.xlsx": _contracts_workbook(draw_staff(parameters)),
        "handbook.md": _handbook_text(),
        "contacts.md": (
            "# Who is who\n\n| what | who |\n| --- | --- |\n"
            f"| Site lead | Bengt Ahlgren |\n| Payroll office | {parameters.recipient} |\n"
            "| Works council | Rosa Klein |\n"
        ),
    }


@cache
def draw_staff(parameters: Parameters) -> tuple[Employee, ...]:
    """Generate the employees. Each department has part-timers, who never reach overtime."""
    chance = seeded(parameters.seed)
    names = chance.sample(_NAMES, len(_NAMES))
    return tuple(
        Employee(
            badge=f"B{1040 + 7 * place}",
            name=name,
            department=DEPARTMENTS[place % len(DEPARTMENTS)],
            hourly_rate=Decimal(chance.randrange(1620, 2790, 5)).scaleb(-2),
            usual_minutes=330 if place >= len(_NAMES) - len(DEPARTMENTS) else chance.randrange(465, 545),
        )
        for place, name in enumerate(names)
    )


@cache
def draw_week(parameters: Parameters, week: int) -> tuple[Day, ...]:
    """Generate the correct clock times of one week, with days on both sides of each limit."""
    chance = seeded(f"{parameters.seed} {week}")
    monday = dt.date.fromisocalendar(2025, week, 1)
    days = []
    for place, employee in enumerate(draw_staff(parameters)):
        for weekday in range(5):
            start = chance.randrange(5 * 60, 8 * 60)
            stay = employee.usual_minutes + chance.randrange(-50, 90)
            if place % 5 == week % 5 and weekday < len(_EDGE_STAYS):
                stay = _EDGE_STAYS[weekday]
            is_forgotten = chance.random() < 0.05 or (weekday == 4 and place // len(DEPARTMENTS) == week - WEEKS[0])
            if chance.random() > 0.04 or is_forgotten:
                date = monday + dt.timedelta(days=weekday)
                days.append(Day(employee.badge, date, start, None if is_forgotten else start + stay))
    return tuple(sorted(days, key=lambda day: (day.date, day.badge)))


def _uncorrected(days: Iterable[Day]) -> list[Day]:
    """Return the week as a broken terminal recorded it: some arrivals are late, some departures and days missing."""
    change = msgspec.structs.replace
    return [
        change(day, clock_in=day.clock_in + 55)
        if place % 4 == 1
        else change(day, clock_out=None)
        if place % 6 == 2
        else day
        for place, day in enumerate(days)
        if place % 9 != 7
    ]


def _clock_text(days: Sequence[Day]) -> str:
    def written(minutes: int | None) -> str:
        return "" if minutes is None else f"{minutes // 60:02}:{minutes % 60:02}"

    rows = [(day.badge, day.date, written(day.clock_in), written(day.clock_out)) for day in days]
    return csv_text([("badge", "date", "clock_in", "clock_out"), *rows])


def _contracts_workbook(staff: Sequence[Employee]) -> Workbook:
    """Return the workbook of current contracts, with a sheet of the rates before the last raise."""
    columns = ("badge", "name", "department", "hourly_rate")
    before = [msgspec.structs.replace(item, hourly_rate=item.hourly_rate - Decimal("0.85")) for item in staff]
    return {"Until June": sheet_of(columns, before), "Contracts": sheet_of(columns, staff)}


def _handbook_text() -> str:
    rules = "\n".join(
        f"- on the clock for more than {limit // 60} hours: {minutes} minutes" for limit, minutes in reversed(BREAKS)
    )
    return (
        "# Handbook for the sites\n\n## Breaks\n\nThe break is unpaid. It is not clocked, so payroll deducts it:\n\n"
        f"{rules}\n\nOnly the longer of the two is deducted. At exactly the limit, the shorter time applies.\n\n"
        "## Clocks\n\nEverybody clocks in and out once a day. A lost badge is replaced at the gate.\n"
    )


_COLUMNS = ("badge", "name", "regular_hours", "overtime_hours", "pay")
_HOURS_SLACK = Fraction(2, 100)  # weeks that are rounded one by one can add up to this difference
_PAY_SLACK = Fraction(5, 100)
_TOTAL_SLACK = Fraction(25, 100)
_ROUNDINGS: dict[str, Callable[[int], int]] = {
    "rounded down to full ten minutes": lambda minutes: minutes // 10 * 10,
    "rounded down to full quarter hours": lambda minutes: minutes // 15 * 15,
    "rounded to the nearest five minutes": lambda minutes: (minutes + 2) // 5 * 5,
}


class Pay(msgspec.Struct, frozen=True):
    """One row of the correct payroll."""

    employee: Employee
    regular_hours: Fraction
    overtime_hours: Fraction

    def amount(self, multiplier: Fraction) -> Fraction:
        """Return the pay in EUR."""
        return Fraction(self.employee.hourly_rate) * (self.regular_hours + multiplier * self.overtime_hours)


def _minutes(day: Day, parameters: Parameters) -> Fraction:
    if day.clock_out is None:
        return Fraction(parameters.default_hours) * 60
    stay = day.clock_out - day.clock_in
    pause = next((minutes for limit, minutes in BREAKS if stay > limit), 0)
    return Fraction(_ROUNDINGS[parameters.rounding](stay - pause))


@cache
def _payroll(parameters: Parameters) -> tuple[Pay, ...]:
    """Return the correct rows, sorted by badge."""
    rows = []
    for employee in draw_staff(parameters):
        if employee.department != parameters.department:
            continue
        regular = overtime = Fraction(0)
        for week in WEEKS:
            days = [day for day in draw_week(parameters, week) if day.badge == employee.badge]
            hours = sum((_minutes(day, parameters) for day in days), Fraction(0)) / 60
            regular += min(hours, Fraction(parameters.overtime_after))
            overtime += max(hours - Fraction(parameters.overtime_after), Fraction(0))
        rows.append(Pay(employee, regular, overtime))
    return tuple(rows)


def _rows(left: OfficeDeliverables, parameters: Parameters) -> dict[str, Row]:
    """Return the first row of each badge, from the requested sheet if it exists, else from all sheets."""
    try:
        rows = left.table(parameters.payroll_file, _COLUMNS, sheet=parameters.sheet)
    except CheckpointNotMet:
        rows = left.table(parameters.payroll_file, _COLUMNS)
    return {row["badge"]: row for row in reversed(rows)}


def _check_sheet(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check that the requested sheet has a row for each employee of the department and for nobody else."""
    rows = left.table(parameters.payroll_file, _COLUMNS, sheet=parameters.sheet)
    listed = ((row["badge"], row["name"].casefold()) for row in rows)
    expected = ((pay.employee.badge, pay.employee.name.casefold()) for pay in _payroll(parameters))
    return check_listed(listed, expected, f"employees in the sheet {parameters.sheet}")


def _check_column(left: OfficeDeliverables, parameters: Parameters, column: str, slack: Fraction) -> str:
    """Check that one column is right for every employee. Additional rows do not matter here."""
    rows = _rows(left, parameters)
    for pay in _payroll(parameters):
        expected = {
            "regular_hours": pay.regular_hours,
            "overtime_hours": pay.overtime_hours,
            "pay": pay.amount(Fraction(parameters.multiplier)),
        }[column]
        found = number(rows.get(pay.employee.badge, {}).get(column, ""))
        if found is None or abs(Fraction(found) - expected) > slack:
            raise CheckpointNotMet(f"{column} of {pay.employee.badge} is {found}, not {float(expected):.2f}")
    return f"{column} is right for all {len(_payroll(parameters))} employees"


def _check_regular(left: OfficeDeliverables, parameters: Parameters) -> str:
    return _check_column(left, parameters, "regular_hours", _HOURS_SLACK)


def _check_overtime(left: OfficeDeliverables, parameters: Parameters) -> str:
    return _check_column(left, parameters, "overtime_hours", _HOURS_SLACK)


def _check_pay(left: OfficeDeliverables, parameters: Parameters) -> str:
    return _check_column(left, parameters, "pay", _PAY_SLACK)


def _check_note(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check the note.

    It must address its recipient and give the total and the count. The first employee that it names must be the one
    with the most overtime.
    """
    text = left.text(parameters.note_file)
    payroll = _payroll(parameters)
    total = sum((pay.amount(Fraction(parameters.multiplier)) for pay in payroll), Fraction(0))
    count = sum(pay.overtime_hours > 0 for pay in payroll)
    if not mentions(text, parameters.recipient):
        raise CheckpointNotMet(f"{parameters.recipient} is not addressed")
    if not any(abs(Fraction(value) - total) <= _TOTAL_SLACK for value in numbers(text)):
        raise CheckpointNotMet(f"the total of {float(total):.2f} EUR is not there")
    if not mentions_number(text, count):
        raise CheckpointNotMet(f"the number of employees with overtime, {count}, is not there")
    most = max(pay.overtime_hours for pay in payroll)
    top = [pay.employee.name for pay in payroll if pay.overtime_hours == most]
    named = re.search("|".join(employee.name for employee in draw_staff(parameters)), text, re.IGNORECASE)
    if named is None or named[0].title() not in top:
        raise CheckpointNotMet(f"it names {named[0] if named else 'nobody'}, and {top[0]} has most overtime")
    return f"total, count and {named[0]} are there, for {parameters.recipient}"


TASK = DeskTask(
    task_id="payroll-overtime",
    domain="human resources",
    parameters=Parameters(),
    build=build,
    checkpoints=(
        DeskCheckpoint(checkpoint_id="sheet", label="the sheet lists the right employees", check=_check_sheet),
        DeskCheckpoint(checkpoint_id="regular", label="regular hours are right", check=_check_regular),
        DeskCheckpoint(checkpoint_id="overtime", label="overtime hours are right", check=_check_overtime),
        DeskCheckpoint(checkpoint_id="pay", label="the pay is right", check=_check_pay),
        DeskCheckpoint(checkpoint_id="note", label="the note says what matters", check=_check_note),
    ),
)
