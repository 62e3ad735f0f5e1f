"""inventory-reorder: load stock, sales, suppliers and calendar; forecast; order full packs; write order and summary."""

import datetime as dt
import re

from runners.models.scripted.recipe import Memory, Parameter, Recipe, among, bash, python, seen

_DAY = r"(\d{4}-\d\d-\d\d)"
_RULES = (
    "nothing is ordered from this supplier",
    "the order is placed all the same",
    "one more pack of each of its ordered items is added",
)
_REGISTER = "read the register of orders"


def _next_number(memory: Memory) -> str | None:
    """The number after the last one in the register."""
    numbers = re.findall(r"(?m)^([A-Z]+)-(\d{1,9}),", memory.get(_REGISTER, ""))
    return f"{numbers[-1][0]}-{int(numbers[-1][1]) + 1}" if numbers else None


def _next_date(memory: Memory) -> str | None:
    """A week after the last order in the register."""
    dates = re.findall(r"(?m)^[A-Z]+-\d+,(20\d\d-\d\d-\d\d),", memory.get(_REGISTER, ""))
    try:
        return (dt.date.fromisoformat(dates[-1]) + dt.timedelta(days=7)).isoformat()
    except (IndexError, ValueError):
        return None


PARAMETERS = (
    Parameter(
        name="warehouse",
        question="Which warehouse is the reorder for?",
        patterns=(r"of the warehouse ((?-i:[A-Z]\w+))", r"\bthe warehouse ((?-i:[A-Z]\w+))"),
        shape=r"\bwarehouse ([A-Z]\w+)",
        guesses=seen("look at the stock", r"(?m)^ *\d+ ([A-Z]\w+)$", "Lund"),
    ),
    Parameter(
        name="stock_file",
        question="Which of the stock exports should I use?",
        patterns=(r"take the stock from `([^`]+)`",),
        shape=r"([\w./-]+\.csv)\b",
        guesses=seen("list the files", r"\./(stock[\w-]*\.csv)\b", "stock.csv"),
        shown_by="list the files",
    ),
    Parameter(
        name="sales_period",
        question="From which period should I take the sales, from which day to which day?",
        patterns=(rf"sold from {_DAY} to {_DAY}",),
        shape=rf"{_DAY} (?:to|until|through|and|-) {_DAY}",
        guesses=among("2025-07-01 2025-09-30", "2025-09-01 2025-09-30"),
    ),
    Parameter(
        name="order_date",
        question="On which day is the order placed?",
        patterns=(rf"order is placed on {_DAY}",),
        shape=_DAY,
        guesses=among("2025-10-01", "2025-10-06"),
        find=_next_date,
    ),
    Parameter(
        name="cover_days",
        question="How many days after the delivery should the stock still cover?",
        patterns=(r"and (\d+) days more",),
        shape=r"\b(\d+) days\b",
        guesses=among("14", "30", "7"),
    ),
    Parameter(
        name="below_minimum",
        question="How should I handle an order that stays below the minimum_order of its supplier?",
        patterns=(rf"({'|'.join(_RULES)})",),
        shape=r"(nothing is ordered|all the same|one more pack)",
        guesses=among("the order is placed all the same", "nothing is ordered from this supplier"),
    ),
    Parameter(
        name="order_file",
        question="What should the file with the order be called?",
        patterns=(r"write the order to `([^`]+)`",),
        shape=r"([\w./-]+\.(?:json|csv))\b",
        guesses=among("order.csv", "reorder.csv"),
    ),
    Parameter(
        name="quantity_unit",
        question="Should the quantity be in packs or in pieces?",
        patterns=(r"quantity is in (packs|pieces)",),
        shape=r"\b(packs|pieces)\b",
        guesses=among("pieces"),
        criticality=0.5,
    ),
    Parameter(
        name="summary_file",
        question="Under which file name should I save the summary?",
        patterns=(r"then write `([^`]+)` in Markdown",),
        shape=r"([\w./-]+\.md)\b",
        guesses=among("summary.md"),
    ),
    Parameter(
        name="order_number",
        question="What is the number of this order?",
        patterns=(r"heading is Order ([A-Z]+-\d+)", r"\bOrder ([A-Z]+-\d+)"),
        shape=r"\b([A-Z]+-\d+)\b",
        guesses=among("RO-1", "RO-2025-41"),
        find=_next_number,
        criticality=0.5,
    ),
)

