"""Draw the reported tables as figures."""

from analytics.figures.catalogue import FIGURES, draw, paint, spec_of
from analytics.figures.drawing import NothingToDraw, read
from analytics.figures.style import FORMATS, to_bytes

__all__ = ["FIGURES", "FORMATS", "NothingToDraw", "draw", "paint", "read", "spec_of", "to_bytes"]
