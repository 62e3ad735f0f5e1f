"""meeting-planner: find the earliest slot that several calendars allow, a room for it, and invite people to it."""

from runners.benchmarks.desk.tasks.meeting_planner.calendars import Parameters
from runners.benchmarks.desk.tasks.meeting_planner.checks import CHECKPOINTS
from runners.benchmarks.desk.tasks.meeting_planner.workspace import build
from runners.benchmarks.desk.template import DeskTask

__all__ = ["TASK"]

TASK = DeskTask(
    task_id="meeting-planner",
    domain="administration",
    parameters=Parameters(),
    build=build,
    checkpoints=CHECKPOINTS,
)
