"""Scripted models inside other agents: calls and history are translated, while the policy stays the same."""

from lhaw_record.runners.agents.scripted.foreign.foreign_model import ForeignModel

__all__ = ["ForeignModel"]
