"""The checkpoints of invoice-matching: the correct exceptions and payments, and whether the agent handed them in."""

import datetime as dt
from decimal import Decimal
from functools import cache

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import CheckpointNotMet, OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.benchmarks.desk.tasks.invoice_matching.workspace import (
    DATE_FORMATS,
    Invoice,
    Parameters,
    build,
    draw,
    price_limit,
)
from lhaw_record.runners.environments.benchmarks.desk.text_matching import mentions, mentions_number, number

_EXCEPTION_COLUMNS = ("invoice_id", "supplier", "code")
_PAYMENT_COLUMNS = ("account", "reference", "amount", "pay_on")


@cache
def _codes(parameters: Parameters) -> dict[str, tuple[str, ...]]:
    """Return the exception codes of every invoice. An invoice that matches its order and receipts has none."""
    ledger = draw(parameters)
    orders = {order.order_id: order for order in ledger.open_orders}
    codes: dict[str, tuple[str, ...]] = {}
    for invoice in ledger.invoices:
        order = orders.get(invoice.order_id)
        if order is None:
            codes[invoice.invoice_id] = (parameters.order_code,)
            continue
        is_unreceived = invoice.quantity > order.received
        is_dear = invoice.unit_price > price_limit(order, parameters)
        codes[invoice.invoice_id] = (parameters.quantity_code,) * is_unreceived + (parameters.price_code,) * is_dear
    return codes


@cache
def _payments(parameters: Parameters) -> dict[str, Invoice]:
    """Return the invoices to pay: invoice number -> invoice."""
    ledger, codes = draw(parameters), _codes(parameters)
    cutoff, held = dt.date.fromisoformat(parameters.cutoff_date), ledger.suppliers[0].supplier_id
    return {
        item.invoice_id: item
        for item in ledger.invoices
        if not codes[item.invoice_id] and item.due_date <= cutoff and item.supplier_id != held
    }


def _check_code(left: OfficeDeliverables, parameters: Parameters, code: str) -> str:
    listed = sorted(
        row["invoice_id"] for row in left.rows(parameters.exceptions_file, _EXCEPTION_COLUMNS) if row["code"] == code
    )
    expected = sorted(invoice_id for invoice_id, codes in _codes(parameters).items() if code in codes)
    if listed != expected:
        raise CheckpointNotMet(
            f"{len(listed)} invoices with code {code}, of which {len({*listed} & {*expected})} are right"
        )
    return f"the {len(listed)} invoices with code {code} are the right ones"


def _check_orders(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check that the invoices without an order are found and that every row names the right supplier."""
    invoices = {item.invoice_id: item for item in draw(parameters).invoices}
    names = {item.supplier_id: item.name for item in draw(parameters).suppliers}
    for row in left.rows(parameters.exceptions_file, _EXCEPTION_COLUMNS):
        invoice = invoices.get(row["invoice_id"])
        if invoice is None or row["supplier"].casefold() != names[invoice.supplier_id].casefold():
            raise CheckpointNotMet(f"{row['invoice_id']!r} is not an invoice of {row['supplier']!r}")
    return _check_code(left, parameters, parameters.order_code)


def _check_quantities(left: OfficeDeliverables, parameters: Parameters) -> str:
    return _check_code(left, parameters, parameters.quantity_code)


def _check_prices(left: OfficeDeliverables, parameters: Parameters) -> str:
    return _check_code(left, parameters, parameters.price_code)


def _check_payments(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check that exactly the right invoices are paid, each once and to the right account."""
    accounts = {item.supplier_id: item.account for item in draw(parameters).suppliers}
    paid = sorted(
        (row["reference"], row["account"]) for row in left.rows(parameters.payment_file, _PAYMENT_COLUMNS, "payments")
    )
    expected = sorted((item.invoice_id, accounts[item.supplier_id]) for item in _payments(parameters).values())
    if paid != expected:
        raise CheckpointNotMet(
            f"{len(paid)} payments, of which {len({*paid} & {*expected})} of {len(expected)} are right"
        )
    return f"the {len(paid)} payments go to the right accounts"


def _check_form(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check that every payment, due or not, has the right amount and date in the requested format."""
    invoices = {item.invoice_id: item for item in draw(parameters).invoices}
    factor = 100 if parameters.amount_unit == "whole cents" else 1
    written = dt.date.fromisoformat(parameters.pay_date).strftime(DATE_FORMATS[parameters.date_format])
    for row in left.rows(parameters.payment_file, _PAYMENT_COLUMNS, "payments"):
        invoice = invoices.get(row["reference"])
        if invoice is None or number(row["amount"]) != invoice.amount * factor:
            raise CheckpointNotMet(f"the amount of {row['reference']!r} is not its amount in {parameters.amount_unit}")
        if row["pay_on"] != written:
            raise CheckpointNotMet(f"{row['pay_on']!r} is not the day of payment written as {parameters.date_format}")
    return f"amounts are in {parameters.amount_unit}, dates are {parameters.date_format}"


def _check_note(left: OfficeDeliverables, parameters: Parameters) -> str:
    text = left.text(parameters.note_file)
    payments = _payments(parameters)
    total = sum((item.amount for item in payments.values()), Decimal(0))
    exception_count = sum(bool(codes) for codes in _codes(parameters).values())
    if not mentions(text, parameters.recipient):
        raise CheckpointNotMet(f"{parameters.recipient} is not addressed")
    for what, value in (("payments", len(payments)), ("EUR in total", total), ("exceptions", exception_count)):
        if not mentions_number(text, value):
            raise CheckpointNotMet(f"the note does not say {value} {what}")
    return f"{len(payments)} payments, {total} EUR and {exception_count} exceptions, for {parameters.recipient}"


TASK = DeskTask(
    task_id="invoice-matching",
    domain="finance",
    parameters=Parameters(),
    build=build,
    checkpoints=(
        DeskCheckpoint(checkpoint_id="orders", label="invoices without an open order are found", check=_check_orders),
        DeskCheckpoint(checkpoint_id="quantities", label="pieces not received are found", check=_check_quantities),
        DeskCheckpoint(checkpoint_id="prices", label="prices beyond the tolerance are found", check=_check_prices),
        DeskCheckpoint(checkpoint_id="payments", label="the right invoices are paid", check=_check_payments),
        DeskCheckpoint(checkpoint_id="form", label="payments have the demanded form", check=_check_form),
        DeskCheckpoint(checkpoint_id="note", label="the note says what matters", check=_check_note),
    ),
)
