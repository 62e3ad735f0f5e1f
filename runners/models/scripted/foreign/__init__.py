"""Scripted models inside agents that are not ours: their tools and habits are translated, the policy stays the same."""

from runners.models.scripted.foreign.model import ForeignModel

__all__ = ["ForeignModel"]
