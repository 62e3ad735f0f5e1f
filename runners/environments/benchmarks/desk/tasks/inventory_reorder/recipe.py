"""inventory-reorder: load stock, sales, suppliers and calendar, forecast, order full packs, write order and summary."""

import datetime as dt
import re

from lhaw_record.runners.environments.benchmarks.desk.recipe import (
    Memory,
    RecipeParameter,
    among,
    file_for,
    file_with,
    recipe_of,
    seen,
)

_DAY = r"(\d{4}-\d\d-\d\d)"
_RULES = (
    "nothing is ordered from this supplier",
    "the order is placed all the same",
    "one more pack of each of its ordered items is added",
)
_REGISTER = "read the register of orders"


def _next_number(memory: Memory) -> str | None:
    """Return the order number that follows the last one in the register."""
    numbers = re.findall(r"(?m)^([A-Z]+)-(\d{1,9}),", memory.get(_REGISTER, ""))
    return f"{numbers[-1][0]}-{int(numbers[-1][1]) + 1}" if numbers else None


def _next_date(memory: Memory) -> str | None:
    """Return the date one week after the last order in the register."""
    dates = re.findall(r"(?m)^[A-Z]+-\d+,(20\d\d-\d\d-\d\d),", memory.get(_REGISTER, ""))
    try:
        return (dt.date.fromisoformat(dates[-1]) + dt.timedelta(days=7)).isoformat()
    except (IndexError, ValueError):
        return None


RECIPE = recipe_of(
    __file__,
    recognise=r"weekly reorder",
    deliverables=("order_file", "summary_file"),
    warehouse=RecipeParameter(
        question="Which warehouse is the reorder for?",
        patterns=(r"of the warehouse ((?-i:[A-Z]\w+))", r"\bthe warehouse ((?-i:[A-Z]\w+))"),
        shape=r"\bwarehouse ([A-Z]\w+)",
        guesses=seen("look at the stock", r"(?m)^ *\d+ ([A-Z]\w+)$", "Lund"),
    ),
    stock_file=RecipeParameter(
        question="Which of the stock exports should I use?",
        patterns=(r"take the stock from `([^`]+)`",),
        shape=r"([\w./-]+\.csv)\b",
        guesses=seen("list the files", r"\./(stock[\w-]*\.csv)\b", "stock.csv"),
        shown_by="list the files",
    ),
    sales_period=RecipeParameter(
        question="From which period should I take the sales, from which day to which day?",
        patterns=(rf"sold from {_DAY} to {_DAY}",),
        shape=rf"{_DAY} (?:to|until|through|and|-) {_DAY}",
        guesses=among("2025-07-01 2025-09-30", "2025-09-01 2025-09-30"),
    ),
    order_date=RecipeParameter(
        question="On which day is the order placed?",
        patterns=(rf"order is placed on {_DAY}",),
        shape=_DAY,
        guesses=among("2025-10-01", "2025-10-06"),
        find=_next_date,
    ),
    cover_days=RecipeParameter(
        question="How many days after the delivery should the stock still cover?",
        patterns=(r"and (\d+) days more",),
        shape=r"\b(\d+) days\b",
        guesses=among("14", "30", "7"),
        reopened_by=(r"has to cover more days",),
    ),
    below_minimum=RecipeParameter(
        question="How should I handle an order that stays below the minimum_order of its supplier?",
        patterns=(rf"({'|'.join(_RULES)})",),
        shape=r"(nothing is ordered|all the same|one more pack)",
        guesses=among("the order is placed all the same", "nothing is ordered from this supplier"),
    ),
    order_file=file_with("the order", r"write the order to `([^`]+)`", "json|csv", "order.csv", "reorder.csv"),
    quantity_unit=RecipeParameter(
        question="Should the quantity be in packs or in pieces?",
        patterns=(r"quantity is in (packs|pieces)",),
        shape=r"\b(packs|pieces)\b",
        guesses=among("pieces"),
        criticality=0.5,
    ),
    summary_file=file_for("the summary", r"then write `([^`]+)` in Markdown", "md", "summary.md"),
    order_number=RecipeParameter(
        question="What is the number of this order?",
        patterns=(r"heading is Order ([A-Z]+-\d+)", r"\bOrder ([A-Z]+-\d+)"),
        shape=r"\b([A-Z]+-\d+)\b",
        guesses=among("RO-1", "RO-2025-41"),
        find=_next_number,
        criticality=0.5,
    ),
)
