"""The workspace of invoice-matching: two lists of invoices, orders, receipts, messages, last month's exceptions.

The checkpoints of invoice-matching: the correct exceptions and payments, and whether the agent handed them in.
"""

import datetime as dt
import itertools
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from random import Random

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import (
    CheckpointNotMet,
    OfficeDeliverables,
    check_listed,
    mentions,
    mentions_number,
    number,
)
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import (
    Files,
    Workbook,
    csv_of,
    csv_text,
    other_name,
    seeded,
    sheet_of,
)

DATE_FORMATS = {"YYYY-MM-DD": "%Y-%m-%d", "DD.MM.YYYY": "%d.%m.%Y", "YYYYMMDD": "%Y%m%d"}
_CENT = Decimal("0.01")
_DAY = dt.timedelta(days=1)
_ITEMS = ("Pallet wrap", "Bearing 6204", "Copy paper A4", "Safety gloves", "LED tube", "Steel bracket", "Filter mat")
_SUPPLIERS = (
    "Brandt Papier", "Halden Metall", "Coppola Ricambi", "Nyborg Emballage", "Tessier Outillage", "Kestrel Lighting",
    "Obermann Filter", "Duarte Textil",
)  # fmt: skip


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of the task. Dates are ISO. ``amount_unit`` and ``date_format`` are among the choices above."""

    invoice_file: str = "invoices_sep_b.csv"
    order_code: str = "X-40"
    quantity_code: str = "X-52"
    price_code: str = "X-57"
    tolerance_percent: str = "3.5"
    exceptions_file: str = "to_clarify.xlsx"
    cutoff_date: str = "2025-10-06"
    payment_file: str = "bank_upload_40.csv"
    amount_unit: str = "whole cents"
    pay_date: str = "2025-10-01"
    date_format: str = "DD.MM.YYYY"
    note_file: str = "closing_figures.txt"
    recipient: str = "Dagny Holm"
    seed: int = 20250926


class InvoiceSupplier(msgspec.Struct, frozen=True):
    """One row of the sheet Suppliers."""

    supplier_id: str
    name: str
    account: str


class PurchaseOrder(msgspec.Struct, frozen=True):
    """One purchase order, with the number of pieces that arrived."""

    order_id: str
    supplier_id: str
    item: str
    quantity: int
    unit_price: Decimal
    received: int


class Invoice(msgspec.Struct, frozen=True):
    """One row of a list of invoices."""

    invoice_id: str
    supplier_id: str
    order_id: str
    quantity: int
    unit_price: Decimal
    due_date: dt.date

    @property
    def amount(self) -> Decimal:
        """The billed amount in EUR."""
        return self.quantity * self.unit_price


class InvoiceLedger(msgspec.Struct, frozen=True):
    """All generated data of the task. Payments to the first supplier are on hold."""

    suppliers: tuple[InvoiceSupplier, ...]
    open_orders: tuple[PurchaseOrder, ...]
    closed_orders: tuple[PurchaseOrder, ...]
    invoices: tuple[Invoice, ...]


def build(parameters: Parameters) -> Files:
    """Build the workspace. The second list of invoices is a distractor: an earlier state of the first."""
    ledger = draw(parameters)
    other = other_name(parameters.invoice_file, "invoices_sep_a.csv", "invoices_sep_b.csv")
    return {
        parameters.invoice_file: _invoices_text(ledger.invoices),
        other: _invoices_text(_earlier(ledger.invoices)),
        "purchase_orders.xlsx": _orders_workbook(ledger),
        "goods_receipts.csv": _receipts_text(parameters, ledger),
        **_mail(parameters, ledger.suppliers),
        "archive/exceptions_august.csv": csv_text(
            [
                ("invoice_id", "code", "remark"),
                ("R-3308", parameters.price_code, "unit price too high"),
                ("R-3317", parameters.quantity_code, "billed more than received"),
                ("R-3341", parameters.order_code, "no open order"),
                ("R-3342", parameters.price_code, "unit price too high"),
            ]
        ),
    }


@cache
def draw(parameters: Parameters) -> InvoiceLedger:
    """Generate suppliers, orders and invoices, with cases on both sides of every rule."""
    chance = seeded(parameters.seed)
    names = chance.sample(_SUPPLIERS, len(_SUPPLIERS))
    suppliers = tuple(
        InvoiceSupplier(f"S{301 + 4 * place}", name, f"AC-{chance.randrange(1000, 9999)}-{chance.randrange(100, 999)}")
        for place, name in enumerate(names)
    )
    orders = [_order(chance, 7100 + place * 3, suppliers[place % len(suppliers)]) for place in range(64)]
    open_orders, closed_orders = tuple(orders[:54]), tuple(orders[54:])
    drawn = [_invoice(chance, parameters, order) for order in open_orders[14:]]
    drawn += [_invoice(chance, parameters, order) for order in closed_orders[:4]]
    invoices = [*drawn, *_edge_invoices(parameters, open_orders)]
    chance.shuffle(invoices)
    numbered = tuple(
        msgspec.structs.replace(item, invoice_id=f"R-{4010 + place * 9}") for place, item in enumerate(invoices)
    )
    return InvoiceLedger(suppliers, open_orders, closed_orders, numbered)


def _order(chance: Random, number: int, supplier: InvoiceSupplier) -> PurchaseOrder:
    quantity = chance.randrange(10, 240)
    return PurchaseOrder(
        order_id=f"PO-{number}",
        supplier_id=supplier.supplier_id,
        item=chance.choice(_ITEMS),
        quantity=quantity,
        unit_price=Decimal(chance.randrange(350, 9900)).scaleb(-2),
        received=quantity - (chance.randrange(1, 9) if chance.random() < 0.25 else 0),
    )


def price_limit(order: PurchaseOrder, parameters: Parameters) -> Decimal:
    """Return the highest unit price within the tolerance."""
    return order.unit_price * (1 + Decimal(parameters.tolerance_percent) / 100)


def _invoice(chance: Random, parameters: Parameters, order: PurchaseOrder) -> Invoice:
    """Generate the invoice for an order. The price may be up to 11 % higher, but never by exactly the tolerance."""
    price = order.unit_price
    if chance.random() < 0.45:
        price = (price * Decimal(chance.randrange(1002, 1110)) / 1000).quantize(_CENT)
    if price == price_limit(order, parameters):
        price += _CENT  # rounding errors of floats would decide a tie
    due = dt.date.fromisoformat(parameters.cutoff_date) + chance.randrange(-12, 16) * _DAY
    return Invoice("", order.supplier_id, order.order_id, order.quantity, price, due)


def _edge_invoices(parameters: Parameters, orders: Sequence[PurchaseOrder]) -> list[Invoice]:
    """Return invoices close to each limit. Every eighth order belongs to the supplier on hold."""
    cutoff = dt.date.fromisoformat(parameters.cutoff_date)

    def bill(place: int, *, extra_pieces: int = 0, price: Decimal | None = None, due: dt.date = cutoff) -> Invoice:
        order = orders[place]
        quantity = order.received + extra_pieces
        return Invoice("", order.supplier_id, order.order_id, quantity, price or order.unit_price, due)

    def beside_limit(place: int, step: Decimal) -> Decimal:
        return price_limit(orders[place], parameters).quantize(_CENT) + step

    return [
        bill(0),
        bill(1),
        bill(2, due=cutoff + _DAY),
        bill(3, extra_pieces=1),
        bill(4, price=beside_limit(4, -_CENT)),
        bill(5, price=beside_limit(5, 2 * _CENT)),
        bill(6, extra_pieces=2, price=beside_limit(6, 2 * _CENT)),
        bill(7, due=cutoff - _DAY),
        bill(8, due=cutoff - _DAY),
        bill(9, due=cutoff - 2 * _DAY),
        msgspec.structs.replace(bill(10), order_id="PO-7999"),
        msgspec.structs.replace(bill(11), order_id=""),
    ]


def _earlier(invoices: Sequence[Invoice]) -> list[Invoice]:
    """Return the uncorrected list. Some quantities, prices and due dates differ, and the last invoices are missing."""
    change = msgspec.structs.replace
    return [
        change(item, quantity=item.quantity + 3, due_date=item.due_date - 6 * _DAY)
        if place % 5 == 1
        else change(item, unit_price=(item.unit_price * Decimal("1.09")).quantize(_CENT))
        if place % 5 == 3
        else item
        for place, item in enumerate(invoices[:-5])
    ]


def _invoices_text(invoices: Sequence[Invoice]) -> str:
    columns = ("invoice_id", "supplier_id", "order_id", "quantity", "unit_price", "amount", "due_date")
    return csv_of(columns, invoices)


def _orders_workbook(ledger: InvoiceLedger) -> Workbook:
    columns = ("order_id", "supplier_id", "item", "quantity", "unit_price")
    return {
        "Open": sheet_of(columns, ledger.open_orders),
        "Closed": sheet_of(columns, ledger.closed_orders),
        "Suppliers": sheet_of(InvoiceSupplier.__struct_fields__, ledger.suppliers),
    }


def _receipts_text(parameters: Parameters, ledger: InvoiceLedger) -> str:
    """Return the receipts as text: one to three deliveries for each order, sorted by day."""
    chance = seeded(parameters.seed + 1)
    rows: list[tuple[dt.date, str, int]] = []
    for order in (*ledger.open_orders, *ledger.closed_orders):
        cuts = sorted({0, order.received, *(chance.randrange(1, order.received) for _ in range(chance.randrange(3)))})
        for start, end in itertools.pairwise(cuts):
            rows.append((dt.date(2025, 9, 1) + chance.randrange(24) * _DAY, order.order_id, end - start))
    return csv_text([("received_on", "order_id", "pieces"), *sorted(rows)])


def _mail(parameters: Parameters, suppliers: Sequence[InvoiceSupplier]) -> dict[str, str]:
    """Return the messages: two payment holds, one of them lifted later, and the recipient of the notes."""
    held, released = suppliers[0], suppliers[1]
    return {
        "mail/2025-09-02_complaint.txt": (
            "From: Incoming goods\nSubject: damaged delivery\n\n"
            f"Half of what {released.name} sent came in pieces. Please hold payments to {released.name}\n"
            "until this is settled.\n"
        ),
        "mail/2025-09-11_treasury.txt": (
            "From: Treasury\nSubject: who signs\n\n"
            f"From this month on the payment runs are signed by {parameters.recipient};\n"
            "Frans Otto has moved to controlling.\n"
        ),
        "mail/2025-09-16_settled.txt": (
            "From: Incoming goods\nSubject: settled\n\n"
            f"The replacement is here. Please release payments to {released.name}\n"
            "from now on.\n"
        ),
        "mail/2025-09-23_credit_note.txt": (
            "From: Purchasing\nSubject: credit note promised\n\n"
            f"Please hold payments to {held.name}\n"
            "until their credit note has arrived.\n"
        ),
    }


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
    rows = left.rows(parameters.exceptions_file, _EXCEPTION_COLUMNS)
    expected = (invoice_id for invoice_id, codes in _codes(parameters).items() if code in codes)
    return check_listed(
        (row["invoice_id"] for row in rows if row["code"] == code), expected, f"invoices with code {code}"
    )


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
    rows = left.rows(parameters.payment_file, _PAYMENT_COLUMNS, "payments")
    expected = ((item.invoice_id, accounts[item.supplier_id]) for item in _payments(parameters).values())
    return check_listed(((row["reference"], row["account"]) for row in rows), expected, "payments")


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
