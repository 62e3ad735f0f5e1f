"""invoice-matching: load invoices, orders and receipts; apply three rules; write exceptions, payments and a note."""

from runners.models.scripted.recipe import Parameter, Recipe, among, bash, looked_up, python, seen

_CODE = r"\b([A-Z]{1,4}-?\d+)\b"
_DAY = r"\b(\d{4}-\d\d-\d\d)\b"
_OLD_EXCEPTIONS = "read last month's exceptions"
_MAIL = "read the messages"

PARAMETERS = (
    Parameter(
        name="invoice_file",
        question="Which of the invoice lists should I match?",
        patterns=(r"invoices in `([^`]+)`",),
        shape=r"([\w./-]+\.csv)\b",
        guesses=seen("list the files", r"\./([\w-]*invoices[\w-]*\.csv)\b", "invoices.csv"),
        shown_by="list the files",
    ),
    Parameter(
        name="order_code",
        question="Which code do I write for an invoice without an open order?",
        patterns=(r"\b([A-Z]+-?\d+): its order number is not",),
        shape=_CODE,
        guesses=among("NO_ORDER", "E1"),
        find=looked_up(_OLD_EXCEPTIONS, r"([A-Z]+-?\d+),no open order"),
    ),
    Parameter(
        name="quantity_code",
        question="Which code do I write when more pieces are billed than were received?",
        patterns=(r"\b([A-Z]+-?\d+): it bills more pieces",),
        shape=_CODE,
        guesses=among("QUANTITY", "E2"),
        find=looked_up(_OLD_EXCEPTIONS, r"([A-Z]+-?\d+),billed more than received"),
    ),
    Parameter(
        name="price_code",
        question="Which code do I write when the unit price is too high?",
        patterns=(r"\b([A-Z]+-?\d+): its unit price is",),
        shape=_CODE,
        guesses=among("PRICE", "E3"),
        find=looked_up(_OLD_EXCEPTIONS, r"([A-Z]+-?\d+),unit price too high"),
    ),
    Parameter(
        name="tolerance_percent",
        question="How many percent may the unit price be above the order before it is an exception?",
        patterns=(r"by more than (\d+(?:\.\d+)?) percent",),
        shape=r"(\d+(?:\.\d+)?) ?(?:percent|%)",
        guesses=among("5", "2", "10"),
    ),
    Parameter(
        name="exceptions_file",
        question="What should the file with the exceptions be called?",
        patterns=(r"exceptions to `([^`]+)`",),
        shape=r"([\w./-]+\.(?:xlsx|csv))\b",
        guesses=among("exceptions.csv", "exceptions_september.csv"),
    ),
    Parameter(
        name="cutoff_date",
        question="Up to which due date should invoices be paid?",
        patterns=(r"due on or before (\d{4}-\d\d-\d\d)",),
        shape=_DAY,
        guesses=among("2025-09-30", "2025-10-31"),
    ),
    Parameter(
        name="payment_file",
        question="What should the file with the payments be called?",
        patterns=(r"payments to `([^`]+)`",),
        shape=r"([\w./-]+\.csv)\b",
        guesses=among("payments.csv", "payment_run.csv"),
    ),
    Parameter(
        name="amount_unit",
        question="Should the amounts of the payments be in euros or in cents?",
        patterns=(r"amount is in (euros with two decimals|whole cents)",),
        shape=r"\b(euros with two decimals|whole cents)\b",
        guesses=among("euros with two decimals"),
        criticality=0.5,
    ),
    Parameter(
        name="pay_date",
        question="On which day should the payments be made?",
        patterns=(r"day of payment (\d{4}-\d\d-\d\d)",),
        shape=_DAY,
        guesses=among("2025-09-30", "2025-10-02"),
    ),
    Parameter(
        name="date_format",
        question="In which format should the date of payment be written?",
        patterns=(r"written as (YYYY-MM-DD|DD\.MM\.YYYY|YYYYMMDD)",),
        shape=r"\b(YYYY-MM-DD|DD\.MM\.YYYY|YYYYMMDD)\b",
        guesses=among("YYYY-MM-DD"),
        criticality=0.5,
    ),
    Parameter(
        name="note_file",
        question="Under which file name should I save the note?",
        patterns=(r"write `([^`]+)`, a short text",),
        shape=r"([\w./-]+\.txt)\b",
        guesses=among("note.txt"),
    ),
    Parameter(
        name="recipient",
        question="Who is the note for?",
        patterns=(r"inform ((?-i:[A-Z]\w+(?: [A-Z]\w+)+))",),
        shape=r"\b([A-Z]\w+(?: [A-Z]\w+)+)\b",
        guesses=among("Accounts Payable", "Treasury Team"),
        find=looked_up(_MAIL, r"are signed by ([A-Z]\w+(?: [A-Z]\w+)+)"),
        criticality=0.5,
    ),
)

