"""Tables and figures as a paper prints them, made from a store by a small file that names them."""

from lhaw_record.analytics.paper.paper import Paper, make
from lhaw_record.analytics.paper.spec import PRESETS, PaperSpec, preset, read_spec

__all__ = ["PRESETS", "Paper", "PaperSpec", "make", "preset", "read_spec"]
