"""payroll-overtime: turn clock times into regular hours, overtime and pay of one department."""

from runners.benchmarks.desk.tasks.payroll_overtime.checks import CHECKPOINTS
from runners.benchmarks.desk.tasks.payroll_overtime.workspace import Parameters, build
from runners.benchmarks.desk.template import DeskTask

__all__ = ["TASK"]

TASK = DeskTask(
    task_id="payroll-overtime",
    domain="human resources",
    parameters=Parameters(),
    build=build,
    checkpoints=CHECKPOINTS,
)
