"""inventory-reorder: forecast from sales, subtract the stock, order full packs for the next deliveries."""

from runners.benchmarks.desk.tasks.inventory_reorder.checks import CHECKPOINTS
from runners.benchmarks.desk.tasks.inventory_reorder.rules import Parameters
from runners.benchmarks.desk.tasks.inventory_reorder.workspace import build
from runners.benchmarks.desk.template import DeskTask

__all__ = ["TASK"]

TASK = DeskTask(
    task_id="inventory-reorder",
    domain="operations",
    parameters=Parameters(),
    build=build,
    checkpoints=CHECKPOINTS,
)
