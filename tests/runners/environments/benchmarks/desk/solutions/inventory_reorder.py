"""inventory-reorder, solved by hand from the files."""

import json
import math
import re
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

from lhaw_record.runners.environments.benchmarks.desk.tasks.inventory_reorder.task import (
    ADD_PACKS,
    DROP_ORDER,
    ORDER_ANYWAY,
)
from tests.runners.environments.benchmarks.desk.solutions import another, csv_rows, save, sheet_rows, write_table

ALTERNATIVES = {
    "warehouse": ["Gent", "Lund"],
    "stock_file": ["stock_export_2.csv", "stock/turku october.csv", "count.csv"],
    "sales_start": ["2025-07-14", "2025-09-01"],
    "sales_end": ["2025-09-14", "2025-09-30"],
    "order_date": ["2025-10-06", "2025-10-15"],
    "cover_days": ["9", "24", "30"],
    "below_minimum": [ORDER_ANYWAY, ADD_PACKS],
    "order_file": ["out/order.csv", "w41.csv", "order w41.json"],
    "quantity_unit": ["pieces"],
    "summary_file": ["out/summary.md", "for-the-buyer.md"],
    "order_number": ["RO-3001", "PUR-100"],
    "seed": [1, 2, 3],
}


def _sheet(folder, name):
    return {row[0]: row[1:] for row in sheet_rows(folder / "suppliers.xlsx", name)}


def _deliveries(folder, *, ignores_status=False):
    """Supplier -> delivery days in order."""
    found = {}
    for block in (folder / "delivery_days.ics").read_text().split("BEGIN:VEVENT")[1:]:
        title, day = re.search(r"SUMMARY:(.*)", block)[1].strip(), re.search(r"DATE:(\d{8})", block)[1]
        if title.startswith("Delivery ") and (ignores_status or "CANCELLED" not in block):
            found.setdefault(title[9:], []).append(date(int(day[:4]), int(day[4:6]), int(day[6:])))
    return {name: sorted(days) for name, days in found.items()}


def _order(folder, parameters, *, ignores_status=False, adds_no_days=False, prices="Items", **changes):
    """Return rows (sku, supplier, packs, pack size, day, value); ``changes`` replaces what the prompt says."""
    said = {name: getattr(parameters, name) for name in parameters.__struct_fields__} | changes
    suppliers, items = _sheet(folder, "Suppliers"), _sheet(folder, "Items")
    deliveries = _deliveries(folder, ignores_status=ignores_status)
    price_of = {sku: Decimal(str(row[-1])) for sku, row in _sheet(folder, prices).items()}
    sold = _sold(folder, said)
    period = (date.fromisoformat(said["sales_end"]) - date.fromisoformat(said["sales_start"])).days + 1
    today = date.fromisoformat(said["order_date"])
    rows = []
    for stock in csv_rows(folder / said["stock_file"]):
        if stock["warehouse"] != said["warehouse"]:
            continue
        supplier_id, pack_size, _ = items[stock["sku"]]
        name, lead_days, _ = suppliers[supplier_id]
        day = next(day for day in deliveries[name] if day >= today + timedelta(days=lead_days))
        days = (0 if adds_no_days else (day - today).days) + int(said["cover_days"])
        short = Fraction(sold[stock["sku"]], period) * days - int(stock["on_hand"]) + int(stock["reserved"])
        packs = math.ceil(short / pack_size)
        if packs > 0:
            rows.append([stock["sku"], name, packs, pack_size, day, packs * pack_size * price_of[stock["sku"]]])
    minimums = {name: minimum for name, _, minimum in suppliers.values()}
    low = [name for name in minimums if sum(row[-1] for row in rows if row[1] == name) < minimums[name]]
    return _after_minimums(rows, low, said["below_minimum"], price_of)


def _sold(folder, said):
    sold = Counter()
    for path in sorted(folder.glob("sales/*.csv")):
        for row in csv_rows(path):
            if row["warehouse"] == said["warehouse"] and said["sales_start"] <= row["date"] <= said["sales_end"]:
                sold[row["sku"]] += int(row["units"])
    return sold


def _after_minimums(rows, low, rule, price_of):
    if rule == DROP_ORDER:
        return [row for row in rows if row[1] not in low]
    for row in rows:
        if row[1] in low and rule == ADD_PACKS:
            row[2] += 1
            row[-1] = row[2] * row[3] * price_of[row[0]]
    return rows


def _records(rows, parameters, unit=None):
    in_packs = (unit or parameters.quantity_unit) == "packs"
    return [
        [sku, name, packs if in_packs else packs * size, day.isoformat()] for sku, name, packs, size, day, _ in rows
    ]


def _write(path, records):
    header = ["sku", "supplier", "quantity", "delivery_day"]
    if path.suffix == ".json":
        save(path, json.dumps([dict(zip(header, record, strict=True)) for record in records]))
    else:
        write_table(path, [header, *records])


def _values(rows):
    values = {}
    for row in rows:
        values[row[1]] = values.get(row[1], 0) + row[-1]
    return values


