"""The workspace of expense-audit: two ledgers, the staff list, the travel policy, last quarter's findings.

The checkpoints of expense-audit: which expenses break the rules, and whether the table and the summary list them.
"""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from random import Random

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import (
    CheckpointNotMet,
    OfficeDeliverables,
    check_listed,
    line_mentions,
    mentions_number,
    number,
)
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import (
    Files,
    csv_text,
    other_name,
    seeded,
    sheet_of,
)

COLUMNS = ("expense_id", "employee", "category", "amount", "reason")
LIMITS_EUR = {"Meals": 60, "Hotel": 185, "Taxi": 45, "Supplies": 120, "Software": 300}
DEPARTMENTS = ("Logistics", "Sales", "Engineering", "Support")
SORT_ORDERS = ("amount, largest first", "amount, smallest first", "expense_id")
_NAMES = (
    "Amira Haddad", "Jonas Weber", "Lucia Ferrari", "Tomas Novak", "Ines Costa", "Oskar Lind", "Mei Tanaka",
    "Pieter de Vries", "Sofia Rossi", "Marek Kowal", "Elena Petrova", "Hugo Martin", "Nadia Benali", "Erik Dahl",
    "Clara Schmidt", "Rui Almeida",
)  # fmt: skip


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of the task. Dates are ISO, amounts are in EUR, and ``sort_order`` is one of ``SORT_ORDERS``."""

    ledger_file: str = "ledger_q3_corrected.csv"
    start_date: str = "2025-07-21"
    end_date: str = "2025-09-12"
    department: str = "Logistics"
    receipt_minimum: str = "38.50"
    receipt_code: str = "NR-7"
    limit_code: str = "OL-3"
    report_file: str = "expense_exceptions.xlsx"
    sort_order: str = "amount, largest first"
    summary_file: str = "note_to_finance.md"
    seed: int = 20250930


class Expense(msgspec.Struct, frozen=True):
    """One row of the ledger."""

    expense_id: str
    date: dt.date
    employee_id: str
    category: str
    amount: Decimal
    has_receipt: bool


class StaffMember(msgspec.Struct, frozen=True):
    """One row of the staff list."""

    employee_id: str
    name: str
    department: str


def build(parameters: Parameters) -> Files:
    """Build the workspace. The second ledger is a distractor: an export from before the corrections."""
    ledger = draw_ledger(parameters)
    uncorrected = [
        msgspec.structs.replace(item, amount=item.amount + 25, has_receipt=True) if number % 4 == 0 else item
        for number, item in enumerate(ledger[:-6])
    ]
    distractor = other_name(parameters.ledger_file, "ledger_q3.csv", "ledger_q3_export.csv")
    return {
        parameters.ledger_file: _ledger_text(ledger),
        distractor: _ledger_text(uncorrected),
        "employees.xlsx": {
            "Staff": sheet_of(("employee_id", "name", "department"), draw_staff(parameters)),
            "Left": [["employee_id", "name", "left_on"], ["P198", "Paul Arnaud", "2025-03-31"]],
        },
        "travel_policy.md": _policy_text(),
        "archive/findings_q2.csv": csv_text(
            [
                COLUMNS,
                ("E-0871", "Jonas Weber", "Taxi", "61.20", parameters.limit_code),
                ("E-0902", "Ines Costa", "Supplies", "57.00", parameters.receipt_code),
                ("E-0934", "Mei Tanaka", "Hotel", "240.00", parameters.limit_code),
            ]
        ),
        "archive/notes_q2.txt": (
            "Q2 audit, closed 2025-07-08.\n"
            "Reason codes as last year: "
            f"{parameters.receipt_code} = no receipt, {parameters.limit_code} = over limit.\n"
        ),
    }


@cache
def draw_staff(parameters: Parameters) -> tuple[StaffMember, ...]:
    """Generate the employees, spread evenly over the departments."""
    chance = seeded(parameters.seed)
    names = chance.sample(_NAMES, len(_NAMES))
    return tuple(
        StaffMember(f"P{210 + 3 * place}", name, DEPARTMENTS[place % len(DEPARTMENTS)])
        for place, name in enumerate(names)
    )


@cache
def draw_ledger(parameters: Parameters) -> tuple[Expense, ...]:
    """Generate the corrected ledger."""
    chance = seeded(parameters.seed + 1)
    staff = draw_staff(parameters)
    drawn = [_drawn_expense(chance, chance.choice(staff).employee_id) for _ in range(150)]
    member = next(person.employee_id for person in staff if person.department == parameters.department)
    expenses = [*drawn, *_edge_expenses(parameters, member)]
    chance.shuffle(expenses)
    return tuple(
        msgspec.structs.replace(item, expense_id=f"E-{1000 + place * 7}") for place, item in enumerate(expenses)
    )


def _drawn_expense(chance: Random, employee_id: str) -> Expense:
    category = chance.choice(sorted(LIMITS_EUR))
    cents = chance.randrange(800, LIMITS_EUR[category] * 140)
    return Expense(
        expense_id="",
        date=dt.date(2025, 7, 1) + dt.timedelta(days=chance.randrange(92)),
        employee_id=employee_id,
        category=category,
        amount=Decimal(-cents if chance.random() < 0.06 else cents).scaleb(-2),
        has_receipt=chance.random() < 0.7,
    )


def _edge_expenses(parameters: Parameters, member: str) -> list[Expense]:
    """Return expenses on both sides of every rule, so that misreading a rule changes the findings."""
    start, end = dt.date.fromisoformat(parameters.start_date), dt.date.fromisoformat(parameters.end_date)
    day = dt.timedelta(days=1)
    minimum = Decimal(parameters.receipt_minimum)
    return [
        Expense("", start, member, "Meals", Decimal("72.40"), True),
        Expense("", end, member, "Supplies", minimum, False),
        Expense("", end, member, "Software", minimum - Decimal("0.01"), False),
        Expense("", start - day, member, "Hotel", Decimal("221.90"), False),
        Expense("", end + day, member, "Hotel", Decimal("219.15"), False),
        Expense("", start + day, member, "Taxi", Decimal(LIMITS_EUR["Taxi"]), True),
        Expense("", end - day, member, "Hotel", Decimal("204.75"), False),
        Expense("", end - 2 * day, member, "Hotel", Decimal("-230.00"), False),
    ]


def _ledger_text(expenses: Sequence[Expense]) -> str:
    header = ("expense_id", "date", "employee_id", "category", "amount_eur", "receipt")
    rows = [
        (item.expense_id, item.date, item.employee_id, item.category, item.amount, "yes" if item.has_receipt else "no")
        for item in expenses
    ]
    return csv_text([header, *rows])


def _policy_text() -> str:
    limits = "\n".join(f"| {category} | {limit} |" for category, limit in LIMITS_EUR.items())
    return (
        "# Travel and expense policy\n\nValid from 2025-01-01. All amounts in EUR.\n\n"
        f"| category | limit per expense |\n| --- | --- |\n{limits}\n\n"
        "An amount equal to the limit is allowed. Receipts are kept for ten years.\n"
    )


@cache
def _findings(parameters: Parameters) -> tuple[tuple[Expense, str], ...]:
    """Return every finding as (expense, reason code), in ledger order."""
    members = {person.employee_id for person in draw_staff(parameters) if person.department == parameters.department}
    start, end = dt.date.fromisoformat(parameters.start_date), dt.date.fromisoformat(parameters.end_date)
    audited = [
        item
        for item in draw_ledger(parameters)
        if start <= item.date <= end and item.employee_id in members and item.amount > 0
    ]
    found = []
    for item in audited:
        if item.amount >= Decimal(parameters.receipt_minimum) and not item.has_receipt:
            found.append((item, parameters.receipt_code))
        if item.amount > LIMITS_EUR[item.category]:
            found.append((item, parameters.limit_code))
    return tuple(found)


def _check_codes(left: OfficeDeliverables, parameters: Parameters, code: str) -> str:
    listed = (row["expense_id"] for row in left.rows(parameters.report_file, COLUMNS) if row["reason"] == code)
    expected = (item.expense_id for item, reason in _findings(parameters) if reason == code)
    return check_listed(listed, expected, f"findings with reason {code}")


def _check_receipts(left: OfficeDeliverables, parameters: Parameters) -> str:
    return _check_codes(left, parameters, parameters.receipt_code)


def _check_limits(left: OfficeDeliverables, parameters: Parameters) -> str:
    return _check_codes(left, parameters, parameters.limit_code)


def _check_details(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check that exactly the expenses with findings are listed, with the right name, category and amount."""
    names = {person.employee_id: person.name for person in draw_staff(parameters)}
    expected = {item.expense_id: item for item, _ in _findings(parameters)}
    rows = left.rows(parameters.report_file, COLUMNS)
    if {row["expense_id"] for row in rows} != expected.keys():
        raise CheckpointNotMet("the expenses listed are not those with findings")
    for row in rows:
        item = expected[row["expense_id"]]
        is_right = (
            " ".join(row["employee"].casefold().split()) == names[item.employee_id].casefold()
            and row["category"].casefold() == item.category.casefold()
            and number(row["amount"]) == item.amount
        )
        if not is_right:
            raise CheckpointNotMet(f"employee, category or amount of {item.expense_id} is wrong")
    return f"employee, category and amount are right in all {len(rows)} rows"


