"""The checkpoints of inventory-reorder: the correct order, and whether the agent handed it in."""

import datetime as dt
import json
from decimal import Decimal
from functools import cache

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import (
    CheckpointNotMet,
    OfficeDeliverables,
    Row,
)
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.benchmarks.desk.tasks.inventory_reorder.workspace import (
    ADD_PACKS,
    DROP_ORDER,
    Parameters,
    build,
    delivery_day,
    draw,
    needed_packs,
    value_of,
)
from lhaw_record.runners.environments.benchmarks.desk.text_matching import (
    heading_mentions,
    line_mentions,
    mentions_number,
    number,
)

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
    listed, expected = sorted(row["sku"] for row in _records(left, parameters)), sorted(_order(parameters))
    if listed != expected:
        raise CheckpointNotMet(
            f"{len(listed)} items, of which {len({*listed} & {*expected})} of {len(expected)} are right"
        )
    return f"the {len(listed)} ordered items are the right ones"


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
