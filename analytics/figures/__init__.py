"""Draw the reported tables as figures."""

from lhaw_record.analytics.figures.catalogue import FIGURES, draw, paint, spec_of
from lhaw_record.analytics.figures.drawing import FORMATS, NothingToDraw, read, to_bytes

__all__ = ["FIGURES", "FORMATS", "NothingToDraw", "draw", "paint", "read", "spec_of", "to_bytes"]
