"""Scripted models: small policies that read the conversation and act through the tools, without a key or network."""

from lhaw_record.runners.agents.scripted.archetypes import ARCHETYPES
from lhaw_record.runners.agents.scripted.model import InProse, ScriptedModel

__all__ = ["ARCHETYPES", "InProse", "ScriptedModel"]
