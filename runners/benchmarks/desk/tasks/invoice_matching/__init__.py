"""invoice-matching: compare invoices with orders and receipts, list what does not fit, prepare the payments."""

from runners.benchmarks.desk.tasks.invoice_matching.checks import CHECKPOINTS
from runners.benchmarks.desk.tasks.invoice_matching.workspace import Parameters, build
from runners.benchmarks.desk.template import DeskTask

__all__ = ["TASK"]

TASK = DeskTask(
    task_id="invoice-matching",
    domain="finance",
    parameters=Parameters(),
    build=build,
    checkpoints=CHECKPOINTS,
)
