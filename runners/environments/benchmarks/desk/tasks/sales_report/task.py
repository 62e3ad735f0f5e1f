"""The workspace of sales-report: two quarters, one of them restated, products, exchange rates, style, an old report.

The checkpoints of sales-report: the correct figures, and whether the report and the chart data give them.
"""

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from random import Random

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import (
    CheckpointNotMet,
    OfficeDeliverables,
    mentions,
    number,
    numbers,
)
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
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


class SalesOrder(msgspec.Struct, frozen=True):
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
def quarter_of(parameters: Parameters, quarter: int) -> tuple[SalesOrder, ...]:
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


def _drawn_order(chance: Random, day: dt.date) -> SalesOrder:
    sku, _, _, cents = chance.choices(PRODUCTS, (5, 3, 4, 4, 2, 3, 5, 3, 2, 4, 3, 5))[0]
    return SalesOrder(
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


def _orders_text(orders: Sequence[SalesOrder]) -> str:
    header = tuple(name.replace("discount", "discount_percent") for name in SalesOrder.__struct_fields__)
    return csv_text([header, *(msgspec.structs.astuple(order) for order in orders)])


def _products_workbook() -> Workbook:
    products = [(sku, name, category, cents / 100) for sku, name, category, cents in PRODUCTS]
    return {
        "Products": [("sku", "name", "category", "list_price"), *products],
        "Discontinued": [("sku", "name"), ("K-090", "Enamel jug")],
    }


_ROUNDING_NOISE = Decimal("0.000001")  # of solutions that calculate in floats


class Sale(msgspec.Struct, frozen=True):
    """One order that counts, with its month, group, product and exact net revenue in EUR."""

    month: str
    group: str
    product: str
    revenue: Decimal


@cache
def _sales(parameters: Parameters) -> tuple[Sale, ...]:
    """Return every order that counts."""
    products = {sku: (name, category) for sku, name, category, _ in PRODUCTS}
    excluded = re.findall(r"\w+", parameters.excluded)
    sales = []
    for order in (*quarter_of(parameters, 1), *quarter_of(parameters, 2)):
        if order.channel != parameters.channel or order.status in excluded:
            continue
        name, category = products[order.sku]
        last_month = (order.date.month + 2) // 3 * 3
        rate_month = order.date.month if parameters.rate_rule == RATE_OF_MONTH else last_month
        amount = order.quantity * order.unit_price * (100 - order.discount) / 100
        revenue = amount * rates_of(parameters)[f"2025-{rate_month:02d}", order.currency]
        group = category if parameters.group_by == "category" else order.region
        sales.append(Sale(f"{order.date:%Y-%m}", group, name, revenue))
    return tuple(sales)


def _sums(parameters: Parameters, key: Callable[[Sale], str]) -> dict[str, Decimal]:
    """Return the exact revenue in EUR for each key, the largest first."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for sale in _sales(parameters):
        sums[key(sale)] += sale.revenue
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def _is_amount(value: Decimal | None, revenue: Decimal, parameters: Parameters) -> bool:
    """Return whether a figure is the revenue in the requested form. A half may be rounded either way."""
    worth, digit = AMOUNT_FORMS[parameters.amount_form]
    if value is None or abs(value - revenue / worth) > digit / 2 + _ROUNDING_NOISE:
        return False
    return value % digit == 0


def _has_amount(text: str, revenue: Decimal, parameters: Parameters) -> bool:
    return any(_is_amount(value, revenue, parameters) for value in numbers(text))


def _check_sections(left: OfficeDeliverables, parameters: Parameters) -> str:
    lines = left.text(parameters.report_file).splitlines()
    headings = [
        " ".join(re.sub(r"[#*_:]|\b\d+[.)]", " ", line).casefold().split()) for line in lines if line.startswith("#")
    ]
    wanted = [heading.casefold() for heading in parameters.headings.split(", ")]
    if [heading for heading in headings if heading in wanted] != wanted:
        raise CheckpointNotMet(f"the sections are not headed {parameters.headings}, in this order")
    return f"the sections are headed {parameters.headings}"


def _check_total(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check that the report gives the number of orders and the total, anywhere in the text."""
    text = left.text(parameters.report_file)
    sales = _sales(parameters)
    total = sum((sale.revenue for sale in sales), Decimal(0))
    if Decimal(len(sales)) not in numbers(text):
        raise CheckpointNotMet(f"the number of {len(sales)} counted orders is not there")
    if not _has_amount(text, total, parameters):
        raise CheckpointNotMet(f"the total net revenue of {total:.2f} EUR in {parameters.amount_form} is not there")
    return f"{len(sales)} orders and their total of {total:.2f} EUR are there"


def _lines_naming(text: str, names: set[str]) -> list[tuple[str, str]]:
    """Return (name, line) for every name on a line with a figure, in text order."""
    return [
        (name, line) for line in text.splitlines() if numbers(line) for name in sorted(names) if mentions(line, name)
    ]


def _run_of(names: list[str], rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the consecutive rows with exactly these names in order, or no rows. Other rows may repeat the names."""
    windows = (rows[start : start + len(names)] for start in range(len(rows)))
    return next((window for window in windows if [name for name, _ in window] == names), [])


def _check_breakdown(left: OfficeDeliverables, parameters: Parameters) -> str:
    sums = _sums(parameters, lambda sale: sale.group)
    rows = _lines_naming(left.text(parameters.report_file), set(sums))
    right = [(name, line) for name, line in rows if _has_amount(line, sums[name], parameters)]
    if not _run_of(list(sums), right):
        found = len({name for name, _ in right})
        raise CheckpointNotMet(
            f"{found} of {len(sums)} revenues by {parameters.group_by} are right, or not the largest first"
        )
    return f"the revenue of each {parameters.group_by} is right, the largest first"


def _check_best_sellers(left: OfficeDeliverables, parameters: Parameters) -> str:
    sums = _sums(parameters, lambda sale: sale.product)
    best = list(sums)[: int(parameters.top_count)]
    rows = _lines_naming(left.text(parameters.report_file), {name for _, name, _, _ in PRODUCTS})
    ranking = _run_of(best, rows)
    if not ranking or {name for name, _ in rows} != set(best):
        raise CheckpointNotMet(
            f"the products listed are not the {len(best)} with the highest revenue, the highest first"
        )
    wrong = [name for name, line in ranking if not _has_amount(line, sums[name], parameters)]
    if wrong:
        raise CheckpointNotMet(f"wrong revenues: {', '.join(wrong)}")
    return f"the {len(best)} best sellers and their revenues are right"


def _check_chart(left: OfficeDeliverables, parameters: Parameters) -> str:
    """Check that each month and group has the right figure. Rows without revenue may be left out."""
    expected = _sums(parameters, lambda sale: f"{sale.month} {sale.group}")
    rows = left.table(parameters.chart_file, ("month", parameters.group_by, "revenue"))
    figures = [(f"{row['month']} {row[parameters.group_by]}", number(row["revenue"])) for row in rows]
    figures = [(key, value) for key, value in figures if key in expected or value != 0]
    if sorted(key for key, _ in figures) != sorted(expected):
        raise CheckpointNotMet(f"the rows are not one for each month and {parameters.group_by} with revenue")
    wrong = [key for key, value in figures if not _is_amount(value, expected[key], parameters)]
    if wrong:
        raise CheckpointNotMet(f"{len(wrong)} of {len(figures)} figures are wrong, for example for {wrong[0]}")
    return f"all {len(figures)} figures for the chart are right"


TASK = DeskTask(
    task_id="sales-report",
    domain="analytics",
    parameters=Parameters(),
    build=build,
    checkpoints=(
        DeskCheckpoint(checkpoint_id="sections", label="the demanded sections, in order", check=_check_sections),
        DeskCheckpoint(checkpoint_id="total", label="count and total net revenue are right", check=_check_total),
        DeskCheckpoint(checkpoint_id="breakdown", label="revenue by group is right", check=_check_breakdown),
        DeskCheckpoint(checkpoint_id="best_sellers", label="the best sellers are right", check=_check_best_sellers),
        DeskCheckpoint(checkpoint_id="chart", label="the data for the chart are right", check=_check_chart),
    ),
)