def _check_order(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check that the rows are in the requested order and that there are at least as many rows as findings."""
    rows = left.rows(parameters.report_file, COLUMNS)
    if len(rows) < len(_findings(parameters)):
        raise CheckpointNotMet("rows are missing, so their order says nothing")
    if parameters.sort_order == "expense_id":
        keys: list[object] = [row["expense_id"] for row in rows]
    else:
        amounts = [number(row["amount"]) for row in rows]
        if None in amounts:
            raise CheckpointNotMet("an amount is not a number")
        keys = list(amounts)
    if keys != sorted(keys, reverse=parameters.sort_order.endswith("largest first")):  # type: ignore[type-var]
        raise CheckpointNotMet(f"the rows are not sorted by {parameters.sort_order}")
    return f"the rows are sorted by {parameters.sort_order}"


def _check_summary(left: OfficeDeliverables, parameters: Parameters) -> str:
    text = left.text(parameters.summary_file)
    findings = _findings(parameters)
    total = sum({item.expense_id: item.amount for item, _ in findings}.values(), Decimal(0))
    for code in (parameters.receipt_code, parameters.limit_code):
        count = sum(reason == code for _, reason in findings)
        if not line_mentions(text, code, count):
            raise CheckpointNotMet(f"no line gives {count} findings for {code}")
    if not mentions_number(text, total):
        raise CheckpointNotMet(f"the total {total} EUR is not there")
    return f"the counts of both codes and the total {total} EUR are there"


TASK = DeskTask(
    task_id="expense-audit",
    domain="finance",
    parameters=Parameters(),
    build=build,
    checkpoints=(
        DeskCheckpoint(checkpoint_id="receipts", label="expenses without receipt are found", check=_check_receipts),
        DeskCheckpoint(checkpoint_id="limits", label="expenses over their limit are found", check=_check_limits),
        DeskCheckpoint(checkpoint_id="details", label="name, category and amount are right", check=_check_details),
        DeskCheckpoint(checkpoint_id="order", label="rows are in the demanded order", check=_check_order),
        DeskCheckpoint(checkpoint_id="summary", label="the summary counts and adds up", check=_check_summary),
    ),
)
