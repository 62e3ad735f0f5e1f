"""The checkpoints of expense-audit: which expenses break the rules, and whether the table and the summary list them."""

import datetime as dt
from decimal import Decimal
from functools import cache

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import CheckpointNotMet, OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.benchmarks.desk.tasks.expense_audit.workspace import (
    COLUMNS,
    LIMITS_EUR,
    Expense,
    Parameters,
    build,
    draw_ledger,
    draw_staff,
)
from lhaw_record.runners.environments.benchmarks.desk.text_matching import line_mentions, mentions_number, number


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
    listed = sorted(row["expense_id"] for row in left.rows(parameters.report_file, COLUMNS) if row["reason"] == code)
    expected = sorted(item.expense_id for item, reason in _findings(parameters) if reason == code)
    if listed != expected:
        raise CheckpointNotMet(
            f"{len(listed)} findings with reason {code}, of which {len({*listed} & {*expected})} are right"
        )
    return f"the {len(listed)} findings with reason {code} are the right ones"


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
