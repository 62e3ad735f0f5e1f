"""Figures: pictures of the reported tables, by name."""

from analytics.figures.catalogue import FIGURES, draw, spec_of
from analytics.figures.saving import FORMATS, to_bytes

__all__ = ["FIGURES", "FORMATS", "draw", "spec_of", "to_bytes"]
