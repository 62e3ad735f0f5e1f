"""ticket-digest: find the tickets that took longer than agreed, list them by owner, escalate the worst."""

from runners.benchmarks.desk.tasks.ticket_digest.checks import CHECKPOINTS
from runners.benchmarks.desk.tasks.ticket_digest.workspace import Parameters, build
from runners.benchmarks.desk.template import DeskTask

__all__ = ["TASK"]

TASK = DeskTask(
    task_id="ticket-digest",
    domain="support",
    parameters=Parameters(),
    build=build,
    checkpoints=CHECKPOINTS,
)
