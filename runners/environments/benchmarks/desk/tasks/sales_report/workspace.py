"""The workspace of sales-report: two quarters, one of them restated, products, exchange rates, style, an old report."""

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from random import Random

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.workspace_files import (
    Files,
    Workbook,
    csv_text,
    other_name,
    seeded,
)

RATE_OF_MONTH = "the month of the order"
RATE_OF_QUARTER_END = "the last month of the order's quarter"
AMOUNT_FORMS = {
    "whole euros": (Decimal(1), Decimal(1)),
    "euros with two decimals": (Decimal(1), Decimal("0.01")),
    "thousands of euros with one decimal": (Decimal(1000), Decimal("0.1")),
}
"""Amount form -> (euros in one unit, value of the last digit)."""
_REGIONS = ("North", "South", "East", "West", "Islands")
_REGION_WEIGHTS = (9, 7, 5, 4, 2)
_CHANNELS = ("web", "store", "partner")
_STATUSES = ("shipped", "returned", "cancelled", "disputed")
_CURRENCIES = ("EUR", "GBP", "SEK", "CHF")
PRODUCTS = (
    ("K-101", "Stoneware mug", "Kitchen", 1400), ("K-102", "Copper kettle", "Kitchen", 7900),
    ("K-103", "Bread board", "Kitchen", 3200), ("L-201", "Desk lamp", "Lighting", 6400),
    ("L-202", "Paper lantern", "Lighting", 2300), ("L-203", "Reading spot", "Lighting", 5100),
    ("F-301", "Oak stool", "Furniture", 11800), ("F-302", "Folding shelf", "Furniture", 9600),
    ("F-303", "Coat rack", "Furniture", 8700), ("T-401", "Wool throw", "Textiles", 6900),
    ("T-402", "Linen curtain", "Textiles", 5400), ("T-403", "Cotton rug", "Textiles", 9900),
)  # fmt: skip
_RATES = {"EUR": (10000, 0), "GBP": (11900, 210), "SEK": (880, 45), "CHF": (10400, 320)}


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of the task. ``rate_rule`` is one of the rules above, ``amount_form`` one of ``AMOUNT_FORMS``."""

    first_orders: str = "orders/2025_q1.csv"
    second_orders: str = "orders/2025_q2_restated.csv"
    channel: str = "partner"
    excluded: str = "returned or cancelled"
    rate_rule: str = RATE_OF_QUARTER_END
    headings: str = "Key figures, Breakdown, Best sellers"
    group_by: str = "region"
    top_count: str = "4"
    amount_form: str = "whole euros"
    report_file: str = "half_year_report.md"
    chart_file: str = "slide_7.csv"
    seed: int = 1


class Order(msgspec.Struct, frozen=True):
    """One row of an order file. Amounts are in the currency of the order."""

    order_id: str
    date: dt.date
    region: str
    channel: str
    sku: str
    quantity: int
    unit_price: Decimal
    currency: str
    discount: int
    status: str


def build(parameters: Parameters) -> Files:
    """Build the workspace. It has the second quarter twice, before and after it was restated."""
    first, second = quarter_of(parameters, 1), quarter_of(parameters, 2)
    before = [
        msgspec.structs.replace(order, status="shipped", quantity=order.quantity + place % 3)
        if place % 5 == 0
        else order
        for place, order in enumerate(second[:-9])
    ]
    folder, _, _ = parameters.second_orders.rpartition("/")
    names = (f"{folder}/2025_{name}.csv".lstrip("/") for name in ("q2", "q2_preliminary"))
    other = other_name(parameters.second_orders, *names)
    heads = parameters.headings.split(", ")
    return {
        parameters.first_orders: _orders_text(first),
        parameters.second_orders: _orders_text(second),
        other: _orders_text(before),
        "products.xlsx": _products_workbook(),
        "exchange_rates.csv": csv_text(
            [("month", "currency", "eur_per_unit"), *((*key, rate) for key, rate in rates_of(parameters).items())]
        ),
        "style_guide.md": (
            "# Style guide for reports\n\n- Headings in sentence case.\n"
            f"- Amounts are written in {parameters.amount_form}, without a currency sign in tables.\n"
            "- No exclamation marks.\n"
        ),
        "archive/report_2024_h2.md": (
            f"# Sales report, second half of 2024\n\n## {heads[0]}\n\nA quiet half-year.\n\n"
            f"## {heads[1]}\n\nSee the annex.\n\n## {heads[2]}\n\nThe mug, as always.\n"
        ),
    }


@cache
def quarter_of(parameters: Parameters, quarter: int) -> tuple[Order, ...]:
    """Generate the restated orders of a quarter, sorted by date."""
    chance = seeded(parameters.seed * 10 + quarter)
    first_day = dt.date(2025, 3 * quarter - 2, 1)
    orders = sorted(
        (_drawn_order(chance, first_day + dt.timedelta(days=chance.randrange(90))) for _ in range(170)),
        key=lambda order: order.date,
    )
    return tuple(
        msgspec.structs.replace(order, order_id=f"SO-{quarter}{place:03d}") for place, order in enumerate(orders)
    )


def _drawn_order(chance: Random, day: dt.date) -> Order:
    sku, _, _, cents = chance.choices(PRODUCTS, (5, 3, 4, 4, 2, 3, 5, 3, 2, 4, 3, 5))[0]
    return Order(
        order_id="",
        date=day,
        region=chance.choices(_REGIONS, _REGION_WEIGHTS)[0],
        channel=chance.choices(_CHANNELS, (3, 2, 5))[0],
        sku=sku,
        quantity=chance.randrange(1, 30),
        unit_price=Decimal(cents + chance.randrange(-3, 4) * 50).scaleb(-2),
        currency=chance.choices(_CURRENCIES, (5, 3, 3, 2))[0],
        discount=chance.choice((0, 0, 0, 5, 10, 15)),
        status=chance.choices(_STATUSES, (12, 3, 2, 1))[0],
    )


@cache
def rates_of(parameters: Parameters) -> Mapping[tuple[str, str], Decimal]:
    """Generate the exchange rates: (month, currency) -> EUR per unit."""
    chance = seeded(parameters.seed + 7)
    return {
        (f"2025-{month:02d}", currency): Decimal(middle + chance.randint(-spread, spread)).scaleb(-4)
        for month in range(1, 7)
        for currency, (middle, spread) in _RATES.items()
    }


def _orders_text(orders: Sequence[Order]) -> str:
    header = tuple(name.replace("discount", "discount_percent") for name in Order.__struct_fields__)
    return csv_text([header, *(msgspec.structs.astuple(order) for order in orders)])


def _products_workbook() -> Workbook:
    products = [(sku, name, category, cents / 100) for sku, name, category, cents in PRODUCTS]
    return {
        "Products": [("sku", "name", "category", "list_price"), *products],
        "Discontinued": [("sku", "name"), ("K-090", "Enamel jug")],
    }