STEPS = (
    bash("list the files", "find . -type f | sort"),
    bash("look at the invoices", "wc -l {{invoice_file}} && head -n 4 {{invoice_file}}"),
    bash("look at the receipts", "head -n 4 goods_receipts.csv", joins_previous=True),
    bash(_MAIL, "tail -n +1 mail/*.txt"),
    bash(_OLD_EXCEPTIONS, "cat archive/*.csv", is_extra=True),
    python(
        "load orders and suppliers",
        """
import openpyxl, pathlib
from decimal import Decimal
book = openpyxl.load_workbook("purchase_orders.xlsx")
open_prices = {row[0]: Decimal(str(row[4])) for row in book["Open"].iter_rows(min_row=2, values_only=True)}
suppliers = {row[0]: row[1:3] for row in book["Suppliers"].iter_rows(min_row=2, values_only=True)}
print(book.sheetnames, len(open_prices), "open orders,", len(suppliers), "suppliers")
""",
    ),
    python(
        "load the invoices",
        """
import csv
with open({{invoice_file}}, newline="") as file:
    invoices = list(csv.DictReader(file))
print(len(invoices), "invoices")
""",
    ),
    python(
        "add up the receipts",
        """
received = {}
with open("goods_receipts.csv", newline="") as file:
    for row in csv.DictReader(file):
        received[row["order_id"]] = received.get(row["order_id"], 0) + int(row["pieces"])
print(len(received), "orders with receipts")
""",
        after=("load the invoices",),
    ),
    python(
        "find invoices without an open order",
        """
unordered = [item for item in invoices if item["order_id"] not in open_prices]
ordered = [item for item in invoices if item["order_id"] in open_prices]
print(len(unordered), "without an open order")
""",
        after=("load orders and suppliers", "load the invoices"),
    ),
    python(
        "compare the quantities",
        """
unreceived = [item for item in ordered if int(item["quantity"]) > received.get(item["order_id"], 0)]
print(len(unreceived), "bill more than was received")
""",
        after=("add up the receipts", "find invoices without an open order"),
    ),
    python(
        "compare the prices",
        """
highest = 1 + Decimal({{tolerance_percent}}) / 100
dear = [item for item in ordered if Decimal(item["unit_price"]) > open_prices[item["order_id"]] * highest]
print(len(dear), "are too dear")
""",
        after=("find invoices without an open order",),
    ),
    python(
        "put the exceptions together",
        """
exceptions = [(item, {{order_code}}) for item in unordered]
exceptions += [(item, {{quantity_code}}) for item in unreceived]
exceptions += [(item, {{price_code}}) for item in dear]
print(len(exceptions), "exceptions")
""",
        after=("compare the quantities", "compare the prices"),
    ),
    python(
        "write the exceptions",
        """
table = [["invoice_id", "supplier", "code"]]
table += [[item["invoice_id"], suppliers[item["supplier_id"]][0], code] for item, code in exceptions]
path = pathlib.Path({{exceptions_file}})
path.parent.mkdir(parents=True, exist_ok=True)
if path.suffix == ".xlsx":
    result = openpyxl.Workbook()
    for line in table:
        result.active.append(line)
    result.save(path)
else:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(table)
print("wrote", path)
""",
        after=("put the exceptions together",),
        is_delivery=True,
    ),
    python(
        "work out whose payments are on hold",
        """
import re
held = set()
for path in sorted(pathlib.Path("mail").glob("*.txt")):
    text = path.read_text()
    held |= set(re.findall(r"hold payments to (.+)", text))
    held -= set(re.findall(r"release payments to (.+)", text))
print("on hold:", sorted(held))
""",
    ),
    python(
        "choose the invoices to pay",
        """
set_aside = {item["invoice_id"] for item, code in exceptions}
payable = [
    item for item in invoices
    if item["invoice_id"] not in set_aside
    and item["due_date"] <= {{cutoff_date}}
    and suppliers[item["supplier_id"]][0] not in held
]
print(len(payable), "to pay")
""",
        after=("put the exceptions together", "work out whose payments are on hold"),
    ),
    python(
        "write the payments",
        """
import datetime
form = {{date_format}}.replace("YYYY", "%Y").replace("MM", "%m").replace("DD", "%d")
day = datetime.date.fromisoformat({{pay_date}}).strftime(form)
in_cents = "cents" in {{amount_unit}}
path = pathlib.Path({{payment_file}})
path.parent.mkdir(parents=True, exist_ok=True)
with path.open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["account", "reference", "amount", "pay_on"])
    for item in payable:
        amount = int(Decimal(item["amount"]) * 100) if in_cents else item["amount"]
        writer.writerow([suppliers[item["supplier_id"]][1], item["invoice_id"], amount, day])
""",
        after=("choose the invoices to pay",),
        is_delivery=True,
    ),
    bash("look at the payments", "head -n 3 {{payment_file}}", after=("write the payments",), is_extra=True),
    python(
        "add up the payments",
        """
total = sum((Decimal(item["amount"]) for item in payable), Decimal(0))
print(len(payable), "payments,", total, "EUR")
""",
        after=("choose the invoices to pay",),
    ),
    python(
        "write the note",
        """
reader, path = {{recipient}}, pathlib.Path({{note_file}})
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text(
    f"Dear {reader},\\n\\n"
    f"the run has {len(payable)} payments, {total:.2f} EUR in total.\\n"
    f"{len(set_aside)} invoices are exceptions.\\n"
)
""",
        after=("add up the payments",),
        is_delivery=True,
    ),
    bash("read the note once more", "cat {{note_file}}", after=("write the note",), is_extra=True),
)

RECIPE = Recipe(
    name="invoice-matching",
    recognise=r"invoice matching",
    parameters=PARAMETERS,
    steps=STEPS,
    deliverables=("exceptions_file", "payment_file", "note_file"),
)
