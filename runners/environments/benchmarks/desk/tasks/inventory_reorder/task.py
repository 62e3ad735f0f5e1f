"""The workspace of inventory-reorder: two stock exports, sales by month, suppliers, delivery days, past orders.

The checkpoints of inventory-reorder: the correct order, and whether the agent handed it in.
"""

import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from random import Random

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import (
    CheckpointNotMet,
    OfficeDeliverables,
    Row,
    check_listed,
    heading_mentions,
    line_mentions,
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

DROP_ORDER = "nothing is ordered from this supplier"
ORDER_ANYWAY = "the order is placed all the same"
ADD_PACKS = "one more pack of each of its ordered items is added"
WAREHOUSES = ("Gent", "Lund", "Turku")
_FIRST_DAY, _LAST_DAY = dt.date(2025, 7, 1), dt.date(2025, 9, 30)
_DAY = dt.timedelta(days=1)
_SUPPLIERS = ("Nordfrukt", "Delta Verpackung", "Mulino Rosa", "Atlas Kemi", "Quay Supplies")
_ITEMS_PER_SUPPLIER = 5
_PACK_SIZES = (6, 8, 12, 20, 24)
_SHORT_SUPPLIER = 2
"""The index of the supplier whose order stays below its minimum."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """The task parameters. Dates are ISO. ``below_minimum`` is a rule above, ``quantity_unit`` is packs or pieces."""

    warehouse: str = "Turku"
    stock_file: str = "stock_export_1.csv"
    sales_start: str = "2025-08-04"
    sales_end: str = "2025-09-21"
    order_date: str = "2025-10-08"
    cover_days: str = "17"
    below_minimum: str = DROP_ORDER
    order_file: str = "reorder_w41.json"
    quantity_unit: str = "packs"
    summary_file: str = "for_purchasing.md"
    order_number: str = "RO-2213"
    seed: int = 41


class Supplier(msgspec.Struct, frozen=True):
    """One row of the sheet Suppliers. The minimum order value is in EUR."""

    supplier_id: str
    name: str
    lead_days: int
    minimum_order: int


class Item(msgspec.Struct, frozen=True):
    """One row of the sheet Items. The price is in EUR per piece."""

    sku: str
    supplier_id: str
    pack_size: int
    unit_price: Decimal


class ScheduledDelivery(msgspec.Struct, frozen=True):
    """One event of the calendar."""

    supplier: str
    date: dt.date
    is_cancelled: bool


class ItemSale(msgspec.Struct, frozen=True, order=True):
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
    """All generated data of the task."""

    suppliers: tuple[Supplier, ...]
    items: tuple[Item, ...]
    deliveries: tuple[ScheduledDelivery, ...]
    sales: tuple[ItemSale, ...]
    stock: tuple[Stock, ...]


def build(parameters: Parameters) -> Files:
    """Build the workspace. As distractors, it has a stock export from a week earlier and last year's prices."""
    shop = draw(parameters)
    other = other_name(parameters.stock_file, "stock_export_2.csv", "stock_export_1.csv")
    return {
        parameters.stock_file: csv_of(Stock.__struct_fields__, shop.stock),
        other: csv_of(Stock.__struct_fields__, _older(shop.stock)),
        **_sales_files(shop.sales),
        "suppliers.xlsx": _suppliers_workbook(shop),
        "delivery_days.ics": _calendar_text(shop.deliveries),
        "orders_register.csv": _register_text(parameters),
    }


@cache
def draw(parameters: Parameters) -> Shop:
    """Generate the shop. One supplier's order stays below its minimum."""
    chance = seeded(parameters.seed)
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
    """Return how many packs of each item are missing, before any minimum is applied."""
    suppliers = {item.supplier_id: item for item in shop.suppliers}
    available = {row.sku: row.available for row in shop.stock if row.warehouse == parameters.warehouse}
    packs = {}
    for item in shop.items:
        sold = units_sold(parameters, shop.sales, item.sku)
        day = delivery_day(parameters, suppliers[item.supplier_id], shop.deliveries)
        packs[item.sku] = packs_of(missing_pieces(parameters, sold, available[item.sku], day), item.pack_size)
    return packs


def delivery_day(parameters: Parameters, supplier: Supplier, deliveries: Sequence[ScheduledDelivery]) -> dt.date:
    """Return the day on which a supplier delivers an order placed on the order date."""
    earliest = dt.date.fromisoformat(parameters.order_date) + dt.timedelta(days=supplier.lead_days)
    return min(
        item.date
        for item in deliveries
        if item.supplier == supplier.name and not item.is_cancelled and item.date >= earliest
    )


def missing_pieces(parameters: Parameters, sold: int, available: int, day: dt.date) -> Fraction:
    """Return how many pieces are missing if the delivery comes on ``day``, unrounded. Negative if the stock lasts."""
    start, end = dt.date.fromisoformat(parameters.sales_start), dt.date.fromisoformat(parameters.sales_end)
    days_to_cover = (day - dt.date.fromisoformat(parameters.order_date)).days + int(parameters.cover_days)
    return Fraction(sold * days_to_cover, (end - start).days + 1) - available


def packs_of(missing: Fraction, pack_size: int) -> int:
    """Return how many full packs cover the missing pieces."""
    return max(0, math.ceil(missing / pack_size))


def value_of(shop: Shop, supplier: Supplier, packs: Mapping[str, int]) -> Decimal:
    """Return the value of an order from a supplier, in EUR."""
    own = (item for item in shop.items if item.supplier_id == supplier.supplier_id)
    return sum((packs.get(item.sku, 0) * item.pack_size * item.unit_price for item in own), Decimal(0))


def units_sold(parameters: Parameters, sales: Sequence[ItemSale], sku: str) -> int:
    """Return how many pieces of an item the warehouse sold in the period."""
    start, end = dt.date.fromisoformat(parameters.sales_start), dt.date.fromisoformat(parameters.sales_end)
    return sum(
        sale.units
        for sale in sales
        if sale.sku == sku and sale.warehouse == parameters.warehouse and start <= sale.date <= end
    )


def _with_minimums(parameters: Parameters, shop: Shop) -> tuple[Supplier, ...]:
    """Set one supplier's minimum 20% above its order value, and the other minimums to about half."""
    packs = needed_packs(parameters, shop)
    minimums = [
        int(value_of(shop, item, packs) * (12 if place == _SHORT_SUPPLIER else 5) / 100 + 1) * 10
        for place, item in enumerate(shop.suppliers)
    ]
    return tuple(
        msgspec.structs.replace(item, minimum_order=minimum)
        for item, minimum in zip(shop.suppliers, minimums, strict=True)
    )


def _deliveries(chance: Random, parameters: Parameters, supplier: Supplier, place: int) -> list[ScheduledDelivery]:
    """Generate one or two deliveries a week. Near the first possible day, some are early, on that day, or cancelled."""
    possible = dt.date.fromisoformat(parameters.order_date) + supplier.lead_days * _DAY
    dates = {possible + (step + chance.randrange(3)) * _DAY for step in range(-24, 30, 5)}
    dates = {date for date in dates if abs(date - possible) > 2 * _DAY} | {possible - _DAY}
    cancelled = {possible} if place % 3 == 0 else {possible + 4 * _DAY}
    if place % 3 == 1:
        dates.add(possible)
    return [ScheduledDelivery(supplier.name, date, date in cancelled) for date in sorted(dates | cancelled)]


def _sales(chance: Random, sku: str, warehouse: str) -> list[ItemSale]:
    """Generate sales on about half of the days, with a trend, so that the period matters."""
    usual, trend = chance.randrange(4, 26), chance.choice((-1, 1)) * chance.randrange(3, 9) / 10
    sales = []
    for place in range((_LAST_DAY - _FIRST_DAY).days + 1):
        units = round(usual * (1 + trend * (place / 46 - 1)) * chance.uniform(0.4, 1.6))
        if chance.random() < 0.5 and units > 0:
            sales.append(ItemSale(_FIRST_DAY + place * _DAY, warehouse, sku, units))
    return sales


def _stock(
    chance: Random, parameters: Parameters, item: Item, warehouse: str, sold: int, day: dt.date, place: int
) -> Stock:
    """Generate stock that covers part of the demand, and only a small part for the first items.

    The shortage is never a whole number of packs, because a float rounding error could then add a pack.
    """
    share = Fraction(chance.randrange(15, 170), 100) if place >= len(_SUPPLIERS) else Fraction(3, 10)
    reserved = chance.randrange(0, 30)
    available = int(missing_pieces(parameters, sold, 0, day) * share)
    if missing_pieces(parameters, sold, available, day) % item.pack_size == 0:
        available += 1
    return Stock(item.sku, warehouse, available + reserved, reserved)


def _older(stock: Sequence[Stock]) -> list[Stock]:
    """Return last week's stock: mostly larger, sometimes smaller because a delivery had not arrived yet."""
    return [
        msgspec.structs.replace(row, on_hand=row.on_hand + 35 if place % 3 else max(row.reserved, row.on_hand - 40))
        for place, row in enumerate(stock)
    ]


def _sales_files(sales: Sequence[ItemSale]) -> dict[str, str]:
    months = range(_FIRST_DAY.month, _LAST_DAY.month + 1)
    return {
        f"sales/2025-{month:02}.csv": csv_of(
            ItemSale.__struct_fields__, (item for item in sales if item.date.month == month)
        )
        for month in months
    }


def _suppliers_workbook(shop: Shop) -> Workbook:
    """Return the workbook of current items and suppliers, with last year's prices."""
    last_year = [msgspec.structs.replace(item, unit_price=item.unit_price - Decimal("0.35")) for item in shop.items]
    return {
        "Prices 2024": sheet_of(("sku", "unit_price"), last_year),
        "Items": sheet_of(Item.__struct_fields__, shop.items),
        "Suppliers": sheet_of(Supplier.__struct_fields__, shop.suppliers),
    }


def _calendar_text(deliveries: Sequence[ScheduledDelivery]) -> str:
    """Return the calendar as iCalendar text, in date order, with one stocktaking among the deliveries."""
    events = [
        (item.date, f"Delivery {item.supplier}", "CANCELLED" if item.is_cancelled else "CONFIRMED")
        for item in deliveries
    ]
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Warehouse//Deliveries//EN"]
    for place, (date, title, status) in enumerate(
        sorted([*events, (dt.date(2025, 10, 10), "Stocktaking", "CONFIRMED")])
    ):
        lines += [
            "BEGIN:VEVENT",
            f"UID:{place}@warehouse.example",
            "DTSTAMP:20250901T080000Z",
            f"DTSTART;VALUE=DATE:{date:%Y%m%d}",
            f"SUMMARY:{title}",
            f"STATUS:{status}",
            "END:VEVENT",
        ]
    return "".join(f"{line}\r\n" for line in [*lines, "END:VCALENDAR"])


def _register_text(parameters: Parameters) -> str:
    """Return the register of the last four weeks' orders."""
    prefix, _, number = parameters.order_number.rpartition("-")
    ordered_on = dt.date.fromisoformat(parameters.order_date)
    rows = [
        (f"{prefix}-{int(number) - ago}", ordered_on - 7 * ago * _DAY, "confirmed" if ago == 1 else "delivered")
        for ago in range(4, 0, -1)
    ]
    return csv_text([("order_number", "placed_on", "status"), *rows])


_FIELDS = ("sku", "supplier", "quantity", "delivery_day")


@cache
def _order(parameters: Parameters) -> dict[str, int]:
    """Return the correct order: item -> packs."""
    shop = draw(parameters)
    order = {sku: packs for sku, packs in needed_packs(parameters, shop).items() if packs}
    for supplier in shop.suppliers:
        own = [item.sku for item in shop.items if item.supplier_id == supplier.supplier_id and item.sku in order]
        if value_of(shop, supplier, order) >= supplier.minimum_order:
            continue
        for sku in own:
            if parameters.below_minimum == DROP_ORDER:
                del order[sku]
            elif parameters.below_minimum == ADD_PACKS:
                order[sku] += 1
    return order


@cache
def _suppliers_of_items(parameters: Parameters) -> dict[str, tuple[str, dt.date]]:
    """Return for each item the name of its supplier and the delivery day."""
    shop = draw(parameters)
    suppliers = {item.supplier_id: item for item in shop.suppliers}
    days = {name: delivery_day(parameters, supplier, shop.deliveries) for name, supplier in suppliers.items()}
    return {item.sku: (suppliers[item.supplier_id].name, days[item.supplier_id]) for item in shop.items}


def _records(left: OfficeDeliverables, parameters: Parameters) -> list[Row]:
    """Return the ordered items, all of which must exist. The file name determines the format."""
    name = parameters.order_file
    rows = _json_records(left, name) if name.endswith(".json") else left.table(name, _FIELDS)
    unknown = [row["sku"] for row in rows if row["sku"] not in _suppliers_of_items(parameters)]
    if unknown or not rows:
        raise CheckpointNotMet(f"{name} has {len(rows)} records, {len(unknown)} of them of unknown items")
    return rows


def _json_records(left: OfficeDeliverables, name: str) -> list[Row]:
    try:
        content = json.loads(left.text(name))
    except (ValueError, RecursionError) as error:
        raise CheckpointNotMet(f"{name} is not JSON") from error
    if isinstance(content, dict) and len(content) == 1:
        content = next(iter(content.values()))  # {"order": [...]} is accepted like the array alone
    if not isinstance(content, list) or not all(
        isinstance(item, dict) and item.keys() >= {*_FIELDS} for item in content
    ):
        raise CheckpointNotMet(f"{name} is not an array of objects with the fields {', '.join(_FIELDS)}")
    return [{field: str(item[field]).strip() for field in _FIELDS} for item in content]


def _check_form(left: OfficeDeliverables, parameters: Parameters) -> str:
    rows = _records(left, parameters)
    for row in rows:
        if row["supplier"].casefold() != _suppliers_of_items(parameters)[row["sku"]][0].casefold():
            raise CheckpointNotMet(f"{row['sku']} is not from {row['supplier']!r}")
    return f"{len(rows)} records with their suppliers in {parameters.order_file}"


def _check_items(left: OfficeDeliverables, parameters: Parameters) -> str:
    return check_listed((row["sku"] for row in _records(left, parameters)), _order(parameters), "ordered items")


def _check_quantities(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check that every item of the correct order has the right quantity. Additional items do not matter here."""
    quantities = {row["sku"]: number(row["quantity"]) for row in _records(left, parameters)}
    sizes = {item.sku: item.pack_size for item in draw(parameters).items}
    for sku, packs in _order(parameters).items():
        expected = packs if parameters.quantity_unit == "packs" else packs * sizes[sku]
        if quantities.get(sku) != expected:
            raise CheckpointNotMet(
                f"the quantity of {sku} is {quantities.get(sku)}, not {expected} {parameters.quantity_unit}"
            )
    return f"every quantity is right, in {parameters.quantity_unit}"


def _check_delivery(left: OfficeDeliverables, parameters: Parameters) -> str:
    for row in _records(left, parameters):
        expected = _suppliers_of_items(parameters)[row["sku"]][1].isoformat()
        if row["delivery_day"] != expected:
            raise CheckpointNotMet(f"{row['sku']} comes on {expected}, not on {row['delivery_day']!r}")
    return "every delivery day is right"


def _check_summary(left: OfficeDeliverables, parameters: Parameters) -> str:
    text = left.text(parameters.summary_file)
    shop, order = draw(parameters), _order(parameters)
    if not heading_mentions(text, f"Order {parameters.order_number}"):
        raise CheckpointNotMet(f"no heading says Order {parameters.order_number}")
    values = {item.name: value_of(shop, item, order) for item in shop.suppliers}
    for name, value in values.items():
        if value and not line_mentions(text, name, value):
            raise CheckpointNotMet(f"no line gives {value} EUR for {name}")
    total = sum(values.values(), Decimal(0))
    if not mentions_number(text, total):
        raise CheckpointNotMet(f"the total of {total} EUR is not there")
    return f"the values of all suppliers and the total of {total} EUR are there"


TASK = DeskTask(
    task_id="inventory-reorder",
    domain="operations",
    parameters=Parameters(),
    build=build,
    checkpoints=(
        DeskCheckpoint(checkpoint_id="form", label="the order file has the demanded form", check=_check_form),
        DeskCheckpoint(checkpoint_id="items", label="the right items are ordered", check=_check_items),
        DeskCheckpoint(checkpoint_id="quantities", label="the quantities are right", check=_check_quantities),
        DeskCheckpoint(checkpoint_id="delivery", label="the delivery days are right", check=_check_delivery),
        DeskCheckpoint(checkpoint_id="summary", label="the summary adds up", check=_check_summary),
    ),
)
