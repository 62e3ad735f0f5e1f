"""invoice-matching, solved by hand from the files."""

import re
from datetime import date
from fractions import Fraction

from tests.runners.environments.benchmarks.desk.solutions import another, csv_rows, save, sheet_rows, write_table

ALTERNATIVES = {
    "invoice_file": ["invoices_sep_a.csv", "supplier invoices.csv", "in/invoices_09.csv"],
    "order_code": ["A1", "NOPO-1"],
    "quantity_code": ["B-7", "QTY-2"],
    "price_code": ["C-12", "PRC-3"],
    "tolerance_percent": ["1", "2.5", "6", "8.5"],
    "exceptions_file": ["out/exceptions.csv", "exceptions_40.xlsx"],
    "cutoff_date": ["2025-09-28", "2025-10-17"],
    "payment_file": ["run.csv", "out/payments-40.csv"],
    "amount_unit": ["euros with two decimals"],
    "pay_date": ["2025-09-29", "2025-10-10"],
    "date_format": ["YYYY-MM-DD", "YYYYMMDD"],
    "note_file": ["out/note.txt", "for_treasury.txt"],
    "recipient": ["Nils Aas", "Maria Teresa Lopes"],
    "seed": [1, 2, 3],
}
HEADER = ["invoice_id", "supplier", "code"]
PAYMENT_HEADER = ["account", "reference", "amount", "pay_on"]


class Books:
    """The files as dictionaries."""

    def __init__(self, folder, invoice_file):
        book = folder / "purchase_orders.xlsx"
        self.prices = {row[0]: row[4] for row in sheet_rows(book, "Open")}
        self.closed_prices = {row[0]: row[4] for row in sheet_rows(book, "Closed")}
        self.suppliers = {row[0]: row[1:] for row in sheet_rows(book, "Suppliers")}
        self.received = {}
        for line in (folder / "goods_receipts.csv").read_text().splitlines()[1:]:
            _, order, pieces = line.split(",")
            self.received[order] = self.received.get(order, 0) + int(pieces)
        self.invoices = csv_rows(folder / invoice_file)
        messages = [path.read_text() for path in sorted(folder.glob("mail/*.txt"))]
        self.held = set()
        for message in messages:
            self.held |= set(re.findall(r"hold payments to (.*)", message))
            self.held -= set(re.findall(r"release payments to (.*)", message))


def _exceptions(books, parameters, tolerance=None, prices=None):
    """Go through the invoices in their order, in exact fractions."""
    prices = prices or books.prices
    rows = []
    for invoice in books.invoices:
        key, order = invoice["invoice_id"], invoice["order_id"]
        name = books.suppliers[invoice["supplier_id"]][0]
        if order not in prices:
            rows.append([key, name, parameters.order_code])
            continue
        if int(invoice["quantity"]) > books.received[order]:
            rows.append([key, name, parameters.quantity_code])
        agreed = Fraction(str(prices[order]))
        if (
            Fraction(invoice["unit_price"]) - agreed
            > agreed * Fraction(tolerance or parameters.tolerance_percent) / 100
        ):
            rows.append([key, name, parameters.price_code])
    return rows


def _to_pay(books, parameters, exceptions, *, cutoff=None, ignores_holds=False):
    bad = {row[0] for row in exceptions}
    for invoice in books.invoices:
        name, account = books.suppliers[invoice["supplier_id"]]
        if invoice["invoice_id"] in bad or invoice["due_date"] > (cutoff or parameters.cutoff_date):
            continue
        if ignores_holds or name not in books.held:
            yield account, invoice["invoice_id"], Fraction(invoice["amount"])


def _date(parameters):
    year, month, day = parameters.pay_date.split("-")
    return {"YYYY-MM-DD": f"{year}-{month}-{day}", "YYYYMMDD": year + month + day}.get(
        parameters.date_format, f"{day}.{month}.{year}"
    )


def _amount(value, parameters):
    return str(int(value * 100)) if "cents" in parameters.amount_unit else f"{float(value):.2f}"


def _hand_in(folder, parameters, exceptions, payments):
    """Write everything in the requested form."""
    write_table(folder / parameters.exceptions_file, [HEADER, *exceptions])
    rows = [[account, key, _amount(value, parameters), _date(parameters)] for account, key, value in payments]
    write_table(folder / parameters.payment_file, [PAYMENT_HEADER, *rows])
    total = float(sum(value for _, _, value in payments))
    save(
        folder / parameters.note_file,
        f"Dear {parameters.recipient},\n\n{len(payments)} payments, {total:.2f} EUR in total.\n"
        f"{len({row[0] for row in exceptions})} invoices are exceptions.\n",
    )


