"""The checkpoints of payroll-overtime: correct hours and pay as exact fractions, and whether they were handed in."""

import re
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import (
    CheckpointNotMet,
    OfficeDeliverables,
    Row,
)
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.benchmarks.desk.tasks.payroll_overtime.workspace import (
    BREAKS,
    WEEKS,
    Day,
    Employee,
    Parameters,
    build,
    draw_staff,
    draw_week,
)
from lhaw_record.runners.environments.benchmarks.desk.text_matching import mentions, mentions_number, number, numbers

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
    listed = sorted((row["badge"], row["name"].casefold()) for row in rows)
    expected = sorted((pay.employee.badge, pay.employee.name.casefold()) for pay in _payroll(parameters))
    if listed != expected:
        raise CheckpointNotMet(
            f"{len(listed)} rows, of which {len({*listed} & {*expected})} of {len(expected)} are right"
        )
    return f"sheet {parameters.sheet} lists the {len(listed)} employees of {parameters.department}"


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
