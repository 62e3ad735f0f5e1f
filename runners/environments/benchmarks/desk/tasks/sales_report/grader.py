"""The checkpoints of sales-report: the correct figures, and whether the report and the chart data give them."""

import re
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from functools import cache

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import CheckpointNotMet, OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.benchmarks.desk.tasks.sales_report.workspace import (
    AMOUNT_FORMS,
    PRODUCTS,
    RATE_OF_MONTH,
    Parameters,
    build,
    quarter_of,
    rates_of,
)
from lhaw_record.runners.environments.benchmarks.desk.text_matching import mentions, number, numbers

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
