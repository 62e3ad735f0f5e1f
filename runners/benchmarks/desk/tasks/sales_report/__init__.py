"""sales-report: net revenue of two quarters in euros, by group and by product, as a report and as chart data."""

from runners.benchmarks.desk.tasks.sales_report.checks import CHECKPOINTS
from runners.benchmarks.desk.tasks.sales_report.workspace import Parameters, build
from runners.benchmarks.desk.template import DeskTask

__all__ = ["TASK"]

TASK = DeskTask(
    task_id="sales-report",
    domain="analytics",
    parameters=Parameters(),
    build=build,
    checkpoints=CHECKPOINTS,
)
