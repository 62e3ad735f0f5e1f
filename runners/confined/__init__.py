"""Trusted code on untrusted files: a function runs in a child process with limits and hands back plain data."""

from runners.confined.child import reading
from runners.confined.host import LimitReached, NoReply, Raised, call
from runners.confined.limits import ConfinedLimits

__all__ = ["ConfinedLimits", "LimitReached", "NoReply", "Raised", "call", "reading"]
