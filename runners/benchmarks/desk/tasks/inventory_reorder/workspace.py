"""The workspace of inventory-reorder: two stock exports, sales by month, suppliers, delivery days, past orders."""

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache

import msgspec

from runners.benchmarks.desk.files import Cell, Files, Workbook, csv_text
from runners.benchmarks.desk.tasks.inventory_reorder.rules import (
    Delivery,
    Item,
    Parameters,
    Supplier,
    delivery_day,
    missing_pieces,
    packs_of,
)

WAREHOUSES = ("Gent", "Lund", "Turku")
_FIRST_DAY, _LAST_DAY = dt.date(2025, 7, 1), dt.date(2025, 9, 30)
_DAY = dt.timedelta(days=1)
_SUPPLIERS = ("Nordfrukt", "Delta Verpackung", "Mulino Rosa", "Atlas Kemi", "Quay Supplies")
_ITEMS_PER_SUPPLIER = 5
_PACK_SIZES = (6, 8, 12, 20, 24)
_SHORT_SUPPLIER = 2
"""The place of the supplier whose order stays below its minimum."""


class Sale(msgspec.Struct, frozen=True, order=True):
    """One row of the sales."""

    date: dt.date
    warehouse: str
    sku: str
    units: int


class Stock(msgspec.Struct, frozen=True):
    """One row of a stock export."""

    sku: str
    warehouse: str
    on_hand: int
    reserved: int

    @property
    def available(self) -> int:
        """What can be sold, in pieces."""
        return self.on_hand - self.reserved


class Shop(msgspec.Struct, frozen=True):
    """Everything that was drawn."""

    suppliers: tuple[Supplier, ...]
    items: tuple[Item, ...]
    deliveries: tuple[Delivery, ...]
    sales: tuple[Sale, ...]
    stock: tuple[Stock, ...]


def build(parameters: Parameters) -> Files:
    """Make the workspace: the other stock export is a week older, and the old price list lies in the same workbook."""
    shop = draw(parameters)
    other = "stock_export_2.csv" if parameters.stock_file != "stock_export_2.csv" else "stock_export_1.csv"
    return {
        parameters.stock_file: _stock_text(shop.stock),
        other: _stock_text(_older(shop.stock)),
        **_sales_files(shop.sales),
        "suppliers.xlsx": _suppliers_workbook(shop),
        "delivery_days.ics": _calendar_text(shop.deliveries),
        "orders_register.csv": _register_text(parameters),
    }


@cache
def draw(parameters: Parameters) -> Shop:
    """Draw the shop; one supplier's order stays below its minimum."""
    chance = random.Random(parameters.seed)  # noqa: S311  reproducible test data, not secrets
    names = chance.sample(_SUPPLIERS, len(_SUPPLIERS))
    suppliers = [Supplier(f"L{11 + 6 * place}", name, chance.randrange(2, 7), 0) for place, name in enumerate(names)]
    deliveries = tuple(
        delivery for place, item in enumerate(suppliers) for delivery in _deliveries(chance, parameters, item, place)
    )
    items = tuple(
        Item(
            sku=f"SKU-{501 + 13 * place}",
            supplier_id=suppliers[place % len(suppliers)].supplier_id,
            pack_size=chance.choice(_PACK_SIZES),
            unit_price=Decimal(chance.randrange(90, 2400, 5)).scaleb(-2),
        )
        for place in range(len(suppliers) * _ITEMS_PER_SUPPLIER)
    )
    sales = tuple(sorted(sale for item in items for name in WAREHOUSES for sale in _sales(chance, item.sku, name)))
    days = {item.supplier_id: delivery_day(parameters, item, deliveries) for item in suppliers}
    stock = tuple(
        _stock(chance, parameters, item, name, units_sold(parameters, sales, item.sku), days[item.supplier_id], place)
        for place, item in enumerate(items)
        for name in WAREHOUSES
    )
    shop = Shop(tuple(suppliers), items, deliveries, sales, stock)
    return msgspec.structs.replace(shop, suppliers=_with_minimums(parameters, shop))


@cache
def needed_packs(parameters: Parameters, shop: Shop) -> dict[str, int]:
    """Return how many packs of each item make up for what is missing, before any minimum is looked at."""
    suppliers = {item.supplier_id: item for item in shop.suppliers}
    available = {row.sku: row.available for row in shop.stock if row.warehouse == parameters.warehouse}
    packs = {}
    for item in shop.items:
        sold = units_sold(parameters, shop.sales, item.sku)
        day = delivery_day(parameters, suppliers[item.supplier_id], shop.deliveries)
        packs[item.sku] = packs_of(missing_pieces(parameters, sold, available[item.sku], day), item.pack_size)
    return packs


def value_of(shop: Shop, supplier: Supplier, packs: Mapping[str, int]) -> Decimal:
    """Return the value in EUR of what is ordered from a supplier."""
    own = (item for item in shop.items if item.supplier_id == supplier.supplier_id)
    return sum((packs.get(item.sku, 0) * item.pack_size * item.unit_price for item in own), Decimal(0))


def units_sold(parameters: Parameters, sales: Sequence[Sale], sku: str) -> int:
    """Return how much of an item the warehouse sold in the period."""
    start, end = dt.date.fromisoformat(parameters.sales_start), dt.date.fromisoformat(parameters.sales_end)
    return sum(
        sale.units
        for sale in sales
        if sale.sku == sku and sale.warehouse == parameters.warehouse and start <= sale.date <= end
    )