STEPS = (
    bash("list the files", "find . -type f | sort"),
    bash(
        "look at the stock",
        "head -n 3 {{stock_file}} && tail -n +2 {{stock_file}} | cut -d, -f2 | sort | uniq -c",
    ),
    bash("look at the calendar", "head -n 24 delivery_days.ics", joins_previous=True),
    bash(_REGISTER, "cat orders_register.csv", is_extra=True),
    python(
        "load items and suppliers",
        """
import csv, math, openpyxl, pathlib
from datetime import date, timedelta
from decimal import Decimal
book = openpyxl.load_workbook("suppliers.xlsx")
items = {row[0]: row[1:] for row in book["Items"].iter_rows(min_row=2, values_only=True)}
suppliers = {row[0]: row[1:] for row in book["Suppliers"].iter_rows(min_row=2, values_only=True)}
print(book.sheetnames, len(items), "items,", len(suppliers), "suppliers")
""",
    ),
    python(
        "load the stock",
        """
with open({{stock_file}}, newline="") as file:
    stock = [row for row in csv.DictReader(file) if row["warehouse"] == {{warehouse}}]
available = {row["sku"]: int(row["on_hand"]) - int(row["reserved"]) for row in stock}
print(len(available), "items in stock")
""",
        after=("load items and suppliers",),
    ),
    python(
        "load the sales",
        """
sales = []
for path in sorted(pathlib.Path("sales").glob("*.csv")):
    with path.open(newline="") as file:
        sales += [row for row in csv.DictReader(file) if row["warehouse"] == {{warehouse}}]
print(len(sales), "sales")
""",
        after=("load items and suppliers",),
    ),
    python(
        "add up the sales of the period",
        """
first_day, last_day = {{sales_period}}.split()
period_days = (date.fromisoformat(last_day) - date.fromisoformat(first_day)).days + 1
sold = dict.fromkeys(available, 0)
for row in sales:
    if first_day <= row["date"] <= last_day and row["sku"] in sold:
        sold[row["sku"]] += int(row["units"])
print(sum(sold.values()), "pieces in", period_days, "days")
""",
        after=("load the stock", "load the sales"),
    ),
    python(
        "read the delivery days",
        """
calendar = {}
for event in pathlib.Path("delivery_days.ics").read_text().split("BEGIN:VEVENT")[1:]:
    lines = dict(line.split(":", 1) for line in event.splitlines() if ":" in line)
    title, day = lines["SUMMARY"].strip(), lines["DTSTART;VALUE=DATE"].strip()
    if title.startswith("Delivery ") and lines["STATUS"].strip() != "CANCELLED":
        calendar.setdefault(title.removeprefix("Delivery "), []).append(date(int(day[:4]), int(day[4:6]), int(day[6:])))
print({name: len(days) for name, days in calendar.items()})
""",
        after=("load items and suppliers",),
    ),
    python(
        "find the next delivery of each supplier",
        """
today = date.fromisoformat({{order_date}})
comes_on = {
    key: min(day for day in calendar[row[0]] if day >= today + timedelta(days=row[1]))
    for key, row in suppliers.items()
}
print({suppliers[key][0]: day.isoformat() for key, day in comes_on.items()})
""",
        after=("load items and suppliers", "read the delivery days"),
    ),
    python(
        "work out what is missing",
        """
missing = {}
for sku, pieces in available.items():
    days = (comes_on[items[sku][0]] - today).days + int({{cover_days}})
    missing[sku] = Decimal(sold[sku] * days) / period_days - pieces
print(sum(pieces > 0 for pieces in missing.values()), "items run short")
""",
        after=("add up the sales of the period", "find the next delivery of each supplier"),
    ),
    python(
        "round up to full packs",
        """
packs = {sku: math.ceil(pieces / items[sku][1]) for sku, pieces in missing.items() if pieces > 0}
print(packs)
""",
        after=("work out what is missing",),
    ),
    python(
        "compare with the minimum orders",
        """
def value(sku):
    return order[sku] * items[sku][1] * Decimal(str(items[sku][2]))

rule, order = {{below_minimum}}, dict(packs)
for key, (name, lead_days, minimum) in suppliers.items():
    own = [sku for sku in order if items[sku][0] == key]
    if own and sum(value(sku) for sku in own) < minimum:
        print("below the minimum:", name)
        for sku in own:
            if "nothing" in rule:
                del order[sku]
            elif "one more" in rule:
                order[sku] += 1
print(len(order), "items to order")
""",
        after=("round up to full packs",),
    ),
    python(
        "write the order",
        """
import json
in_pieces = {{quantity_unit}} == "pieces"
records = [
    {
        "sku": sku,
        "supplier": suppliers[items[sku][0]][0],
        "quantity": count * items[sku][1] if in_pieces else count,
        "delivery_day": comes_on[items[sku][0]].isoformat(),
    }
    for sku, count in order.items()
]
path = pathlib.Path({{order_file}})
path.parent.mkdir(parents=True, exist_ok=True)
if path.suffix == ".json":
    path.write_text(json.dumps(records, indent=2))
else:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["sku", "supplier", "quantity", "delivery_day"])
        writer.writeheader()
        writer.writerows(records)
print("wrote", path)
""",
        after=("compare with the minimum orders",),
        is_delivery=True,
    ),
    bash("look at the order", "head -n 12 {{order_file}}", after=("write the order",), is_extra=True),
    python(
        "add up the values",
        """
totals = {}
for sku in order:
    name = suppliers[items[sku][0]][0]
    totals[name] = totals.get(name, 0) + value(sku)
print(totals)
""",
        after=("compare with the minimum orders",),
    ),
    python(
        "write the summary",
        """
lines = ["# Order " + {{order_number}}, ""]
lines += [f"- {name}: {amount:.2f} EUR" for name, amount in totals.items()]
lines += ["", f"Total: {sum(totals.values()):.2f} EUR"]
path = pathlib.Path({{summary_file}})
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text("\\n".join(lines) + "\\n")
""",
        after=("add up the values",),
        is_delivery=True,
    ),
    bash("read the summary once more", "cat {{summary_file}}", after=("write the summary",), is_extra=True),
)

RECIPE = Recipe(
    name="inventory-reorder",
    recognise=r"weekly reorder",
    parameters=PARAMETERS,
    steps=STEPS,
    deliverables=("order_file", "summary_file"),
)
