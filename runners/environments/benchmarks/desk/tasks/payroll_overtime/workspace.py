"""The workspace of payroll-overtime: a file of clock times per week, one week twice, contracts, handbook, contacts."""

import datetime as dt
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cache

import msgspec

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