def _summary(folder, parameters, rows, heading=None):
    lines = [heading or f"# Order {parameters.order_number}", ""]
    lines += [f"- {name}: {value:.2f} EUR" for name, value in _values(rows).items()]
    total = f"Total: {sum(row[-1] for row in rows):.2f} EUR"
    save(folder / parameters.summary_file, "\n".join([*lines, "", total, ""]))


def item_by_item(folder, parameters):
    """In exact fractions, exactly as the prompt says."""
    rows = _order(folder, parameters)
    _write(folder / parameters.order_file, _records(rows, parameters))
    _summary(folder, parameters, rows)


def supplier_by_supplier(folder, parameters):
    """In floats, one supplier after the other; an array inside an object or a semicolon, and a table."""
    suppliers, items, deliveries = _sheet(folder, "Suppliers"), _sheet(folder, "Items"), _deliveries(folder)
    stock = {
        row["sku"]: row for row in csv_rows(folder / parameters.stock_file) if row["warehouse"] == parameters.warehouse
    }
    sales = [
        row for path in folder.glob("sales/*.csv") for row in csv_rows(path) if row["warehouse"] == parameters.warehouse
    ]
    first, last, today = (
        date.fromisoformat(text) for text in (parameters.sales_start, parameters.sales_end, parameters.order_date)
    )
    orders, lines, total = [], [], 0.0
    for supplier_id, (name, lead_days, minimum) in sorted(suppliers.items(), key=lambda pair: pair[1][0]):
        day = min(day for day in deliveries[name] if (day - today).days >= lead_days)
        own = {}
        for sku in (sku for sku in items if items[sku][0] == supplier_id):
            sold = sum(
                int(row["units"])
                for row in sales
                if row["sku"] == sku and first <= date.fromisoformat(row["date"]) <= last
            )
            daily = sold / ((last - first).days + 1)
            needed = daily * ((day - today).days + int(parameters.cover_days))
            needed -= int(stock[sku]["on_hand"]) - int(stock[sku]["reserved"])
            if needed > 0:
                own[sku] = math.ceil(needed / items[sku][1])
        if sum(packs * items[sku][1] * items[sku][2] for sku, packs in own.items()) < minimum:
            extra = parameters.below_minimum == ADD_PACKS
            own = {} if parameters.below_minimum == DROP_ORDER else {sku: packs + extra for sku, packs in own.items()}
        orders += [[sku, name.upper(), packs, items[sku][1], day, 0] for sku, packs in own.items()]
        value = sum(packs * items[sku][1] * items[sku][2] for sku, packs in own.items())
        lines += [f"| {name} | {value:,.2f} |"] if own else []
        total += value
    path = folder / parameters.order_file
    header = ["sku", "supplier", "quantity", "delivery_day", "warehouse"]
    records = [[*record, parameters.warehouse] for record in _records(orders, parameters)]
    if path.suffix == ".json":
        content = [dict(zip(header, [*map(str, record)], strict=True)) for record in records]
        save(path, json.dumps({"order": content}, indent=1))
    else:
        write_table(path, [["SKU", "Supplier", "Quantity", "Delivery day", "W"], *records], ";")
    table = "\r\n".join(["| supplier | EUR |", "| --- | --- |", *lines, f"| **Total** | **{total:,.2f}** |"])
    save(folder / parameters.summary_file, f"## Order `{parameters.order_number}`, weekly\r\n\r\n{table}\r\n")


def older_stock(folder, parameters):
    """Takes the export of the week before, and writes a format that the file name contradicts."""
    other = another(folder, "stock_export_*.csv", parameters.stock_file)
    rows = _order(folder, parameters, stock_file=other)
    records = _records(rows, parameters)
    (folder / parameters.order_file).write_text("\n".join(" ".join(map(str, record)) for record in records))
    _summary(folder, parameters, rows)


def own_rules(folder, parameters):
    """Uses another warehouse, pieces for packs, cancelled deliveries, and supplier numbers for names."""
    warehouse = "Gent" if parameters.warehouse != "Gent" else "Lund"
    unit = "pieces" if parameters.quantity_unit == "packs" else "packs"
    rows = _order(folder, parameters, warehouse=warehouse, ignores_status=True)
    numbers = {row[0]: key for key, row in _sheet(folder, "Suppliers").items()}
    records = [[sku, numbers[name], *rest] for sku, name, *rest in _records(rows, parameters, unit)]
    _write(folder / parameters.order_file, records)
    _summary(folder, parameters, rows, "# Order")


def short_sighted(folder, parameters):
    """Forgets the days until the delivery and the minimum, and orders at last year's prices, for today."""
    rows = _order(folder, parameters, adds_no_days=True, below_minimum=ORDER_ANYWAY, prices="Prices 2024")
    records = [[*record[:3], parameters.order_date] for record in _records(rows, parameters)]
    _write(folder / parameters.order_file, records)
    _summary(folder, parameters, rows)


CORRECT = (item_by_item, supplier_by_supplier)
WRONG = (older_stock, own_rules, short_sighted)
