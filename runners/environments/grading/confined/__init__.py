"""Run trusted code on untrusted files: a function runs in a child process with limits and returns plain data."""

from lhaw_record.runners.environments.grading.confined.child import reading
from lhaw_record.runners.environments.grading.confined.host import ChildException, LimitReached, NoReply, call
from lhaw_record.runners.environments.grading.confined.lockdown import ConfinedLimits

__all__ = ["ChildException", "ConfinedLimits", "LimitReached", "NoReply", "call", "reading"]
