"""sales-report, solved by hand from the files."""

from collections import Counter
from decimal import ROUND_HALF_EVEN, Decimal

from lhaw_record.runners.environments.benchmarks.desk.tasks.sales_report.task import RATE_OF_MONTH
from tests.runners.environments.benchmarks.desk.solutions import another, csv_rows, save, sheet_rows

ALTERNATIVES = {
    "first_orders": ["q1_orders.csv", "sales/2025/first.csv"],
    "second_orders": ["orders/2025_q2.csv", "q2_orders_final.csv", "sales/2025/second.csv"],
    "channel": ["web", "store"],
    "excluded": ["cancelled", "returned", "returned, cancelled or disputed"],
    "rate_rule": [RATE_OF_MONTH],
    "headings": ["Overview, By group, Top products", "Summary, Details, Ranking"],
    "group_by": ["category"],
    "top_count": ["3", "6"],
    "amount_form": ["euros with two decimals", "thousands of euros with one decimal"],
    "report_file": ["out/report.md", "sales_2025.md"],
    "chart_file": ["out/chart.csv", "figures.csv"],
    "seed": [1, 2, 3],
}


def _sales(folder, parameters, *, second=None, keeps_all=False, rate_month=None):
    """Collect (month, group, product, EUR) order by order."""
    rows = sheet_rows(folder / "products.xlsx", "Products")
    names = {sku: {"product": name, "category": category} for sku, name, category, _ in rows}
    rates = {}
    for line in (folder / "exchange_rates.csv").read_text().splitlines()[1:]:
        month, currency, rate = line.split(",")
        rates[month, currency] = Decimal(rate)
    sales = []
    for name in (parameters.first_orders, second or parameters.second_orders):
        for line in csv_rows(folder / name):
            month = line["date"][:7]
            if not keeps_all and (line["channel"] != parameters.channel or line["status"] in parameters.excluded):
                continue
            last = "2025-03" if month <= "2025-03" else "2025-06"
            rate = rates[rate_month or (month if parameters.rate_rule == RATE_OF_MONTH else last), line["currency"]]
            net = Decimal(line["unit_price"]) * int(line["quantity"])
            net -= net * int(line["discount_percent"]) / 100
            group = {**line, **names[line["sku"]]}[parameters.group_by]
            sales.append((month, group, names[line["sku"]]["product"], net * rate))
    return sales


def _sum(sales, key):
    sums = Counter()
    for sale in sales:
        sums[key(sale)] += sale[3]
    return sums.most_common()


def _figure(amount, parameters):
    if parameters.amount_form.startswith("thousands"):
        return (amount / 1000).quantize(Decimal("0.1"), ROUND_HALF_EVEN)
    return amount.quantize(Decimal("0.01" if "two" in parameters.amount_form else "1"), ROUND_HALF_EVEN)


def _report(folder, parameters, sales, *, headings=None, count=None, order=1):
    first, second, third = headings or parameters.headings.split(", ")
    total = _figure(sum(sale[3] for sale in sales), parameters)
    groups = "\n".join(
        f"| {name} | {_figure(sum_, parameters)} |" for name, sum_ in _sum(sales, lambda s: s[1])[::order]
    )
    best = _sum(sales, lambda s: s[2])[: count or int(parameters.top_count)][::order]
    ranking = "\n".join(
        f"{place}. {name}: {_figure(sum_, parameters)}" for place, (name, sum_) in enumerate(best, start=1)
    )
    save(
        folder / parameters.report_file,
        f"## {first}\n\n{len(sales)} orders, {total} in all.\n\n## {second}\n\n"
        f"| name | revenue |\n| --- | ---: |\n{groups}\n\n## {third}\n\n{ranking}\n",
    )


def _chart(folder, parameters, sales, *, header=None):
    cells = sorted(_sum(sales, lambda s: s[:2]))
    rows = [f"{month},{group},{_figure(amount, parameters)}" for (month, group), amount in cells]
    save(folder / parameters.chart_file, "\n".join([header or f"month,{parameters.group_by},revenue", *rows, ""]))


def plain(folder, parameters):
    """Exactly as the prompt says."""
    sales = _sales(folder, parameters)
    _report(folder, parameters, sales)
    _chart(folder, parameters, sales)


def dressed_up(folder, parameters):
    """A title, numbered headings, thousands separators, names in passing, tables; the chart data in another order."""
    sales = _sales(folder, parameters)
    groups, best = _sum(sales, lambda s: s[1]), _sum(sales, lambda s: s[2])[: int(parameters.top_count)]
    first, second, third = parameters.headings.split(", ")
    total = _figure(sum(sale[3] for sale in sales), parameters)
    lines = [
        "# Half-year report",
        f"## 1. {first}",
        f"The leader is **{groups[0][0]}** with {_figure(groups[0][1], parameters):,} EUR.",
        f"In all we counted {len(sales):,} orders and a net revenue of EUR {total:,}.",
        f"## 2. {second}",
        f"| {parameters.group_by} | share | revenue |",
        "|---|---|---|",
        *(
            f"| **{name}** | {int(100 * sum_ / sum(s[3] for s in sales))} % | {_figure(sum_, parameters):,} |"
            for name, sum_ in groups
        ),
        f"## 3. {third}",
        "| rank | product | revenue |",
        "|---|---|---|",
        *(
            f"| {place} | {name.upper()} | {_figure(sum_, parameters):,} |"
            for place, (name, sum_) in enumerate(best, start=1)
        ),
    ]
    save(folder / parameters.report_file, "\r\n".join(lines))
    rows = [
        f'"{_figure(amount, parameters):,}";{group};{month}' for (month, group), amount in _sum(sales, lambda s: s[:2])
    ]
    nothing = f"0;{groups[0][0]};2025-07"
    save(folder / parameters.chart_file, "\n".join([f"Revenue;{parameters.group_by.title()};Month", *rows, nothing]))


def everything_sold(folder, parameters):
    """Counts every order of every channel, under headings of its own."""
    sales = _sales(folder, parameters, keeps_all=True)
    _report(folder, parameters, sales, headings=("Overview!", "By group", "Top"))
    _chart(folder, parameters, sales, header="when,what,revenue")


def other_quarter(folder, parameters):
    """Takes the other file of the second quarter, and converts everything with the first rate."""
    other = another(folder, "**/*q2*.csv", parameters.second_orders)
    sales = _sales(folder, parameters, second=other, rate_month="2025-01")
    _report(folder, parameters, sales)
    _chart(folder, parameters, sales)


def upside_down(folder, parameters):
    """The right sums with the smallest first, one product too many, sections in another order, and only one month."""
    sales = _sales(folder, parameters)
    headings = parameters.headings.split(", ")[::-1]
    _report(folder, parameters, sales, headings=headings, count=int(parameters.top_count) + 1, order=-1)
    _chart(folder, parameters, [sale for sale in sales if sale[0] == "2025-01"])


CORRECT = (plain, dressed_up)
WRONG = (everything_sold, other_quarter, upside_down)
