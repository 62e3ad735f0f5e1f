"""Source ``own``: a user's own tasks, from a folder or from JSON Lines. docs/own-tasks.md describes both forms."""

from lhaw_record.generators.sources.own.source import OwnSource, default_name, name_problem

__all__ = ["OwnSource", "default_name", "name_problem"]