def _with_minimums(parameters: Parameters, shop: Shop) -> tuple[Supplier, ...]:
    """Set one minimum a fifth above the value of the order, the others at about half of it."""
    packs = needed_packs(parameters, shop)
    minimums = [
        int(value_of(shop, item, packs) * (12 if place == _SHORT_SUPPLIER else 5) / 100 + 1) * 10
        for place, item in enumerate(shop.suppliers)
    ]
    return tuple(
        msgspec.structs.replace(item, minimum_order=minimum)
        for item, minimum in zip(shop.suppliers, minimums, strict=True)
    )


def _deliveries(chance: random.Random, parameters: Parameters, supplier: Supplier, place: int) -> list[Delivery]:
    """One or two delivery days a week, and beside the first possible day: one too early, one on it, one cancelled."""
    possible = dt.date.fromisoformat(parameters.order_date) + supplier.lead_days * _DAY
    dates = {possible + (step + chance.randrange(3)) * _DAY for step in range(-24, 30, 5)}
    dates = {date for date in dates if abs(date - possible) > 2 * _DAY} | {possible - _DAY}
    cancelled = {possible} if place % 3 == 0 else {possible + 4 * _DAY}
    if place % 3 == 1:
        dates.add(possible)
    return [Delivery(supplier.name, date, date in cancelled) for date in sorted(dates | cancelled)]


def _sales(chance: random.Random, sku: str, warehouse: str) -> list[Sale]:
    """Sell on about half of the days, more and more or less and less, so that the period matters."""
    usual, trend = chance.randrange(4, 26), chance.choice((-1, 1)) * chance.randrange(3, 9) / 10
    sales = []
    for number in range((_LAST_DAY - _FIRST_DAY).days + 1):
        units = round(usual * (1 + trend * (number / 46 - 1)) * chance.uniform(0.4, 1.6))
        if chance.random() < 0.5 and units > 0:
            sales.append(Sale(_FIRST_DAY + number * _DAY, warehouse, sku, units))
    return sales


def _stock(
    chance: random.Random, parameters: Parameters, item: Item, warehouse: str, sold: int, day: dt.date, place: int
) -> Stock:
    """A stock that covers a share of the demand, little for the first items, and never leaves just full packs missing.

    Where exactly full packs are missing, rounding errors of binary fractions would decide about one more pack.
    """
    share = Fraction(chance.randrange(15, 170), 100) if place >= len(_SUPPLIERS) else Fraction(3, 10)
    reserved = chance.randrange(0, 30)
    available = int(missing_pieces(parameters, sold, 0, day) * share)
    if missing_pieces(parameters, sold, available, day) % item.pack_size == 0:
        available += 1
    return Stock(item.sku, warehouse, available + reserved, reserved)


def _older(stock: Sequence[Stock]) -> list[Stock]:
    """The stock of a week before: mostly more, sometimes less because a delivery had not come."""
    return [
        msgspec.structs.replace(row, on_hand=row.on_hand + 35 if place % 3 else max(row.reserved, row.on_hand - 40))
        for place, row in enumerate(stock)
    ]


def _stock_text(stock: Sequence[Stock]) -> str:
    rows = [(row.sku, row.warehouse, row.on_hand, row.reserved) for row in stock]
    return csv_text([("sku", "warehouse", "on_hand", "reserved"), *rows])


def _sales_files(sales: Sequence[Sale]) -> dict[str, str]:
    def month(number: int) -> str:
        rows = [(item.date, item.warehouse, item.sku, item.units) for item in sales if item.date.month == number]
        return csv_text([("date", "warehouse", "sku", "units"), *rows])

    return {f"sales/2025-{number:02}.csv": month(number) for number in range(_FIRST_DAY.month, _LAST_DAY.month + 1)}


def _suppliers_workbook(shop: Shop) -> Workbook:
    """The items and suppliers in force, and last year's prices."""
    items: list[list[Cell]] = [["sku", "supplier_id", "pack_size", "unit_price"]]
    items += [[item.sku, item.supplier_id, item.pack_size, float(item.unit_price)] for item in shop.items]
    suppliers: list[list[Cell]] = [["supplier_id", "name", "lead_days", "minimum_order"]]
    suppliers += [[item.supplier_id, item.name, item.lead_days, item.minimum_order] for item in shop.suppliers]
    old: list[list[Cell]] = [["sku", "unit_price"]]
    old += [[item.sku, float(item.unit_price - Decimal("0.35"))] for item in shop.items]
    return {"Prices 2024": old, "Items": items, "Suppliers": suppliers}


def _calendar_text(deliveries: Sequence[Delivery]) -> str:
    """An iCalendar file in the order of the days, with a stocktaking in between."""
    events = [
        (item.date, f"Delivery {item.supplier}", "CANCELLED" if item.is_cancelled else "CONFIRMED")
        for item in deliveries
    ]
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Warehouse//Deliveries//EN"]
    for number, (date, title, status) in enumerate(
        sorted([*events, (dt.date(2025, 10, 10), "Stocktaking", "CONFIRMED")])
    ):
        lines += [
            "BEGIN:VEVENT",
            f"UID:{number}@warehouse.example",
            "DTSTAMP:20250901T080000Z",
            f"DTSTART;VALUE=DATE:{date:%Y%m%d}",
            f"SUMMARY:{title}",
            f"STATUS:{status}",
            "END:VEVENT",
        ]
    return "".join(f"{line}\r\n" for line in [*lines, "END:VCALENDAR"])


def _register_text(parameters: Parameters) -> str:
    """The register of the orders of the last four weeks."""
    prefix, _, number = parameters.order_number.rpartition("-")
    ordered_on = dt.date.fromisoformat(parameters.order_date)
    rows = [
        (f"{prefix}-{int(number) - ago}", ordered_on - 7 * ago * _DAY, "confirmed" if ago == 1 else "delivered")
        for ago in range(4, 0, -1)
    ]
    return csv_text([("order_number", "placed_on", "status"), *rows])
