"""The rules of inventory-reorder in exact fractions: when a supplier delivers, what is missing until then, in packs."""

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import msgspec

DROP_ORDER = "nothing is ordered from this supplier"
ORDER_ANYWAY = "the order is placed all the same"
ADD_PACKS = "one more pack of each of its ordered items is added"


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What the prompt says: ISO dates, ``below_minimum`` is a rule above, ``quantity_unit`` is packs or pieces."""

    warehouse: str = "Turku"
    stock_file: str = "stock_export_1.csv"
    sales_start: str = "2025-08-04"
    sales_end: str = "2025-09-21"
    order_date: str = "2025-10-08"
    cover_days: str = "17"
    below_minimum: str = DROP_ORDER
    order_file: str = "reorder_w41.json"
    quantity_unit: str = "packs"
    summary_file: str = "reorder_w41.md"
    order_number: str = "RO-2213"
    seed: int = 41


class Supplier(msgspec.Struct, frozen=True):
    """One row of the sheet Suppliers; the minimum is in EUR."""

    supplier_id: str
    name: str
    lead_days: int
    minimum_order: int


class Item(msgspec.Struct, frozen=True):
    """One row of the sheet Items; the price is that of a piece in EUR."""

    sku: str
    supplier_id: str
    pack_size: int
    unit_price: Decimal


class Delivery(msgspec.Struct, frozen=True):
    """One event of the calendar."""

    supplier: str
    date: dt.date
    is_cancelled: bool


def delivery_day(parameters: Parameters, supplier: Supplier, deliveries: Sequence[Delivery]) -> dt.date:
    """Return the day on which a supplier brings what is ordered on the order date."""
    earliest = dt.date.fromisoformat(parameters.order_date) + dt.timedelta(days=supplier.lead_days)
    return min(
        item.date
        for item in deliveries
        if item.supplier == supplier.name and not item.is_cancelled and item.date >= earliest
    )


def missing_pieces(parameters: Parameters, sold: int, available: int, day: dt.date) -> Fraction:
    """Return how many pieces run short if the delivery comes on a day; not rounded, negative if the stock lasts."""
    start, end = dt.date.fromisoformat(parameters.sales_start), dt.date.fromisoformat(parameters.sales_end)
    days_to_cover = (day - dt.date.fromisoformat(parameters.order_date)).days + int(parameters.cover_days)
    return Fraction(sold * days_to_cover, (end - start).days + 1) - available


def packs_of(missing: Fraction, pack_size: int) -> int:
    """Return the full packs that make up for what is missing."""
    return max(0, math.ceil(missing / pack_size))
