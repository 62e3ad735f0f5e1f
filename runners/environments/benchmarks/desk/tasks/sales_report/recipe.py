"""sales-report: load two quarters, choose orders, convert, add up by group and product, write report and data."""

import re

from lhaw_record.runners.environments.benchmarks.desk.recipe import (
    Memory,
    RecipeParameter,
    among,
    file_for,
    file_with,
    looked_up,
    recipe_of,
    seen,
)

_HEADING = r"[A-Z]\w+(?: [a-z]\w*){0,2}"
_HEADINGS = rf"({_HEADING}, {_HEADING}, {_HEADING})"
_AMOUNTS = r"((?:whole|thousands of)? ?euros(?: with (?:one|two) decimals?)?)"
_STATUS = r"(?:shipped|returned|cancelled|disputed)"


def _old_headings(memory: Memory) -> str | None:
    """Return the three headings of the last report."""
    headings = re.findall(r"^## (.+)$", memory.get("read the last report", ""), re.MULTILINE)
    return ", ".join(headings) if len(headings) == 3 else None


RECIPE = recipe_of(
    __file__,
    recognise=r"sales report for",
    deliverables=("report_file", "chart_file"),
    first_orders=RecipeParameter(
        question="Which file has the orders from January to March?",
        patterns=(r"orders in `([^`]+)`",),
        shape=r"([\w./-]+\.csv)\b",
        guesses=seen("list the files", r"\./([\w/-]*q1\w*\.csv)\b", "q1.csv"),
    ),
    second_orders=RecipeParameter(
        question="Which of the files with orders of the second quarter should I use?",
        patterns=(r"orders in `[^`]+` and `([^`]+)`",),
        shape=r"([\w./-]+\.csv)\b(?!.*\.csv)",  # the last of those that an answer names
        guesses=seen("list the files", r"\./([\w/-]*q2\w*\.csv)\b", "q2.csv"),
        shown_by="list the files",
    ),
    price_column=RecipeParameter(
        question="Which column of the orders has the unit price?",
        patterns=(r"price (?:is|are) in (?:the column )?`?(\w+_price)\b",),
        shape=r"\b([a-z]+_price)\b",
        guesses=seen("look at the orders", r"\b([a-z]+_price)\b", "unit_price"),
        usual="unit_price",
        shown_by="look at the orders",
    ),
    channel=RecipeParameter(
        question="Which sales channel is the report about?",
        patterns=(r"orders of the channel (web|store|partner)\b",),
        shape=r"\b(web|store|partner)\b",
        guesses=among("all", "web", "store"),
    ),
    excluded=RecipeParameter(
        question="Which order statuses should I leave out?",
        patterns=(rf"with the status ({_STATUS}(?:(?:, | or ){_STATUS})*)",),
        shape=rf"({_STATUS}(?:(?:, | or | and ){_STATUS})*)",
        guesses=among("none", "cancelled", "returned"),
    ),
    rate_rule=RecipeParameter(
        question="Which exchange rate applies to an order?",
        patterns=(r"(the month of the order|the last month of the order's quarter)",),
        shape=r"(month of the order|last month of the (?:order's )?quarter)",
        guesses=among("the month of the order"),
    ),
    headings=RecipeParameter(
        question="What should the headings of the three sections be?",
        patterns=(rf"headed (?-i:{_HEADINGS})",),
        shape=_HEADINGS,
        guesses=among("Summary, Details, Top products"),
        find=_old_headings,
        criticality=0.5,
    ),
    group_by=RecipeParameter(
        question="Should I break the revenue down by region or by category?",
        patterns=(r"the net revenue of each (region|category)",),
        shape=r"\b(region|category)\b",
        guesses=among("category", "region"),
    ),
    top_count=RecipeParameter(
        question="How many products should the list of best sellers have?",
        patterns=(r"lists the (\d+) products",),
        shape=r"\b(\d+)\b(?: products|[.!]?$)",
        guesses=among("5", "10", "3"),
    ),
    amount_form=RecipeParameter(
        question="How precise should the amounts be?",
        patterns=(rf"amounts are in {_AMOUNTS}",),
        shape=_AMOUNTS,
        guesses=among("euros with two decimals"),
        find=looked_up("read the style guide", rf"Amounts are written in {_AMOUNTS}"),
    ),
    report_file=file_for("the report", r"report to `([^`]+)`", "md", "report.md", "sales.md"),
    chart_file=file_with("the chart data", r"chart write `([^`]+)`", "csv", "chart.csv", "monthly.csv"),
)