def step_by_step(folder, parameters):
    """Invoice by invoice, exactly as the prompt says."""
    books = Books(folder, parameters.invoice_file)
    exceptions = _exceptions(books, parameters)
    _hand_in(folder, parameters, exceptions, list(_to_pay(books, parameters, exceptions)))


def rule_by_rule(folder, parameters):
    """One rule after the other in floats; extra columns, other orders, a semicolon, a chattier note."""
    books = Books(folder, parameters.invoice_file)
    known = [item for item in books.invoices if item["order_id"] in books.prices]
    most = 1 + float(parameters.tolerance_percent) / 100
    by_code = {
        parameters.price_code: [
            item for item in known if float(item["unit_price"]) > books.prices[item["order_id"]] * most
        ],
        parameters.order_code: [item for item in books.invoices if item not in known],
        parameters.quantity_code: [item for item in known if books.received[item["order_id"]] < int(item["quantity"])],
    }
    rows = [
        [code, books.suppliers[item["supplier_id"]][0].upper(), item["due_date"], item["invoice_id"]]
        for code, items in by_code.items()
        for item in items
    ]
    write_table(folder / parameters.exceptions_file, [["Code", "Supplier", "Due", "Invoice ID"], *rows])
    bad = {row[-1] for row in rows}
    paid = [
        item
        for item in known
        if item["invoice_id"] not in bad
        and date.fromisoformat(item["due_date"]) <= date.fromisoformat(parameters.cutoff_date)
        and books.suppliers[item["supplier_id"]][0] not in books.held
    ]
    paid.sort(key=lambda item: item["due_date"])
    lines = [
        [
            _date(parameters),
            item["invoice_id"],
            _amount(Fraction(item["amount"]), parameters),
            *books.suppliers[item["supplier_id"]],
        ]
        for item in paid
    ]
    header = ["Pay on", "Reference", "Amount", "Name", "Account"]
    write_table(folder / parameters.payment_file, [header, *lines], ";")
    total = sum(float(item["amount"]) for item in paid)
    save(
        folder / parameters.note_file,
        f"For **{parameters.recipient}**\r\n\r\n- Payments: {len(paid)}\r\n- Sum: EUR {total:,.2f}\r\n"
        f"- Left aside: {len(bad)} invoices (see {parameters.exceptions_file})\r\n",
    )


def earlier_invoices(folder, parameters):
    """Works on the list that the prompt does not name."""
    other = another(folder, "invoices_sep*.csv", parameters.invoice_file)
    books = Books(folder, other)
    exceptions = _exceptions(books, parameters)
    _hand_in(folder, parameters, exceptions, list(_to_pay(books, parameters, exceptions)))


def no_tolerance_no_holds(folder, parameters):
    """Tolerates no deviation, uses closed orders too, pays everything at once, and forgets the recipient."""
    books = Books(folder, parameters.invoice_file)
    exceptions = _exceptions(books, parameters, tolerance="0.001", prices=books.prices | books.closed_prices)
    payments = list(_to_pay(books, parameters, exceptions, cutoff="2099-01-01", ignores_holds=True))
    _hand_in(folder, parameters, exceptions, payments)
    rows = [[account, key, _amount(value, parameters), "at once"] for account, key, value in payments]
    write_table(folder / parameters.payment_file, [PAYMENT_HEADER, *rows])
    save(folder / parameters.note_file, "All done.\n")


def own_codes_and_form(folder, parameters):
    """Finds everything, but writes codes, amounts and dates in a way of its own, and only names the files."""
    books = Books(folder, parameters.invoice_file)
    exceptions = _exceptions(books, parameters)
    payments = list(_to_pay(books, parameters, exceptions))
    own = {parameters.order_code: "ORDER", parameters.quantity_code: "QUANTITY", parameters.price_code: "PRICE"}
    renamed = [[key, name, own[code]] for key, name, code in exceptions]
    write_table(folder / parameters.exceptions_file, [HEADER, *renamed])
    rows = [[account, key, f"{float(value):.3f}1", "1 October"] for account, key, value in payments]
    write_table(folder / parameters.payment_file, [PAYMENT_HEADER, *rows])
    save(folder / parameters.note_file, f"{parameters.recipient}, please see the two files.\n")


CORRECT = (step_by_step, rule_by_rule)
WRONG = (earlier_invoices, no_tolerance_no_holds, own_codes_and_form)
